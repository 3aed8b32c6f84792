//! Whose addresses a router announces beside its originator: P is key 2 and a neighbour, Q is key 3, and R is key 4.

use std::collections::BTreeMap;
use std::net::IpAddr;

use icv::Signer;
use olsrv2::{Signatures, TrustedKey};
use rfc5444::iana::{address_tlv, local_if};
use rfc5444::{AddressEntry, Message, Prefix, Tlv};

use crate::ipv4;
use crate::peers::*;

/// The neighbour of the router that has an IPv4 originator.
const V4_NEIGHBOUR: &str = "10.0.0.3";

type Cards = BTreeMap<IpAddr, TrustedKey>;
type Start = fn(Signatures) -> Beside;

fn card(address: IpAddr, of: &Signer, signs: bool) -> (IpAddr, TrustedKey) {
    let key = of.public();
    (address, TrustedKey { key, signs })
}

/// An address that the sender of a HELLO has on another interface.
fn elsewhere(address: IpAddr) -> AddressEntry {
    let other = Tlv::new(address_tlv::LOCAL_IF, 0, [local_if::OTHER_IF]);
    entry(address, vec![other])
}

/// Whether the route to an address is confirmed; `None` without a route.
fn confirmed(subject: &mut Subject, to: IpAddr) -> Option<bool> {
    subject.route(to)?;
    let routes = subject.router.routes();
    let found = routes
        .iter()
        .find(|one| one.destination == Prefix::host(to));
    found.map(|route| route.confirmed)
}

/// How a neighbour announces an address of a host.
#[derive(Clone, Copy, Debug)]
enum How {
    Attached,
    OtherInterface,
}

/// A router that has P as its neighbour, with an IPv4 or an IPv6 originator.
struct Beside {
    subject: Subject,
    p: IpAddr,
    source: &'static str,
    counter: u64,
}

impl Beside {
    fn v6(signatures: Signatures) -> Self {
        Self {
            subject: Subject::new(signatures),
            p: locator(&key(2)),
            source: NEIGHBOUR,
            counter: 300,
        }
    }

    fn v4(signatures: Signatures) -> Self {
        Self {
            subject: ipv4::subject(signatures),
            p: address(V4_NEIGHBOUR),
            source: V4_NEIGHBOUR,
            counter: 300,
        }
    }

    fn hello(&self) -> Message {
        match self.p {
            IpAddr::V4(_) => ipv4::hello(V4_NEIGHBOUR, self.subject.counter),
            IpAddr::V6(_) => hello(self.p, vec![quote(self.subject.counter)]),
        }
    }

    /// Lets P say something.
    fn say(&mut self, message: &Message, signs: bool) {
        self.counter += 1;
        let octets = match signs {
            true => sign(&key(2), message, self.counter, 1),
            false => message.encode().unwrap(),
        };
        self.subject.hear(self.source, &octets);
    }

    /// Lets P announce a host in a TC.
    fn attach(&mut self, host: IpAddr, number: u16) {
        self.say(&tc(self.p, number, vec![attached(host)]), true);
    }

    /// Lets P be a neighbour and announce a host.
    fn announce(&mut self, host: IpAddr, how: How, signs: bool) {
        let mut of_p = self.hello();
        let mut entries = vec![];
        match how {
            How::Attached => entries.push(attached(host)),
            How::OtherInterface => of_p.addresses.push(elsewhere(host)),
        }
        self.say(&of_p, signs);
        self.say(&tc(self.p, 1, entries), signs);
        assert!(self.subject.route(self.p).is_some());
    }
}

#[test]
fn an_old_message_of_a_peer_that_signs_gives_its_address_to_nobody() {
    let q = locator(&key(3));
    for signatures in [Signatures::Prefer, Signatures::Require] {
        for p_has_card in [false, true] {
            let case = format!("{signatures:?}, a card of P: {p_has_card}");
            let mut beside = Beside::v6(signatures);
            let mut cards = Cards::from([card(q, &key(3), true)]);
            cards.extend(p_has_card.then(|| card(beside.p, &key(2), true)));
            beside.subject.router.set_trusted_keys(cards);
            beside.announce(q, How::Attached, true);
            assert_eq!(beside.subject.route(q), None, "{case}");
            let old = sign(&key(3), &tc(q, 7, vec![]), 50, 0);
            beside.subject.hear(STRANGER, &old);
            assert!(beside.subject.knows(q));
            assert_eq!(beside.subject.route(q), None, "{case}, repeated");
        }
    }
}

#[test]
fn an_old_message_gives_nobody_the_address_of_a_peer_whose_card_is_not_known_yet() {
    // meshsecd sends the cards after the router has started.
    let q = locator(&key(3));
    let mut beside = Beside::v6(Signatures::Prefer);
    beside.announce(q, How::Attached, true);
    assert_eq!(confirmed(&mut beside.subject, q), Some(false));
    let old = sign(&key(3), &tc(q, 7, vec![]), 50, 0);
    beside.subject.hear(STRANGER, &old);
    let cards = Cards::from([card(q, &key(3), true)]);
    beside.subject.router.set_trusted_keys(cards);
    let old = sign(&key(3), &tc(q, 8, vec![]), 51, 1);
    beside.subject.hear(STRANGER, &old);
    // Routes are calculated with the next message or timer.
    beside.subject.pass(seconds(2));
    assert_eq!(beside.subject.route(q), None);
}

#[test]
fn a_router_that_still_announces_its_next_key_a_second_after_its_first_message_is_another_one() {
    let q = locator(&key(3));
    for (signatures, cards) in [
        (Signatures::Prefer, false),
        (Signatures::Prefer, true),
        (Signatures::Require, true),
    ] {
        for (again, later, stays) in [
            (false, 5, true),
            (true, 1000, true),
            (true, 1001, false),
            (true, 3000, false),
        ] {
            let case = format!("{signatures:?}, cards: {cards}, again: {again} after {later} ms");
            let mut beside = Beside::v6(signatures);
            let p = card(beside.p, &key(2), true);
            let with = |signs| Cards::from([p, card(q, &key(3), signs)]);
            if cards {
                beside.subject.router.set_trusted_keys(with(false));
            }
            beside.announce(q, How::Attached, true);
            assert_eq!(confirmed(&mut beside.subject, q), Some(cards), "{case}");
            let first = sign(&key(3), &tc(q, 7, vec![]), 50, 0);
            beside.subject.hear(STRANGER, &first);
            if cards {
                beside.subject.router.set_trusted_keys(with(true));
            }
            beside.subject.pass(std::time::Duration::from_millis(later));
            if again {
                beside.attach(q, 1);
            }
            let found = confirmed(&mut beside.subject, q);
            assert_eq!(found, stays.then_some(cards), "{case}");
        }
    }
}

#[test]
fn only_who_was_the_way_to_a_next_key_stays_it() {
    // Both P and R, which is behind P, announce Q.
    let [q, r] = [3, 4].map(|number| locator(&key(number)));
    for (signatures, cards) in [(Signatures::Prefer, false), (Signatures::Require, true)] {
        let mut beside = Beside::v6(signatures);
        let of = [(beside.p, 2, true), (q, 3, false), (r, 4, true)];
        let all = of.map(|(address, number, signs)| card(address, &key(number), signs));
        if cards {
            beside.subject.router.set_trusted_keys(all.into());
        }
        let mut of_p = beside.hello();
        of_p.addresses.push(two_hop(r, vec![quote(50)]));
        beside.say(&of_p, true);
        let of_p = tc(beside.p, 1, vec![attached(q), advertised(r, vec![])]);
        beside.say(&of_p, true);
        let hears_p = advertised(beside.p, vec![quote(beside.counter)]);
        let of_r = tc(r, 1, vec![hears_p, attached(q)]);
        beside.subject.hear(NEIGHBOUR, &sign(&key(4), &of_r, 50, 0));
        assert!(beside.subject.route(r).is_some());
        let announcer = |subject: &mut Subject| {
            subject.route(q)?;
            let routes = subject.router.routes();
            let found = routes.iter().find(|one| one.destination == Prefix::host(q));
            found.map(|route| route.originator)
        };
        assert_eq!(announcer(&mut beside.subject), Some(beside.p));
        let first = sign(&key(3), &tc(q, 7, vec![]), 50, 0);
        beside.subject.hear(STRANGER, &first);
        assert_eq!(announcer(&mut beside.subject), Some(beside.p));
        let of_p = tc(beside.p, 2, vec![advertised(r, vec![])]);
        beside.say(&of_p, true);
        assert_eq!(announcer(&mut beside.subject), None, "{signatures:?}");
    }
}

/// Addresses that no hash proves, and routers that have a neighbour in the same family.
const PLAIN: [(&str, Start); 2] = [("10.0.0.9", Beside::v4), ("2001:db8::9", Beside::v6)];

#[test]
fn nobody_takes_an_address_that_is_no_hash_where_a_card_says_whose_it_is() {
    for (host, beside) in PLAIN {
        for how in [How::Attached, How::OtherInterface] {
            for p_has_card in [false, true] {
                // The card's key is another one than P's, or P's.
                for (signatures, of, signs, expected) in [
                    (Signatures::Require, 3, true, None),
                    (Signatures::Require, 3, false, None),
                    (Signatures::Prefer, 3, true, None),
                    (Signatures::Prefer, 3, false, Some(false)),
                    (Signatures::Require, 2, true, Some(true)),
                    (Signatures::Prefer, 2, true, Some(true)),
                    (Signatures::Prefer, 2, false, Some(true)),
                    (Signatures::Off, 3, true, Some(true)),
                ] {
                    let mut beside = beside(signatures);
                    let mut cards = Cards::from([card(address(host), &key(of), signs)]);
                    cards.extend(p_has_card.then(|| card(beside.p, &key(2), true)));
                    beside.subject.router.set_trusted_keys(cards);
                    beside.announce(address(host), how, true);
                    let found = confirmed(&mut beside.subject, address(host));
                    // Who signs a HELLO does not name another key's address.
                    let is_named = matches!(how, How::Attached) || expected == Some(true);
                    let expected = expected.filter(|_| is_named);
                    let case = format!("{host} {how:?}: {signatures:?}, of {of}, signs: {signs}");
                    assert_eq!(found, expected, "{case}, P has a card: {p_has_card}");
                }
            }
        }
    }
}

#[test]
fn nobody_takes_an_address_that_is_no_hash_for_five_minutes_after_its_keys_last_message() {
    for (host, beside) in PLAIN {
        for how in [How::Attached, How::OtherInterface] {
            // It is out of the topology, so that its announcement is not refused for that.
            for (signatures, of, later, expected) in [
                (Signatures::Require, 3, 200, None),
                (Signatures::Prefer, 3, 200, None),
                (Signatures::Require, 2, 200, Some(true)),
                (Signatures::Prefer, 2, 200, Some(true)),
                (Signatures::Require, 3, 300, Some(true)),
                (Signatures::Prefer, 3, 300, Some(true)),
            ] {
                let mut beside = beside(signatures);
                let said = sign(&key(of), &tc(address(host), 1, vec![]), 50, 0);
                beside.subject.hear(beside.source, &said);
                beside.subject.pass(seconds(later));
                assert!(!beside.subject.knows(address(host)));
                beside.announce(address(host), how, true);
                let found = confirmed(&mut beside.subject, address(host));
                let case = format!("{host} {how:?}: {signatures:?}, of {of}, after {later} s");
                assert_eq!(found, expected, "{case}");
            }
        }
    }
}

#[test]
fn routers_keep_their_own_addresses_whether_they_sign_or_not() {
    for (host, beside) in PLAIN {
        for how in [How::Attached, How::OtherInterface] {
            for (signatures, signs, expected) in [
                (Signatures::Off, false, Some(true)),
                (Signatures::Prefer, false, Some(false)),
                (Signatures::Prefer, true, Some(true)),
                (Signatures::Require, true, Some(true)),
            ] {
                let mut beside = beside(signatures);
                beside.announce(address(host), how, signs);
                let found = confirmed(&mut beside.subject, address(host));
                let case = format!("{host} {how:?}: {signatures:?}, signs: {signs}");
                assert_eq!(found, expected, "{case}");
            }
        }
    }
}

#[test]
fn who_claims_the_hash_of_another_key_loses_it_when_its_router_speaks() {
    let q = locator(&key(3));
    for how in [How::Attached, How::OtherInterface] {
        for signs in [false, true] {
            for q_signs in [false, true] {
                let case = format!("{how:?}, P signs: {signs}, Q signs: {q_signs}");
                let mut beside = Beside::v6(Signatures::Prefer);
                beside.announce(q, how, signs);
                // Who signs a HELLO does not name another key's address.
                let is_named = !signs || matches!(how, How::Attached);
                let found = confirmed(&mut beside.subject, q);
                assert_eq!(found, is_named.then_some(false), "{case}");
                let of_q = tc(q, 7, vec![]);
                let said = match q_signs {
                    true => sign(&key(3), &of_q, 50, 0),
                    false => of_q.encode().unwrap(),
                };
                beside.subject.hear(STRANGER, &said);
                beside.subject.pass(seconds(2));
                let mut of_p = beside.hello();
                let mut entries = vec![];
                match how {
                    How::Attached => entries.push(attached(q)),
                    How::OtherInterface => of_p.addresses.push(elsewhere(q)),
                }
                beside.say(&of_p, signs);
                let of_p = tc(beside.p, 2, entries);
                beside.say(&of_p, signs);
                assert_eq!(beside.subject.route(q), None, "{case}");
                assert!(beside.subject.route(beside.p).is_some(), "{case}");
            }
        }
    }
}

#[test]
fn an_address_that_is_only_advertised_is_never_confirmed_where_signatures_count() {
    let q = locator(&key(3));
    for (host, beside) in [PLAIN[0], PLAIN[1], (&q.to_string(), Beside::v6)] {
        for (signatures, expected) in [
            (Signatures::Off, Some(true)),
            (Signatures::Prefer, Some(false)),
            (Signatures::Require, None),
        ] {
            let mut beside = beside(signatures);
            let of_p = beside.hello();
            beside.say(&of_p, true);
            let of_p = tc(beside.p, 1, vec![routable(address(host))]);
            beside.say(&of_p, true);
            let found = confirmed(&mut beside.subject, address(host));
            assert_eq!(found, expected, "{host}: {signatures:?}");
        }
    }
}

#[test]
fn where_signatures_are_off_a_path_is_confirmed_unless_the_far_end_of_a_link_denies_it() {
    let q = locator(&key(3));
    for denied in [false, true] {
        let mut beside = Beside::v6(Signatures::Off);
        let mut of_p = beside.hello();
        of_p.addresses.push(two_hop(q, vec![]));
        beside.say(&of_p, false);
        let hears = (!denied).then(|| advertised(beside.p, vec![]));
        let of_q = tc(q, 1, hears.into_iter().collect());
        beside.subject.hear(NEIGHBOUR, &of_q.encode().unwrap());
        assert_eq!(confirmed(&mut beside.subject, q), Some(!denied));
    }
}
