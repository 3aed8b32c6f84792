//! What false signatures cost: how many of them are verified.

use olsrv2::{Signatures, TrustedKey};

use crate::peers::*;

/// Messages of Q with false signatures and ever higher counters.
fn forgeries(count: u64) -> impl Iterator<Item = Vec<u8>> {
    let signed = sign(&key(3), &tc(locator(&key(3)), 1, vec![]), 1, 0);
    let stamp = signed
        .windows(4)
        .position(|four| four == [6, 0x90, 224, 12]);
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
    for forged in forgeries(200) {
        subject.hear(NEIGHBOUR, &forged);
    }
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
    let counters = subject.router.counters();
    assert_eq!((counters.verified, counters.rate_limited), (1000, 0));
}
