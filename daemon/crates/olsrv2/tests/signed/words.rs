//! What a router still makes of what was said and quoted before: P is key 2, Q is key 3, and R is key 4.

use std::collections::BTreeMap;
use std::net::IpAddr;

use olsrv2::{Config, Event, InterfaceEvent, InterfaceId, Metric, Signatures, TrustedKey};
use rfc5444::iana::message::{HELLO, TC};
use rfc5444::iana::{address_tlv, cont_seq_num, link_metric, link_status, local_if, message_tlv};
use rfc5444::metric::compress;
use rfc5444::{AddressEntry, Message, Packet, Prefix, Tlv};

use crate::peers::*;

/// The link-local address of Q, where it is a neighbour.
const OTHER: &str = "fe80::8";
/// The counters of P and Q.
const OF_P: u64 = 300;
const OF_Q: u64 = 500;

fn locators() -> [IpAddr; 3] {
    [2, 3, 4].map(|number| locator(&key(number)))
}

/// Returns how many addresses are sent with a quote.
fn quotes(sent: &[Vec<u8>]) -> usize {
    let packets = sent.iter().map(|packet| Packet::decode(packet).unwrap());
    let messages = packets.flat_map(|packet| packet.messages);
    let entries = messages.flat_map(|message| message.addresses);
    entries
        .filter(|entry| {
            entry
                .tlv(address_tlv::TIMESTAMP, icv::TIMESTAMP_EXTENSION)
                .is_some()
        })
        .count()
}

#[test]
fn who_stops_to_look_at_signatures_quotes_nobody() {
    let [p, ..] = locators();
    for (signatures, quoted) in [(Signatures::Require, true), (Signatures::Off, false)] {
        let mut subject = Subject::new(Signatures::Require);
        let of_p = hello(p, vec![quote(FIRST)]);
        subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, OF_P, 0));
        assert!(quotes(&subject.pass(seconds(3))) > 0);
        let config = subject.router.config().clone();
        let config = Config {
            signatures,
            ..config
        };
        subject.router.reconfigure(subject.now, config);
        subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, OF_P + 1, 0));
        let sent = subject.pass(seconds(3));
        assert!(subject.is_symmetric() && !sent.is_empty());
        assert_eq!(quotes(&sent) > 0, quoted, "{signatures:?}");
    }
}

#[test]
fn a_hello_quotes_what_was_heard_on_its_interface_and_a_tc_the_newest() {
    const CABLE: InterfaceId = InterfaceId(2);
    const AT_CABLE: (&str, &str) = ("fe80::2", "fe80::a");
    let [p, ..] = locators();
    let mut subject = Subject::new(Signatures::Require);
    let (interface, addresses) = (CABLE, vec![address(AT_CABLE.0)]);
    let up = InterfaceEvent::Up {
        interface,
        addresses,
    };
    subject.router.handle_interface(subject.now, up);
    let mut on_mesh = hello(p, vec![quote(FIRST)]);
    let mut on_cable = on_mesh.clone();
    for (hello, other) in [(&mut on_mesh, AT_CABLE.1), (&mut on_cable, NEIGHBOUR)] {
        let elsewhere = Tlv::new(address_tlv::LOCAL_IF, 0, [local_if::OTHER_IF]);
        hello.addresses.push(entry(address(other), vec![elsewhere]));
    }
    on_cable.addresses[0].prefix = Prefix::host(address(AT_CABLE.1));
    on_cable.addresses[2].prefix = Prefix::host(address(AT_CABLE.0));
    subject.hear(NEIGHBOUR, &sign(&key(2), &on_mesh, OF_P, 0));
    subject.hear_on(CABLE, AT_CABLE.1, &sign(&key(2), &on_cable, OF_P + 1, 1));
    let mut seen = Vec::new();
    for transmit in subject.transmits(seconds(3)) {
        for message in Packet::decode(&transmit.bytes).unwrap().messages {
            let far = [p, address(NEIGHBOUR), address(AT_CABLE.1)];
            let listed = message.addresses.iter();
            let mut quoted = listed.filter(|entry| far.contains(&entry.prefix.addr));
            let last = match (message.typ, transmit.interface) {
                (HELLO, MESH) => OF_P,
                _ => OF_P + 1,
            };
            let of_link = |entry: &AddressEntry| {
                let is_elsewhere = entry.tlv(address_tlv::LINK_STATUS, 0).is_none();
                message.typ == HELLO && is_elsewhere || entry.tlvs.contains(&quote(last))
            };
            assert!(
                quoted.all(of_link),
                "{message:?} on {:?}",
                transmit.interface
            );
            seen.push((message.typ, transmit.interface));
        }
    }
    for expected in [(HELLO, MESH), (HELLO, CABLE), (TC, MESH)] {
        assert!(seen.contains(&expected), "{expected:?}");
    }
}

/// A HELLO of P, which can hardly hear the router, and lists Q so.
fn hello_of_p(about_q: Vec<Tlv>) -> Message {
    let [p, q, _] = locators();
    let mut of_p = hello(p, vec![quote(FIRST)]);
    let far = (link_metric::INCOMING_LINK | compress(Metric::MAX)).to_be_bytes();
    let tlvs = of_p.addresses.iter_mut().flat_map(|entry| &mut entry.tlvs);
    for tlv in tlvs.filter(|tlv| tlv.typ == address_tlv::LINK_METRIC) {
        *tlv = Tlv::new(address_tlv::LINK_METRIC, 0, far);
    }
    of_p.addresses.push(two_hop(q, about_q));
    of_p
}

/// A router that has Q as its neighbour, which hears P.
fn beside_q() -> Subject {
    let [p, q, _] = locators();
    let mut subject = Subject::new(Signatures::Require);
    let mut of_q = hello(q, vec![quote(FIRST)]);
    of_q.addresses[0].prefix = Prefix::host(address(OTHER));
    of_q.addresses.push(two_hop(p, vec![quote(OF_P)]));
    subject.hear(OTHER, &sign(&key(3), &of_q, OF_Q, 0));
    subject
}

#[test]
fn the_way_to_a_neighbour_over_another_one_needs_its_last_hello_or_tc_to_quote_that_one() {
    let [p, q, _] = locators();
    let (direct, over_q) = (Some(address(NEIGHBOUR)), Some(address(OTHER)));
    let quoting = || vec![quote(OF_Q)];
    for (first, second, tc_quotes, next_hop) in [
        (quoting(), None, None, over_q),
        (vec![], None, None, direct),
        (vec![], Some(quoting()), None, over_q),
        (quoting(), Some(vec![]), None, direct),
        (vec![], None, Some(quoting()), over_q),
        (vec![], None, Some(vec![]), direct),
    ] {
        let mut subject = beside_q();
        let case = format!("{first:?} {second:?} {tc_quotes:?}");
        let hellos = [Some(first), second].into_iter().flatten();
        for (counter, about_q) in (OF_P..).zip(hellos) {
            // The floor stays what Q quotes.
            let (octets, age) = (hello_of_p(about_q), (counter - OF_P) as u32);
            subject.hear(NEIGHBOUR, &sign(&key(2), &octets, counter, age));
        }
        if let Some(about_q) = tc_quotes {
            let of_p = tc(p, 1, vec![advertised(q, about_q)]);
            subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, OF_P + 5, 5));
        }
        assert_eq!(subject.route(p), next_hop, "{case}");
    }
}

#[test]
fn what_the_last_hello_denies_no_tc_confirms() {
    let [p, q, _] = locators();
    for (denied, next_hop) in [(false, OTHER), (true, NEIGHBOUR)] {
        let mut subject = beside_q();
        let of_p = tc(p, 1, vec![advertised(q, vec![quote(OF_Q)])]);
        let mut of_p = [hello_of_p(vec![]), of_p, hello_of_p(vec![])];
        if denied {
            // It lists Q last.
            let about_q = of_p[2].addresses.last_mut().unwrap();
            about_q.tlvs = vec![Tlv::new(address_tlv::LINK_STATUS, 0, [link_status::LOST])];
        }
        for (age, message) in (0..).zip(&of_p) {
            let counter = OF_P + u64::from(age);
            subject.hear(NEIGHBOUR, &sign(&key(2), message, counter, age));
        }
        assert_eq!(subject.route(p), Some(address(next_hop)), "{denied}");
    }
}

#[test]
fn a_card_ends_what_was_said_unsigned_under_its_address() {
    let [p, q, r] = locators();
    for (signs, reached) in [(false, true), (true, false)] {
        let mut subject = Subject::new(Signatures::Prefer);
        let mut of_p = hello(p, vec![]);
        of_p.addresses.push(two_hop(q, vec![]));
        let of_q = tc(q, 1, vec![advertised(p, vec![]), advertised(r, vec![])]);
        let of_r = tc(r, 1, vec![advertised(q, vec![])]);
        for message in [of_p, of_q, of_r] {
            subject.hear(NEIGHBOUR, &message.encode().unwrap());
        }
        assert!(subject.route(r).is_some());
        let card = TrustedKey {
            key: key(4).public(),
            signs,
        };
        subject.router.set_trusted_keys(BTreeMap::from([(r, card)]));
        assert_eq!(subject.route(r).is_some(), reached, "signs: {signs}");
    }
}

#[test]
fn a_tc_that_was_overtaken_on_the_way_changes_nothing() {
    let [_, q, r] = locators();
    let listing = |ansn| {
        let listed = vec![advertised(r, vec![])];
        (ansn, if ansn == 2 { listed } else { vec![] })
    };
    for order in [[1, 2], [2, 1]] {
        let mut subject = Subject::new(Signatures::Require);
        for (ansn, neighbours) in order.map(listing) {
            let message = tc(q, ansn, neighbours);
            let counter = OF_Q + u64::from(ansn);
            subject.hear(STRANGER, &sign(&key(3), &message, counter, ansn.into()));
        }
        let edges = subject.router.edges();
        assert!(edges.iter().any(|edge| (edge.from, edge.to) == (q, r)));
        let counters = subject.router.counters();
        let late = u64::from(order == [2, 1]);
        assert_eq!((counters.stale, counters.replayed), (late, 0), "{order:?}");
    }
}

/// A TC that says nothing of what it does not list.
fn part_of_tc(from: IpAddr, ansn: u16, neighbours: Vec<AddressEntry>) -> Message {
    let mut part = tc(from, ansn, neighbours);
    let number = ansn.to_be_bytes();
    part.tlvs[1] = Tlv::new(message_tlv::CONT_SEQ_NUM, cont_seq_num::INCOMPLETE, number);
    part
}

#[test]
fn a_part_of_a_tc_ends_what_was_said_unsigned_and_what_was_said_before_a_restart() {
    let [_, q, r] = locators();
    for (was_signed, ansn, stays) in [
        (true, 9, true),
        (true, 10, true),
        (true, 8, false),
        (false, 9, false),
        (false, 10, false),
    ] {
        let mut subject = Subject::new(Signatures::Prefer);
        let before = tc(q, 9, vec![advertised(r, vec![])]);
        let octets = match was_signed {
            true => sign(&key(3), &before, OF_Q, 0),
            false => before.encode().unwrap(),
        };
        subject.hear(STRANGER, &octets);
        let mut part = part_of_tc(q, ansn, vec![]);
        // Its counter is higher, so its sequence number may be lower.
        part.seq = Some(1);
        subject.hear(STRANGER, &sign(&key(3), &part, OF_Q + 1, 1));
        let edges = subject.router.edges();
        let found = edges.iter().any(|edge| (edge.from, edge.to) == (q, r));
        assert_eq!(found, stays, "signed: {was_signed}, then {ansn}");
    }
}

/// A router with P as its neighbour, which lists Q.
fn before_q() -> Subject {
    let [p, q, _] = locators();
    let mut subject = Subject::new(Signatures::Require);
    let mut of_p = hello(p, vec![quote(FIRST)]);
    of_p.addresses.push(two_hop(q, vec![quote(OF_Q)]));
    subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, OF_P, 0));
    subject
}

#[test]
fn a_part_of_a_tc_leaves_the_quotes_of_those_that_it_does_not_list() {
    let [p, q, r] = locators();
    for (is_part, reached) in [(true, true), (false, false)] {
        let mut subject = before_q();
        let first = tc(q, 1, vec![advertised(p, vec![quote(OF_P)])]);
        let later = vec![advertised(r, vec![])];
        let second = match is_part {
            true => part_of_tc(q, 2, later),
            false => tc(q, 2, later),
        };
        for (age, message) in (0..).zip([first, second]) {
            let counter = OF_Q + u64::from(age);
            subject.hear(NEIGHBOUR, &sign(&key(3), &message, counter, age));
        }
        assert_eq!(subject.route(q).is_some(), reached, "{is_part}");
    }
}

#[test]
fn a_quote_counts_at_a_neighbour_alone() {
    let [p, q, _] = locators();
    for (is_neighbour, reached) in [(true, true), (false, false)] {
        let mut subject = before_q();
        let mut about_p = match is_neighbour {
            true => advertised(p, vec![]),
            false => attached(p),
        };
        about_p.tlvs.push(quote(OF_P));
        let mut message = tc(q, 1, vec![about_p]);
        // It does not say that it lists all its neighbours, which would deny the link.
        message.tlvs.truncate(2);
        subject.hear(NEIGHBOUR, &sign(&key(3), &message, OF_Q, 0));
        assert_eq!(subject.route(q).is_some(), reached, "{is_neighbour}");
    }
}

#[test]
fn what_is_signed_may_have_other_contents_under_one_number_and_come_another_way() {
    let [p, q, r] = locators();
    for (signed, believed) in [(true, true), (false, false)] {
        let mut subject = Subject::new(Signatures::Prefer);
        let neighbours = [vec![r], vec![r, p]];
        for (count, (source, listed)) in
            (1..).zip([STRANGER, NEIGHBOUR].into_iter().zip(neighbours))
        {
            let listed = listed.into_iter().map(|to| advertised(to, vec![]));
            let mut message = tc(q, 1, listed.collect());
            message.seq = Some(count);
            let octets = match signed {
                true => sign(&key(3), &message, count.into(), 0),
                false => message.encode().unwrap(),
            };
            subject.hear(source, &octets);
        }
        let edges = subject.router.edges();
        let found = edges.iter().any(|edge| (edge.from, edge.to) == (q, p));
        assert_eq!(found, believed, "signed: {signed}");
        let disbelieved = subject.router.counters().disbelieved;
        assert_eq!(disbelieved, u64::from(!believed), "signed: {signed}");
    }
}

#[test]
fn that_a_router_signs_no_more_is_told_at_its_next_tc() {
    let [_, q, _] = locators();
    let mut subject = Subject::new(Signatures::Require);
    let say = |subject: &mut Subject, seq: u16| -> Vec<bool> {
        let mut message = tc(q, 1, vec![]);
        message.seq = Some(seq);
        while subject.router.poll_event().is_some() {}
        subject.hear(STRANGER, &sign(&key(3), &message, seq.into(), 0));
        let events = std::iter::from_fn(|| subject.router.poll_event());
        let views = events.filter_map(|event| match event {
            Event::NodeSet(node) => Some(node.signs),
            _ => None,
        });
        views.collect()
    };
    assert_eq!(say(&mut subject, 1), [true]);
    assert_eq!(say(&mut subject, 2), [], "nothing is new");
    let config = Config {
        signatures: Signatures::Off,
        ..subject.router.config().clone()
    };
    subject.router.reconfigure(subject.now, config);
    assert_eq!(say(&mut subject, 3), [false]);
    assert!(subject.router.nodes().iter().all(|node| !node.signs));
}
