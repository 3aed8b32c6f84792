//! What false signatures cost: how many of them are verified.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Signatures, TrustedKey};
use rfc5444::{Message, Prefix};

use crate::peers::*;

/// TCs of Q with false signatures and ever higher counters.
fn forgeries(count: u64) -> impl Iterator<Item = Vec<u8>> {
    forged(&tc(locator(&key(3)), 1, vec![]), count)
}

fn forged(message: &Message, count: u64) -> impl Iterator<Item = Vec<u8>> {
    let signed = sign(&key(3), message, 1, 0);
    let stamp = signed
        .windows(4)
        .position(|four| four == [6, 0x90, 252, 12]);
    let counter = stamp.unwrap() + 4;
    (2..2 + count).map(move |number| {
        let mut forged = signed.clone();
        forged[counter..][..8].copy_from_slice(&number.to_be_bytes());
        forged
    })
}

fn stranger(number: usize) -> String {
    format!("fe80::1:{number:x}")
}

/// One of 16 beyond the budget.
fn sampled(beyond: u64) -> u64 {
    beyond / 16
}

#[test]
fn a_source_has_16_failures_at_once_and_4_a_second() {
    let mut subject = Subject::new(Signatures::Require);
    for forged in forgeries(1000) {
        subject.hear(STRANGER, &forged);
    }
    let first = subject.router.counters();
    assert_eq!(first.verified, 16 + sampled(1000 - 16));
    assert_eq!(first.rate_limited, 1000 - first.verified);
    subject.pass(seconds(2));
    for forged in forgeries(2000).skip(1000) {
        subject.hear(STRANGER, &forged);
    }
    let second = subject.router.counters().verified - first.verified;
    assert!((8 + 61..=8 + 62).contains(&second), "{second}");
}

#[test]
fn strangers_have_128_failures_at_once_together() {
    let mut subject = Subject::new(Signatures::Require);
    for (number, forged) in forgeries(1000).enumerate() {
        subject.hear(&stranger(number), &forged);
    }
    assert_eq!(
        subject.router.counters().verified,
        128 + sampled(1000 - 128)
    );
}

#[test]
fn strangers_do_not_use_up_what_a_neighbour_has() {
    let mut subject = Subject::new(Signatures::Require);
    let of_p = hello(locator(&key(2)), vec![quote(FIRST)]);
    subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, 1, 0));
    assert!(subject.is_symmetric());
    for (number, forged) in forgeries(1000).enumerate() {
        subject.hear(&stranger(number), &forged);
    }
    // The flood leaves what comes through the neighbour untouched: every message of it is verified.
    let before = subject.router.counters();
    for number in 1..=100 {
        let message = tc(locator(&key(3)), number, vec![]);
        subject.hear(
            NEIGHBOUR,
            &sign(&key(3), &message, 5000 + u64::from(number), 0),
        );
    }
    let after = subject.router.counters();
    assert_eq!(after.verified - before.verified, 100);
    assert_eq!(after.forged, before.forged);
}

#[test]
fn a_neighbours_hellos_are_verified_however_many_of_its_messages_are_false() {
    let mut subject = Subject::new(Signatures::Require);
    let from = locator(&key(2));
    let of_p = hello(from, vec![quote(FIRST)]);
    subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, 1, 0));
    // More than a neighbour has at once: what is no HELLO is verified in part.
    let before = subject.router.counters().verified;
    for forged in forgeries(1000) {
        subject.hear(NEIGHBOUR, &forged);
    }
    let of_forgeries = subject.router.counters().verified - before;
    assert_eq!(of_forgeries, 256 + sampled(1000 - 256));
    let before = subject.router.counters().verified;
    for counter in 2..22 {
        subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, counter, 0));
    }
    assert_eq!(subject.router.counters().verified - before, 20);
}

/// TCs of as many invented routers, each signed by one key. Their addresses are no hashes.
fn invented(count: u16) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|number| {
        let from = address(&format!("10.1.{}.{}", number >> 8, number & 255));
        sign(&key(4), &tc(from, 1, vec![]), u64::from(number) + 1, 0)
    })
}

#[test]
fn invented_routers_are_512_at_once_and_128_a_second_whoever_sends_them() {
    let mut subject = Subject::new(Signatures::Require);
    for (number, signed) in invented(2000).enumerate() {
        subject.hear(&stranger(number), &signed);
    }
    let first = subject.router.counters().verified;
    assert_eq!(first, 512 + sampled(2000 - 512));
    subject.pass(seconds(1));
    for (number, signed) in invented(4000).enumerate().skip(2000) {
        subject.hear(&stranger(number), &signed);
    }
    let second = subject.router.counters().verified - first;
    assert!((128 + 116..=128 + 118).contains(&second), "{second}");
}

#[test]
fn invented_routers_keep_out_nobody_who_is_known_or_trusted() {
    let mut subject = Subject::new(Signatures::Require);
    let known = |number: u16| {
        sign(
            &key(3),
            &tc(locator(&key(3)), number, vec![]),
            number.into(),
            0,
        )
    };
    subject.hear(STRANGER, &known(1));
    let trusted = TrustedKey {
        key: key(2).public(),
        signs: true,
    };
    let cards = [(locator(&key(2)), trusted)];
    subject.router.set_trusted_keys(cards.into());
    for (number, signed) in invented(2000).enumerate() {
        subject.hear(&stranger(number), &signed);
    }
    let before = subject.router.counters().verified;
    subject.hear(STRANGER, &known(2));
    subject.hear(
        STRANGER,
        &sign(&key(2), &tc(locator(&key(2)), 1, vec![]), 1, 0),
    );
    assert_eq!(subject.router.counters().verified - before, 2);
    assert!(subject.knows(locator(&key(2))));
}

#[test]
fn true_signatures_use_nothing_up() {
    let mut subject = Subject::new(Signatures::Require);
    for number in 1..=1000 {
        let message = tc(locator(&key(3)), number, vec![]);
        subject.hear(STRANGER, &sign(&key(3), &message, number.into(), 0));
    }
    // What a newcomer has is untouched too.
    subject.hear(STRANGER, &invented(1).next().unwrap());
    let counters = subject.router.counters();
    assert_eq!((counters.verified, counters.rate_limited), (1001, 0));
}

/// HELLOs a second of the floods below.
const FLOOD: u64 = 2000;
/// A router's number in the floods below, and its source.
const NEWCOMERS: std::ops::Range<u64> = 0..8;

fn source_of(number: u64) -> String {
    format!("fe80::2:{number:x}")
}

/// The HELLO of a newcomer, whose originator is no hash, and which has heard the router.
fn of_newcomer(number: u64, counter: u64) -> Vec<u8> {
    let mut message = hello(
        address(&format!("2001:db8::{number:x}")),
        vec![quote(FIRST)],
    );
    message.addresses[0].prefix = Prefix::host(address(&source_of(number)));
    sign(&key(2), &message, counter, 0)
}

/// Lets a flood of false HELLOs begin, each from the source that is said, and newcomers a second later, each of which says
/// HELLO every 2 s. Returns how many HELLOs each needed, and the most verifications of a second.
fn found(subject: &mut Subject, from: impl Fn(u64) -> String) -> (Vec<u64>, u64) {
    let mut needed: Vec<Option<u64>> = NEWCOMERS.map(|_| None).collect();
    let mut verified = vec![subject.router.counters().verified];
    let forged = forged(&hello(locator(&key(3)), vec![]), 9 * FLOOD);
    for (number, forged) in (0..).zip(forged) {
        subject.hear(&from(number), &forged);
        let slot = FLOOD / 4;
        if number >= FLOOD && number % slot == 0 {
            // Two newcomers speak in each quarter of a second, at other times of it.
            let turn = (number - FLOOD) / slot;
            for newcomer in NEWCOMERS.filter(|newcomer| turn % 8 == *newcomer) {
                subject.hear(
                    &source_of(newcomer),
                    &of_newcomer(newcomer, 10 * turn + newcomer + 1),
                );
                let links = subject.router.links();
                let address = address(&source_of(newcomer));
                if links.iter().any(|link| link.address == address) {
                    needed[newcomer as usize].get_or_insert(turn / 8 + 1);
                }
            }
        }
        if number % FLOOD == FLOOD - 1 {
            verified.push(subject.router.counters().verified);
        }
        subject.pass(Duration::from_secs(1) / FLOOD as u32);
    }
    let most = verified.windows(2).map(|pair| pair[1] - pair[0]).max();
    let needed = needed.into_iter().map(|count| count.unwrap_or(u64::MAX));
    (needed.collect(), most.unwrap())
}

#[test]
fn newcomers_are_found_by_their_second_hello_in_a_flood_from_invented_addresses() {
    let mut subject = Subject::new(Signatures::Require);
    let (needed, most) = found(&mut subject, |number| stranger(number as usize));
    assert!(needed.iter().all(|count| *count <= 2), "{needed:?}");
    assert!(needed.contains(&2), "the flood does not bind: {needed:?}");
    // The budgets at once, what they gain in a second, one of 16 of the rest, and two HELLOs of each newcomer.
    let bound = 128 + 64 + 128 + 64 + FLOOD / 16 + 16;
    assert!(most <= bound, "{most} > {bound}");
}

#[test]
fn a_known_newcomer_is_found_by_its_first_hello_in_a_flood_whose_addresses_come_again() {
    let mut subject = Subject::new(Signatures::Require);
    let card = TrustedKey {
        key: key(2).public(),
        signs: true,
    };
    let cards = NEWCOMERS.map(|number| (address(&format!("2001:db8::{number:x}")), card));
    subject.router.set_trusted_keys(cards.collect());
    let (needed, most) = found(&mut subject, |number| stranger(number as usize % 2000));
    assert!(needed.iter().all(|count| *count == 1), "{needed:?}");
    let bound = 128 + 64 + 128 + 64 + 128 + 64 + FLOOD / 16 + 16;
    assert!(most <= bound, "{most} > {bound}");
}

/// Cards of so many routers with key 3, whose addresses are no hashes.
fn cards(count: u64) -> BTreeMap<IpAddr, TrustedKey> {
    let (key, signs) = (key(3).public(), true);
    let card = TrustedKey { key, signs };
    (0..count).map(|number| (of_card(number), card)).collect()
}

fn of_card(number: u64) -> IpAddr {
    address(&format!("2001:db8::{number:x}"))
}

/// Uses up what strangers may have verified.
fn exhaust(subject: &mut Subject) {
    for (number, forged) in forgeries(1000).enumerate() {
        subject.hear(&stranger(number), &forged);
    }
}

/// Lets a source that was not heard before say a HELLO, and returns how many messages were verified.
fn false_hello(subject: &mut Subject, from: IpAddr, source: u64) -> u64 {
    let before = subject.router.counters().verified;
    for forged in forged(&hello(from, vec![]), 1) {
        subject.hear(&source_of(source), &forged);
    }
    subject.router.counters().verified - before
}

#[test]
fn a_known_router_has_2_hellos_at_once_in_a_flood_and_1_a_second_whoever_sends_them() {
    let mut subject = Subject::new(Signatures::Require);
    subject.router.set_trusted_keys(cards(1));
    exhaust(&mut subject);
    let verified = |subject: &mut Subject, sources: std::ops::Range<u64>| -> u64 {
        sources
            .map(|source| false_hello(subject, of_card(0), source))
            .sum()
    };
    // One of 16 is verified besides.
    assert!((2..=3).contains(&verified(&mut subject, 0..15)));
    subject.pass(seconds(1));
    exhaust(&mut subject);
    assert!((1..=2).contains(&verified(&mut subject, 20..35)));
}

#[test]
fn known_routers_have_128_hellos_at_once_in_a_flood_together_and_64_a_second() {
    let mut subject = Subject::new(Signatures::Require);
    subject.router.set_trusted_keys(cards(1000));
    exhaust(&mut subject);
    let mut next = 0..1000;
    let mut verified = |subject: &mut Subject, count| -> u64 {
        let each = next.by_ref().take(count);
        each.map(|number| false_hello(subject, of_card(number), number))
            .sum()
    };
    let first = verified(&mut subject, 160);
    assert!((128 + 2..=128 + 2).contains(&first), "{first}");
    // Over 512 of them in all, each of whom was not heard before.
    for _ in 0..10 {
        subject.pass(seconds(1));
        exhaust(&mut subject);
        assert!(verified(&mut subject, 64) >= 64);
    }
}

#[test]
fn a_source_that_was_heard_before_has_a_hello_in_a_flood_unless_it_has_sent_false_ones() {
    let mut subject = Subject::new(Signatures::Require);
    // Nobody knows these originators.
    let verified = |subject: &mut Subject, source| false_hello(subject, of_card(source), source);
    assert_eq!(verified(&mut subject, 1), 1, "within what strangers have");
    exhaust(&mut subject);
    let twice = |subject: &mut Subject, source| {
        [(); 2].map(|()| false_hello(subject, of_card(source), source))
    };
    assert_eq!(twice(&mut subject, 1), [0, 0]);
    assert_eq!(twice(&mut subject, 2), [0, 1]);
    // What it has sent then was false.
    assert_eq!(twice(&mut subject, 2), [0, 0]);
}

#[test]
fn sources_that_were_heard_before_have_128_hellos_at_once_in_a_flood_together() {
    let mut subject = Subject::new(Signatures::Require);
    exhaust(&mut subject);
    let all = |subject: &mut Subject| -> u64 {
        let each = (0..200).map(|source| false_hello(subject, of_card(source), source));
        each.sum()
    };
    let first = all(&mut subject);
    assert!(first <= 1 + sampled(200), "{first}");
    let again = all(&mut subject);
    assert!(
        (128..=128 + 1 + sampled(200 - 128)).contains(&again),
        "{again}"
    );
}
