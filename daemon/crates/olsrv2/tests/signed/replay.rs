//! Nothing is taken in twice, and the ends of each counter are counters like others.

use std::collections::BTreeMap;

use olsrv2::{Signatures, TrustedKey};

use crate::peers::*;

/// Returns how many of these messages, by counter and age, were taken in, and how many were replayed.
fn heard(messages: &[(u64, u32)]) -> (u64, u64) {
    let mut subject = Subject::new(Signatures::Require);
    for (number, (counter, age)) in messages.iter().enumerate() {
        let message = tc(locator(&key(2)), 1 + number as u16, vec![]);
        subject.hear(STRANGER, &sign(&key(2), &message, *counter, *age));
    }
    let counters = subject.router.counters();
    assert_eq!(counters.forged, 0);
    (counters.verified, counters.replayed)
}

#[test]
fn each_counter_is_taken_in_once() {
    assert_eq!(heard(&[(5, 0), (5, 0)]), (1, 1));
    assert_eq!(heard(&[(5, 5), (4, 4), (5, 5), (4, 4), (6, 6)]), (3, 2));
}

#[test]
fn counters_below_the_floor_are_replays_and_the_floor_itself_is_none() {
    assert_eq!(heard(&[(100, 10), (90, 0)]), (2, 0));
    assert_eq!(heard(&[(100, 10), (89, 0)]), (1, 1));
    // A floor does not go down again.
    assert_eq!(heard(&[(100, 10), (101, 101), (89, 0)]), (2, 1));
}

#[test]
fn counters_may_overtake_each_other_by_63() {
    assert_eq!(heard(&[(1000, 1000), (937, 937)]), (2, 0));
    assert_eq!(heard(&[(1000, 1000), (936, 936)]), (1, 1));
}

#[test]
fn an_age_that_exceeds_its_counter_means_a_floor_of_0() {
    assert_eq!(heard(&[(5, 9), (4, u32::MAX), (0, 1)]), (3, 0));
}

#[test]
fn the_ends_of_the_range_are_counters_like_others() {
    assert_eq!(heard(&[(0, 0), (1, 1), (0, 0)]), (2, 1));
    let end = u64::from(u32::MAX);
    assert_eq!(
        heard(&[(end, 1), (end + 1, 2), (end, 1), (end + 1, 2)]),
        (2, 2)
    );
    assert_eq!(
        heard(&[(u64::MAX - 1, 0), (u64::MAX, 1), (u64::MAX, 0)]),
        (2, 1)
    );
    // Nothing follows the last counter: a key that has used it is at its end.
    assert_eq!(heard(&[(u64::MAX, 0), (0, 0), (1, 0)]), (1, 2));
}

#[test]
fn hellos_and_flooded_messages_are_counted_apart() {
    let from = locator(&key(2));
    let mut subject = Subject::new(Signatures::Require);
    let hello = hello(from, vec![quote(FIRST)]);
    subject.hear(NEIGHBOUR, &sign(&key(2), &hello, 100, 100));
    subject.hear(NEIGHBOUR, &sign(&key(2), &tc(from, 1, vec![]), 20, 20));
    assert_eq!(subject.router.counters().replayed, 0);
    subject.hear(NEIGHBOUR, &sign(&key(2), &hello, 20, 20));
    assert_eq!(subject.router.counters().replayed, 1);
}

#[test]
fn the_counter_of_a_false_signature_is_not_used_up() {
    let from = locator(&key(2));
    let mut subject = Subject::new(Signatures::Require);
    let mut forged = sign(&key(2), &tc(from, 1, vec![]), 7, 0);
    *forged.last_mut().unwrap() ^= 1;
    // The last octet is in the address block or the signature: either way it does not verify.
    subject.hear(STRANGER, &forged);
    assert_eq!(subject.router.counters().forged, 1);
    subject.hear(STRANGER, &sign(&key(2), &tc(from, 2, vec![]), 7, 0));
    assert!(subject.knows(from));
}

#[test]
fn where_the_table_is_full_who_was_heard_longest_ago_is_forgotten_and_a_peer_last() {
    let mut subject = Subject::new(Signatures::Require);
    let mut config = subject.router.config().clone();
    config.limits.nodes = 2;
    subject.router.reconfigure(subject.now, config);
    let (peer, signs) = (key(2).public(), false);
    let card = TrustedKey { key: peer, signs };
    let cards = BTreeMap::from([(locator(&key(2)), card)]);
    subject.router.set_trusted_keys(cards);
    let say = |subject: &mut Subject, of: u8, number: u16| {
        let message = tc(locator(&key(of)), number, vec![]);
        subject.hear(STRANGER, &sign(&key(of), &message, 7, 0));
        subject.pass(seconds(1));
        subject.router.counters().replayed
    };
    for of in [2, 3, 4] {
        assert_eq!(say(&mut subject, of, 1), 0);
    }
    // Other messages with the same counter: replays to who remembers their senders.
    assert_eq!(say(&mut subject, 2, 2), 1, "the peer");
    assert_eq!(say(&mut subject, 4, 2), 2, "the last");
    assert_eq!(say(&mut subject, 3, 2), 2, "who had to give way");
}

#[test]
fn who_is_known_already_takes_nobodys_place_in_a_full_table() {
    let mut subject = Subject::new(Signatures::Require);
    let mut config = subject.router.config().clone();
    config.limits.nodes = 2;
    subject.router.reconfigure(subject.now, config);
    let replayed = [(2, 7), (3, 7), (3, 8), (2, 7)].map(|(of, counter)| {
        // Each message differs, so that the counter alone says whether it was taken in.
        let number = u16::try_from(subject.router.counters().verified).unwrap();
        let message = tc(locator(&key(of)), 1 + number, vec![]);
        subject.hear(STRANGER, &sign(&key(of), &message, counter, 7));
        subject.pass(seconds(1));
        subject.router.counters().replayed
    });
    assert_eq!(replayed, [0, 0, 0, 1]);
}
