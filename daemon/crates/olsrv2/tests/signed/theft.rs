//! Nobody takes the link of a neighbour that signs, or keeps one away, by addresses that prove nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Event, InterfaceId, Signatures, TrustedKey};
use rfc5444::iana::{address_tlv, link_status, local_if, message};
use rfc5444::{AddressEntry, Message, Packet, Tlv};

use crate::ipv4;
use crate::peers::*;

const SECOND: InterfaceId = InterfaceId(2);

fn local(name: IpAddr, value: u8) -> AddressEntry {
    entry(name, vec![Tlv::new(address_tlv::LOCAL_IF, 0, [value])])
}

/// A HELLO of which every link has this status.
fn with_status(mut hello: Message, status: u8) -> Message {
    for tlv in hello.addresses.iter_mut().flat_map(|entry| &mut entry.tlvs) {
        if tlv.typ == address_tlv::LINK_STATUS {
            *tlv = Tlv::new(address_tlv::LINK_STATUS, 0, [status]);
        }
    }
    hello
}

/// A HELLO from an interface with another address.
fn from_address(mut hello: Message, source: &str) -> Message {
    hello.addresses[0] = local(address(source), local_if::THIS_IF);
    hello
}

fn card(number: u8) -> (IpAddr, TrustedKey) {
    let key = key(number);
    let trusted = TrustedKey {
        key: key.public(),
        signs: true,
    };
    (locator(&key), trusted)
}

/// A subject with a link to the router of key 2.
fn linked(signatures: Signatures, cards: &[u8]) -> Subject {
    let mut subject = Subject::new(signatures);
    let cards = cards.iter().map(|number| card(*number));
    subject.router.set_trusted_keys(cards.collect());
    let said = hello(locator(&key(2)), vec![quote(subject.counter)]);
    subject.hear(NEIGHBOUR, &sign(&key(2), &said, 300, 0));
    assert!(subject.route(locator(&key(2))).is_some());
    subject
}

#[test]
fn nobody_ends_or_takes_the_link_of_a_neighbour_that_signs_with_its_address_as_forged_source() {
    let (peer, liar) = (locator(&key(2)), locator(&key(3)));
    let modes = [Signatures::Require, Signatures::Prefer];
    for (signatures, cards) in modes
        .into_iter()
        .flat_map(|mode| [(mode, &[][..]), (mode, &[2]), (mode, &[2, 3])])
    {
        for status in [
            link_status::SYMMETRIC,
            link_status::HEARD,
            link_status::LOST,
        ] {
            let mut subject = linked(signatures, cards);
            let lie = with_status(hello(liar, vec![quote(subject.counter)]), status);
            let among_others = {
                let mut lie = from_address(lie.clone(), STRANGER);
                lie.addresses
                    .push(local(address(NEIGHBOUR), local_if::OTHER_IF));
                lie
            };
            subject.hear(NEIGHBOUR, &sign(&key(3), &lie, 1, 0));
            subject.hear(STRANGER, &sign(&key(3), &among_others, 2, 0));
            subject.hear(NEIGHBOUR, &sign(&key(3), &among_others, 3, 0));
            subject.hear(
                NEIGHBOUR,
                &from_address(lie.clone(), STRANGER).encode().unwrap(),
            );
            subject.hear(NEIGHBOUR, &lie.encode().unwrap());
            let case = format!("{signatures:?}, cards {cards:?}, status {status}");
            assert_eq!(subject.route(peer), Some(address(NEIGHBOUR)), "{case}");
            assert_eq!(subject.route(liar), None, "{case}");
            let refused = subject.router.counters();
            let all = refused.disbelieved + refused.not_signed + refused.forged;
            assert_eq!(all, 5, "{case}");
        }
    }
}

#[test]
fn a_link_whose_neighbour_is_gone_is_anybodys() {
    let other = locator(&key(3));
    let mut subject = linked(Signatures::Require, &[2]);
    subject.pass(seconds(60));
    let said = hello(other, vec![quote(subject.counter)]);
    subject.hear(NEIGHBOUR, &sign(&key(3), &said, 1, 0));
    assert_eq!(subject.route(other), Some(address(NEIGHBOUR)));
}

#[test]
fn a_card_takes_the_link_of_a_key_without_one() {
    let other = locator(&key(3));
    let mut subject = linked(Signatures::Require, &[3]);
    let said = hello(other, vec![quote(subject.counter)]);
    subject.hear(NEIGHBOUR, &sign(&key(3), &said, 1, 0));
    assert_eq!(subject.route(other), Some(address(NEIGHBOUR)));
    assert_eq!(subject.route(locator(&key(2))), None);
}

#[test]
fn the_next_key_takes_the_link_of_the_present_one_which_has_announced_it() {
    let next = locator(&key(3));
    for announced in [false, true] {
        let mut subject = linked(Signatures::Require, &[2, 3]);
        let networks = if announced {
            vec![attached(next)]
        } else {
            vec![]
        };
        let said = tc(locator(&key(2)), 1, networks);
        subject.hear(NEIGHBOUR, &sign(&key(2), &said, 301, 0));
        let said = hello(next, vec![quote(subject.counter)]);
        subject.hear(NEIGHBOUR, &sign(&key(3), &said, 1, 0));
        assert_eq!(
            subject.router.neighbours()[0].originator == Some(next),
            announced
        );
    }
}

#[test]
fn who_lists_the_address_of_another_key_keeps_nobody_out() {
    let (peer, liar) = (locator(&key(2)), locator(&key(3)));
    for signatures in [Signatures::Require, Signatures::Prefer] {
        for (signed, carded) in [(true, false), (true, true), (false, false)] {
            let mut subject = Subject::new(signatures);
            let mut cards = BTreeMap::from([card(2)]);
            if carded {
                cards.extend([card(3)]);
            }
            subject.router.set_trusted_keys(cards);
            let mut number = 0;
            let mut lie = |subject: &mut Subject| {
                number += 1;
                let lie = hello(liar, vec![quote(subject.counter)]);
                let mut lie = from_address(lie, STRANGER);
                lie.addresses.push(local(peer, local_if::OTHER_IF));
                match signed {
                    true => subject.hear(STRANGER, &sign(&key(3), &lie, number, 0)),
                    false => subject.hear(STRANGER, &lie.encode().unwrap()),
                }
            };
            lie(&mut subject);
            assert_eq!(subject.route(peer), None);
            let said = hello(peer, vec![quote(subject.counter)]);
            subject.hear(NEIGHBOUR, &sign(&key(2), &said, 300, 0));
            lie(&mut subject);
            let case = format!("{signatures:?}, signed {signed}, carded {carded}");
            assert_eq!(subject.route(peer), Some(address(NEIGHBOUR)), "{case}");
        }
    }
}

#[test]
fn a_hello_that_comes_from_another_address_than_its_senders_makes_no_link() {
    let peer = locator(&key(2));
    let mut subject = Subject::new(Signatures::Require);
    let said = hello(peer, vec![quote(subject.counter)]);
    subject.hear(STRANGER, &sign(&key(2), &said, 300, 0));
    assert_eq!(subject.route(peer), None);
    assert_eq!(subject.router.counters().disbelieved, 1);
    subject.hear(NEIGHBOUR, &sign(&key(2), &said, 301, 0));
    assert_eq!(subject.route(peer), Some(address(NEIGHBOUR)));
}

#[test]
fn a_copy_of_its_own_hello_does_not_make_a_router_believe_that_it_has_a_twin() {
    let mut subject = Subject::new(Signatures::Require);
    let sent = subject.pass(seconds(5));
    let is_hello = |message: &Message| message.typ == message::HELLO;
    let own = |packet: &&Vec<u8>| {
        Packet::decode(packet)
            .unwrap()
            .messages
            .iter()
            .any(is_hello)
    };
    let copy = sent.iter().find(own).unwrap();
    while subject.router.poll_event().is_some() {}
    subject
        .router
        .handle_packet(subject.now, MESH, address(STRANGER), copy);
    let mut events = std::iter::from_fn(|| subject.router.poll_event());
    assert!(!events.any(|event| matches!(event, Event::DuplicateOriginator { .. })));
    assert_eq!(subject.router.counters().spoofed, 1);
}

/// A router with two interfaces that share its address.
fn with_two_interfaces() -> Subject {
    ipv4::subject_on(&[MESH, SECOND], Signatures::Require)
}

#[test]
fn a_hello_makes_a_link_where_it_is_heard_and_later_none_on_another_interface() {
    for (later, links) in [(0, 2), (900, 2), (2000, 1), (10_000, 1)] {
        let mut subject = with_two_interfaces();
        let said = sign(&key(2), &ipv4::hello("10.0.0.2", subject.counter), 300, 0);
        subject.hear_on(MESH, "10.0.0.2", &said);
        subject.pass(Duration::from_millis(later));
        subject.hear_on(SECOND, "10.0.0.2", &said);
        assert_eq!(subject.router.links().len(), links, "{later} ms later");
        let again = sign(&key(2), &ipv4::hello("10.0.0.2", subject.counter), 301, 0);
        subject.hear_on(SECOND, "10.0.0.2", &again);
        assert_eq!(
            subject.router.links().len(),
            2,
            "its next HELLO is heard there"
        );
    }
}

#[test]
fn nobody_takes_the_ipv4_address_of_a_neighbour_that_signs() {
    let mut subject = with_two_interfaces();
    let said = sign(&key(2), &ipv4::hello("10.0.0.2", subject.counter), 300, 0);
    subject.hear_on(MESH, "10.0.0.2", &said);
    let mut lie = ipv4::hello("10.0.0.2", subject.counter);
    lie.originator = Some(address("10.0.0.3"));
    subject.hear_on(MESH, "10.0.0.2", &sign(&key(3), &lie, 1, 0));
    assert_eq!(
        subject.route(address("10.0.0.2")),
        Some(address("10.0.0.2"))
    );
    assert_eq!(subject.route(address("10.0.0.3")), None);
    assert_eq!(subject.router.counters().disbelieved, 1);
}
