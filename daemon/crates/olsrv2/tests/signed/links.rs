//! Which links count: router - P - Q, where P is key 2 and Q is key 3.

use std::collections::BTreeMap;
use std::net::IpAddr;

use olsrv2::{Signatures, TrustedKey};
use rfc5444::iana::{address_tlv, link_status, local_if, message};
use rfc5444::{AddressEntry, Message, Packet, Prefix, Tlv};

use crate::peers::*;

/// The counter and the age of P's HELLOs.
const P_COUNTER: u64 = 300;
const P_AGE: u32 = 10;
/// The link-local address of Q, where it is a neighbour too.
const OTHER: &str = "fe80::8";
const P_FLOOR: u64 = P_COUNTER - P_AGE as u64;

fn p() -> IpAddr {
    locator(&key(2))
}

fn q() -> IpAddr {
    locator(&key(3))
}

/// Quotes of a counter with another length, type extension or type.
fn odd_quotes(counter: u64) -> Vec<Tlv> {
    let low = (counter as u32).to_be_bytes();
    // Longer ones begin or end with the right octets.
    let long = [low, low, low].concat();
    let lengths = [0, 1, 2, 3, 5, 8, 12];
    let odd = lengths.map(|length| {
        Tlv::new(
            address_tlv::TIMESTAMP,
            icv::TIMESTAMP_EXTENSION,
            &long[..length],
        )
    });
    let mut odd = Vec::from(odd);
    for ext in [0, 1, 224, 251, 253, 255] {
        odd.push(Tlv::new(address_tlv::TIMESTAMP, ext, low));
    }
    odd.push(Tlv::new(address_tlv::ICV, icv::ICV_EXTENSION, low));
    odd
}

fn with_hello(signatures: Signatures, at_router: Vec<Tlv>) -> Subject {
    let mut subject = Subject::new(signatures);
    subject.hear(
        NEIGHBOUR,
        &sign(&key(2), &hello(p(), at_router), P_COUNTER, P_AGE),
    );
    subject
}

#[test]
fn a_neighbour_proves_that_it_has_heard_the_router_since_it_started() {
    for (counter, symmetric) in [
        (FIRST, true),
        (FIRST + 1, true),
        (FIRST + (1 << 20) - 1, true),
        (FIRST + (1 << 20), false),
        (FIRST - 1, false),
        (0, false),
        (FIRST + (1 << 31), false),
    ] {
        let subject = with_hello(Signatures::Require, vec![quote(counter)]);
        assert_eq!(subject.is_symmetric(), symmetric, "{counter}");
        assert_eq!(subject.router.counters().forged, 0);
    }
}

/// Validity of the HELLOs of P, in seconds.
const VALIDITY: u64 = 20;

fn unsigned_neighbour() -> Subject {
    let mut subject = Subject::new(Signatures::Prefer);
    subject.hear(NEIGHBOUR, &hello(p(), vec![]).encode().unwrap());
    assert!(subject.is_symmetric());
    subject
}

#[test]
fn a_neighbour_that_begins_to_sign_stays_one_until_it_quotes_the_router() {
    let mut subject = unsigned_neighbour();
    subject.pass(seconds(VALIDITY - 2));
    subject.hear(
        NEIGHBOUR,
        &sign(&key(2), &hello(p(), vec![]), P_COUNTER, P_AGE),
    );
    assert!(subject.is_symmetric());
    let quoting = hello(p(), vec![quote(subject.counter)]);
    subject.hear(
        NEIGHBOUR,
        &sign(&key(2), &quoting, P_COUNTER + 1, P_AGE + 1),
    );
    subject.pass(seconds(VALIDITY - 2));
    assert!(subject.is_symmetric());
}

#[test]
fn a_neighbour_that_does_not_quote_the_router_is_none_when_what_it_said_before_ends() {
    let mut subject = unsigned_neighbour();
    for second in 1..=VALIDITY {
        assert!(subject.is_symmetric(), "{second}");
        subject.pass(seconds(1));
        let age = P_AGE + u32::try_from(second).unwrap();
        let signed = sign(&key(2), &hello(p(), vec![]), P_COUNTER + second, age);
        subject.hear(NEIGHBOUR, &signed);
    }
    subject.pass(seconds(1));
    assert!(!subject.is_symmetric());
}

#[test]
fn a_neighbour_that_has_lost_the_router_needs_no_quote_to_say_so() {
    let mut subject = unsigned_neighbour();
    let mut lost = hello(p(), vec![]);
    let status = lost.addresses.iter_mut().flat_map(|entry| &mut entry.tlvs);
    for tlv in status.filter(|tlv| tlv.typ == address_tlv::LINK_STATUS) {
        *tlv = Tlv::new(address_tlv::LINK_STATUS, 0, [link_status::LOST]);
    }
    subject.hear(NEIGHBOUR, &sign(&key(2), &lost, P_COUNTER, P_AGE));
    assert!(!subject.is_symmetric());
}

#[test]
fn a_quote_of_another_form_is_none() {
    assert!(!with_hello(Signatures::Require, vec![]).is_symmetric());
    for odd in odd_quotes(FIRST) {
        let subject = with_hello(Signatures::Require, vec![odd.clone()]);
        assert!(!subject.is_symmetric(), "{odd:?}");
    }
}

#[test]
fn a_router_that_does_not_sign_asks_for_no_proof() {
    let mut subject = Subject::new(Signatures::Require);
    subject.router.set_signing(false);
    subject.hear(
        NEIGHBOUR,
        &sign(&key(2), &hello(p(), vec![]), P_COUNTER, P_AGE),
    );
    assert!(subject.is_symmetric());
}

#[test]
fn all_addresses_of_a_neighbour_are_quoted_with_its_last_counter() {
    let mut subject = with_hello(Signatures::Require, vec![quote(FIRST)]);
    let sent = subject.pass(seconds(3));
    let packets = sent.iter().map(|packet| Packet::decode(packet).unwrap());
    let messages: Vec<Message> = packets.flat_map(|packet| packet.messages).collect();
    for typ in [message::HELLO, message::TC] {
        let of_type = messages.iter().filter(|message| message.typ == typ);
        let entries = of_type.flat_map(|message| &message.addresses);
        let of_p = |entry: &&AddressEntry| {
            let theirs = [p(), address(NEIGHBOUR)].contains(&entry.prefix.addr);
            theirs && entry.tlv(address_tlv::LOCAL_IF, 0).is_none()
        };
        let of_p: Vec<_> = entries.filter(of_p).collect();
        assert!(!of_p.is_empty());
        for entry in of_p {
            let quoted = entry.tlv(address_tlv::TIMESTAMP, icv::TIMESTAMP_EXTENSION);
            assert_eq!(quoted, Some(&quote(P_COUNTER)), "{typ}: {entry:?}");
        }
    }
}

/// P, which lists Q in its HELLO, and a TC of Q with this entry for P, if there is one.
fn network(signatures: Signatures, of_q: Option<Message>) -> Subject {
    let mut subject = Subject::new(signatures);
    let mut of_p = hello(p(), vec![quote(FIRST)]);
    of_p.addresses.push(two_hop(q(), vec![quote(500)]));
    subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, P_COUNTER, P_AGE));
    if let Some(tc) = of_q {
        subject.hear(NEIGHBOUR, &sign(&key(3), &tc, 500, 10));
    }
    assert!(subject.is_symmetric());
    subject
}

fn of_q(about_p: Vec<Tlv>) -> Option<Message> {
    Some(tc(q(), 1, vec![advertised(p(), about_p)]))
}

#[test]
fn a_link_counts_when_its_far_end_quotes_the_floor_of_its_near_end_or_more() {
    for (counter, confirmed) in [
        (P_FLOOR, true),
        (P_COUNTER, true),
        (P_FLOOR - 1, false),
        (0, false),
    ] {
        let mut subject = network(Signatures::Require, of_q(vec![quote(counter)]));
        assert_eq!(subject.route(q()).is_some(), confirmed, "{counter}");
    }
    let mut without = network(Signatures::Require, of_q(vec![]));
    assert_eq!(without.route(q()), None);
    for odd in odd_quotes(P_COUNTER) {
        let mut subject = network(Signatures::Require, of_q(vec![odd.clone()]));
        assert_eq!(subject.route(q()), None, "{odd:?}");
    }
}

#[test]
fn a_link_that_one_end_alone_claims_is_none_where_the_other_end_signs() {
    for signatures in [Signatures::Require, Signatures::Prefer] {
        // Q's signed TC does not list P.
        let mut subject = network(signatures, Some(tc(q(), 1, vec![])));
        assert_eq!(subject.route(q()), None, "{signatures:?}");
    }
    // Nobody has heard Q. Its card says that it signs, or there is none.
    for (signs, reached) in [(None, true), (Some(false), true), (Some(true), false)] {
        let mut subject = network(Signatures::Prefer, None);
        let key = key(3).public();
        let cards = signs.map(|signs| (q(), TrustedKey { key, signs }));
        subject.router.set_trusted_keys(BTreeMap::from_iter(cards));
        subject.pass(seconds(3));
        assert_eq!(subject.route(q()).is_some(), reached, "{signs:?}");
        let mut subject = network(Signatures::Require, None);
        assert_eq!(subject.route(q()), None);
    }
}

#[test]
fn a_link_without_a_quote_is_the_last_resort_where_signatures_are_preferred() {
    let mut subject = network(Signatures::Prefer, of_q(vec![]));
    assert!(subject.route(q()).is_some());
}

#[test]
fn the_near_end_must_have_signed_too() {
    let mut subject = Subject::new(Signatures::Prefer);
    let mut of_p = hello(p(), vec![]);
    of_p.addresses.push(two_hop(q(), vec![]));
    subject.hear(NEIGHBOUR, &of_p.encode().unwrap());
    let tc_of_q = of_q(vec![quote(P_COUNTER)]).unwrap();
    subject.hear(NEIGHBOUR, &sign(&key(3), &tc_of_q, 500, 10));
    assert!(subject.route(q()).is_some(), "claimed");
    require(&mut subject);
    assert_eq!(subject.route(q()), None, "not confirmed");
    assert_eq!(subject.route(p()), None, "nor is the link to P");
}

/// Changes the setting, so that claimed links count no more.
fn require(subject: &mut Subject) {
    let config = olsrv2::Config {
        signatures: Signatures::Require,
        ..subject.router.config().clone()
    };
    subject.router.reconfigure(subject.now, config);
}

#[test]
fn what_the_far_end_quotes_without_a_signature_confirms_nothing() {
    let tc = of_q(vec![quote(P_COUNTER)]).unwrap();
    let mut hello = hello(q(), vec![]);
    hello.addresses[0].prefix = rfc5444::Prefix::host(address(OTHER));
    hello.addresses.push(two_hop(p(), vec![quote(P_COUNTER)]));
    for (source, message) in [(NEIGHBOUR, tc), (OTHER, hello)] {
        let mut subject = network(Signatures::Prefer, None);
        subject.hear(source, &message.encode().unwrap());
        assert!(subject.route(q()).is_some(), "claimed by {source}");
        require(&mut subject);
        assert!(subject.route(p()).is_some());
        assert_eq!(subject.route(q()), None, "not confirmed by {source}");
    }
}

/// Whether the router routes to an address of key 4 that P announces: as a host behind it, or as an address of it.
fn announced(signatures: Signatures, p_signs: bool, signs: bool, entry: AddressEntry) -> bool {
    let mut subject = Subject::new(signatures);
    let away = locator(&key(4));
    let key_4 = key(4).public();
    let card = TrustedKey { key: key_4, signs };
    subject
        .router
        .set_trusted_keys(BTreeMap::from([(away, card)]));
    let messages = [hello(p(), vec![quote(FIRST)]), tc(p(), 1, vec![entry])];
    for (counter, message) in (P_COUNTER..).zip(messages) {
        let octets = match p_signs {
            true => sign(&key(2), &message, counter, P_AGE),
            false => message.encode().unwrap(),
        };
        subject.hear(NEIGHBOUR, &octets);
    }
    subject.route(away).is_some()
}

#[test]
fn nobody_announces_the_address_of_another_key() {
    let away = locator(&key(4));
    for signs in [false, true] {
        assert!(!announced(Signatures::Require, true, signs, attached(away)));
        assert!(announced(Signatures::Off, true, signs, attached(away)));
        // Neither a signature of P nor its absence says whose the address is; the card of the address does.
        for p_signs in [false, true] {
            let found = announced(Signatures::Prefer, p_signs, signs, attached(away));
            assert_eq!(found, !signs, "p signs: {p_signs}");
        }
    }
}

#[test]
fn a_strangers_next_key_is_reached_where_signatures_are_preferred_and_is_not_confirmed() {
    let mut subject = Subject::new(Signatures::Prefer);
    let next = locator(&key(4));
    let of_p = hello(p(), vec![quote(FIRST)]);
    let announcement = tc(p(), 1, vec![attached(next)]);
    for (counter, message) in (P_COUNTER..).zip([of_p, announcement]) {
        subject.hear(NEIGHBOUR, &sign(&key(2), &message, counter, P_AGE));
    }
    for (host, confirmed) in [(p(), true), (next, false)] {
        assert!(subject.route(host).is_some(), "{host}");
        let routes = subject.router.routes().into_iter();
        let mut found = routes.filter(|route| route.destination == Prefix::host(host));
        assert_eq!(found.next().map(|route| route.confirmed), Some(confirmed));
    }
}

#[test]
fn a_card_lets_announce_a_next_key_and_no_key_that_signs() {
    let away = locator(&key(4));
    let card = |number, signs| {
        let of = key(number);
        let key = of.public();
        (locator(&of), TrustedKey { key, signs })
    };
    for (signs, reached) in [(false, true), (true, false)] {
        let mut subject = Subject::new(Signatures::Require);
        let cards = BTreeMap::from([card(2, true), card(4, signs)]);
        subject.router.set_trusted_keys(cards);
        let of_p = hello(p(), vec![quote(FIRST)]);
        let announcement = tc(p(), 1, vec![attached(away)]);
        subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, P_COUNTER, P_AGE));
        subject.hear(
            NEIGHBOUR,
            &sign(&key(2), &announcement, P_COUNTER + 1, P_AGE),
        );
        assert_eq!(subject.route(away).is_some(), reached, "signs: {signs}");
    }
}

#[test]
fn nobody_says_hello_with_the_address_of_another_key() {
    let away = locator(&key(4));
    let card = TrustedKey {
        key: key(4).public(),
        signs: true,
    };
    for (signatures, p_signs, reached) in [
        (Signatures::Off, true, true),
        (Signatures::Require, true, false),
        (Signatures::Prefer, true, false),
        (Signatures::Prefer, false, false),
    ] {
        let mut subject = Subject::new(signatures);
        subject
            .router
            .set_trusted_keys(BTreeMap::from([(away, card)]));
        let mut of_p = hello(p(), vec![quote(FIRST)]);
        let other = Tlv::new(address_tlv::LOCAL_IF, 0, [local_if::OTHER_IF]);
        of_p.addresses.push(entry(away, vec![other]));
        let octets = match p_signs {
            true => sign(&key(2), &of_p, P_COUNTER, P_AGE),
            false => of_p.encode().unwrap(),
        };
        subject.hear(NEIGHBOUR, &octets);
        assert!(subject.is_symmetric());
        assert_eq!(subject.route(away).is_some(), reached, "{signatures:?}");
        assert!(subject.route(p()).is_some());
    }
}

#[test]
fn nobody_advertises_as_a_mere_address_who_signs() {
    let away = locator(&key(4));
    for (signatures, signs, reached) in [
        (Signatures::Off, true, true),
        (Signatures::Prefer, false, true),
        (Signatures::Prefer, true, false),
        (Signatures::Require, false, false),
        (Signatures::Require, true, false),
    ] {
        let found = announced(signatures, true, signs, routable(away));
        assert_eq!(found, reached, "{signatures:?}, signs: {signs}");
    }
}
