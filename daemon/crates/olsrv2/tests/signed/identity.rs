//! Who speaks for an originator.

use std::collections::BTreeMap;
use std::net::IpAddr;

use icv::Signer;
use olsrv2::{Event, Signatures, TrustedKey};
use rfc5444::iana::message_tlv;
use rfc5444::{Message, Prefix, Tlv};

use crate::peers::*;

/// An originator that no hash proves.
const PLAIN: &str = "2001:db8::50";

fn card(signer: &Signer, address: IpAddr, signs: bool) -> BTreeMap<IpAddr, TrustedKey> {
    let key = signer.public();
    BTreeMap::from([(address, TrustedKey { key, signs })])
}

fn plain(number: u16) -> Message {
    tc(address(PLAIN), number, vec![])
}

fn unsigned(message: &Message) -> Vec<u8> {
    message.encode().unwrap()
}

#[test]
fn the_setting_decides_what_unsigned_messages_are() {
    for (signatures, known, refused) in [
        (Signatures::Off, true, 0),
        (Signatures::Prefer, true, 0),
        (Signatures::Require, false, 1),
    ] {
        let mut subject = Subject::new(signatures);
        subject.hear(STRANGER, &unsigned(&plain(1)));
        assert_eq!(subject.knows(address(PLAIN)), known, "{signatures:?}");
        let counters = subject.router.counters();
        assert_eq!(
            (counters.not_signed, counters.forged),
            (refused, 0),
            "{signatures:?}"
        );
    }
}

#[test]
fn a_claim_that_cannot_be_read_is_no_unsigned_message() {
    let signed = sign(&key(2), &tc(locator(&key(2)), 1, vec![]), 1, 0);
    let signed = Message::decode(&signed).unwrap();
    for changed in [
        |tlvs: &mut Vec<Tlv>| tlvs.truncate(tlvs.len() - 1),
        |tlvs: &mut Vec<Tlv>| tlvs.push(tlvs[tlvs.len() - 1].clone()),
        |tlvs: &mut Vec<Tlv>| tlvs.iter_mut().for_each(|tlv| tlv.value.truncate(95)),
        |tlvs: &mut Vec<Tlv>| tlvs.iter_mut().for_each(|tlv| tlv.value.resize(97, 0)),
    ] {
        let mut subject = Subject::new(Signatures::Prefer);
        let mut message = signed.clone();
        changed(&mut message.tlvs);
        subject.hear(STRANGER, &message.encode().unwrap());
        assert!(!subject.knows(locator(&key(2))));
        assert_eq!(subject.router.counters().forged, 1);
        assert_eq!(subject.router.counters().verified, 0);
    }
}

#[test]
fn a_false_signature_is_no_unsigned_message() {
    for signatures in [Signatures::Prefer, Signatures::Require] {
        let mut subject = Subject::new(signatures);
        for mut forged in [
            sign(&key(2), &plain(1), 1, 0),
            sign(&key(2), &hello(address(PLAIN), vec![quote(FIRST)]), 1, 0),
        ] {
            let end = forged.len() - 1;
            forged[end] ^= 1;
            // The last octet is covered, and no message becomes malformed by it.
            assert!(Message::decode(&forged).is_ok());
            subject.hear(NEIGHBOUR, &forged);
        }
        assert!(!subject.knows(address(PLAIN)), "{signatures:?}");
        assert!(subject.router.links().is_empty(), "{signatures:?}");
        assert_eq!(subject.router.counters().forged, 2, "{signatures:?}");
    }
}

#[test]
fn a_claim_of_nobody_is_no_unsigned_message() {
    let mut of_p = hello(locator(&key(2)), vec![quote(FIRST)]);
    of_p.originator = None;
    for (message, forged) in [(unsigned(&of_p), 0), (sign(&key(2), &of_p, 1, 0), 1)] {
        let mut subject = Subject::new(Signatures::Prefer);
        subject.hear(NEIGHBOUR, &message);
        assert_eq!(subject.router.counters().forged, forged);
        assert_eq!(subject.router.links().is_empty(), forged == 1);
    }
}

#[test]
fn where_signatures_are_off_nothing_is_verified() {
    let mut subject = Subject::new(Signatures::Off);
    let mut message =
        Message::decode(&sign(&key(2), &tc(locator(&key(3)), 1, vec![]), 1, 0)).unwrap();
    subject.hear(STRANGER, &message.encode().unwrap());
    message
        .tlvs
        .push(Tlv::new(message_tlv::ICV, icv::ICV_EXTENSION, [1]));
    (message.originator, message.seq) = (Some(locator(&key(4))), Some(2));
    subject.hear(STRANGER, &message.encode().unwrap());
    assert!(subject.knows(locator(&key(3))) && subject.knows(locator(&key(4))));
    let counters = subject.router.counters();
    assert_eq!((counters.verified, counters.forged), (0, 0));
}

#[test]
fn nobody_speaks_unsigned_for_who_has_signed_in_the_last_five_minutes() {
    for (later, forged) in [(0, 1), (299, 1), (300, 0)] {
        let mut subject = Subject::new(Signatures::Prefer);
        let victim = locator(&key(2));
        subject.hear(STRANGER, &sign(&key(2), &tc(victim, 1, vec![]), 1, 0));
        subject.pass(seconds(later));
        subject.hear(STRANGER, &unsigned(&tc(victim, 9, vec![])));
        assert_eq!(subject.router.counters().forged, forged, "after {later} s");
    }
}

#[test]
fn each_signed_message_binds_its_originator_for_five_minutes_more() {
    for (later, forged) in [(299, 1), (300, 0)] {
        for thief in [None, Some(3)] {
            let mut subject = Subject::new(Signatures::Prefer);
            for number in [1, 2] {
                let signed = sign(&key(2), &plain(number), number.into(), 0);
                subject.hear(STRANGER, &signed);
                subject.pass(seconds(200));
            }
            subject.pass(seconds(later - 200));
            let message = match thief {
                None => unsigned(&plain(9)),
                Some(number) => sign(&key(number), &plain(9), 1, 0),
            };
            subject.hear(STRANGER, &message);
            let counters = subject.router.counters();
            assert_eq!(counters.forged, forged, "{thief:?} after {later} s");
        }
    }
}

#[test]
fn a_hello_that_leaves_its_originator_out_says_no_more_than_one_that_names_it() {
    // RFC 7181, section 15.3.1: the only local address, or the source address, is then the originator.
    let victim = locator(&key(2));
    for forms in [0, 1] {
        let mut subject = Subject::new(Signatures::Prefer);
        subject.router.set_trusted_keys(card(&key(2), victim, true));
        let mut forged = hello(victim, vec![]);
        forged.originator = None;
        // Its only local address is the victim's; in the second form the source address is.
        forged.addresses.remove(0);
        let source = match forms {
            0 => NEIGHBOUR.to_string(),
            _ => {
                forged.addresses.remove(0);
                victim.to_string()
            }
        };
        subject.hear(&source, &unsigned(&forged));
        assert_eq!(subject.route(victim), None, "form {forms}");
        assert_eq!(subject.router.counters().forged, 1, "form {forms}");
    }
}

#[test]
fn a_card_says_whose_an_address_is_and_whether_it_signs() {
    let victim = address(PLAIN);
    for (signs, with, forged) in [
        (false, None, 0),
        (true, None, 1),
        (true, Some(2), 0),
        (true, Some(3), 1),
        (false, Some(3), 1),
    ] {
        let mut subject = Subject::new(Signatures::Prefer);
        subject
            .router
            .set_trusted_keys(card(&key(2), victim, signs));
        let message = match with {
            None => unsigned(&plain(1)),
            Some(number) => sign(&key(number), &plain(1), 1, 0),
        };
        subject.hear(STRANGER, &message);
        let counters = subject.router.counters();
        assert_eq!(counters.forged, forged, "signs: {signs}, with {with:?}");
        assert_eq!(subject.knows(victim), forged == 0);
    }
}

#[test]
fn a_card_ends_what_another_key_has_said_under_its_address() {
    let victim = address(PLAIN);
    for (number, forged) in [(2, 0), (3, 1)] {
        let mut subject = Subject::new(Signatures::Prefer);
        subject.hear(STRANGER, &sign(&key(number), &plain(1), 5, 0));
        subject
            .router
            .set_trusted_keys(card(&key(2), victim, false));
        // What key 3 has said binds the address no more, so its owner may speak without a signature.
        subject.hear(STRANGER, &unsigned(&plain(2)));
        let counters = subject.router.counters();
        assert_eq!(counters.forged, 1 - forged, "key {number}");
    }
}

#[test]
fn an_address_that_is_no_hash_belongs_to_the_key_that_used_it_first() {
    for (later, forged) in [(0, 1), (299, 1), (300, 0)] {
        let mut subject = Subject::new(Signatures::Prefer);
        subject.hear(STRANGER, &sign(&key(2), &plain(1), 50, 0));
        subject.pass(seconds(later));
        subject.hear(STRANGER, &sign(&key(3), &plain(9), 1, 0));
        assert_eq!(subject.router.counters().forged, forged, "after {later} s");
        // The new owner has counters of its own.
        subject.hear(STRANGER, &sign(&key(3), &plain(10), 2, 0));
        assert_eq!(
            subject.router.counters().forged,
            2 * forged,
            "after {later} s"
        );
        assert_eq!(subject.router.counters().replayed, 0, "after {later} s");
    }
}

#[test]
fn a_signature_says_nothing_of_an_address_that_was_heard_unsigned_in_the_last_minute() {
    for (later, verified) in [(0, 0), (59, 0), (60, 1)] {
        let mut subject = Subject::new(Signatures::Prefer);
        subject.hear(STRANGER, &unsigned(&plain(1)));
        subject.pass(seconds(later));
        subject.hear(STRANGER, &sign(&key(3), &plain(9), 1, 0));
        let counters = subject.router.counters();
        assert_eq!(
            (counters.verified, counters.forged),
            (verified, 0),
            "after {later} s"
        );
        // A thief cannot silence it: what it says unsigned is believed still.
        subject.hear(STRANGER, &unsigned(&plain(10)));
        assert_eq!(
            subject.router.counters().forged,
            verified,
            "after {later} s"
        );
    }
}

#[test]
fn a_signature_says_nothing_of_an_unsigned_neighbours_address_unless_it_comes_from_there() {
    for (source, verified) in [(STRANGER, 0), (NEIGHBOUR, 1)] {
        let mut subject = Subject::new(Signatures::Prefer);
        subject.hear(NEIGHBOUR, &unsigned(&hello(address(PLAIN), vec![])));
        assert!(subject.is_symmetric());
        subject.hear(source, &sign(&key(3), &plain(1), 1, 0));
        let counters = subject.router.counters();
        assert_eq!(counters.verified, verified, "{source}");
    }
}

#[test]
fn a_hash_needs_no_minute_and_a_card_neither() {
    let hash = locator(&key(2));
    let mut subject = Subject::new(Signatures::Prefer);
    subject.hear(STRANGER, &unsigned(&tc(hash, 1, vec![])));
    subject.hear(STRANGER, &sign(&key(2), &tc(hash, 2, vec![]), 1, 0));
    assert_eq!(subject.router.counters().verified, 1);
    let mut subject = Subject::new(Signatures::Prefer);
    subject
        .router
        .set_trusted_keys(card(&key(2), address(PLAIN), false));
    subject.hear(STRANGER, &unsigned(&plain(1)));
    subject.hear(STRANGER, &sign(&key(2), &plain(2), 1, 0));
    assert_eq!(subject.router.counters().verified, 1);
}

#[test]
fn only_its_own_key_makes_a_router_believe_that_it_has_a_twin() {
    let own = locator(&key(1));
    let twins_where = |signatures, message: Vec<u8>| {
        let mut subject = Subject::new(signatures);
        // Before, it might be its own messages from before a restart.
        subject.pass(seconds(7));
        let before = subject.router.counters().verified;
        while subject.router.poll_event().is_some() {}
        subject.hear(STRANGER, &message);
        let events = std::iter::from_fn(|| subject.router.poll_event());
        let is_twin = |event: &Event| matches!(event, Event::DuplicateOriginator { .. });
        let seen = events.filter(is_twin).count();
        (seen, subject.router.counters().verified - before)
    };
    let twins = |message| twins_where(Signatures::Require, message);
    let message = tc(own, 30_000, vec![]);
    assert_eq!(twins(unsigned(&message)), (0, 0));
    assert_eq!(twins_where(Signatures::Prefer, unsigned(&message)), (0, 0));
    assert_eq!(twins(sign(&key(3), &message, 9000, 0)), (0, 0));
    assert_eq!(twins(sign(&key(1), &message, 9000, 0)), (1, 1));
    // Numbers follow the clock, so a twin may have one that this router has used.
    let same = tc(own, 2, vec![]);
    assert_eq!(twins(sign(&key(1), &same, 9000, 0)), (1, 1));
    // Where nothing is verified, a claim proves nothing.
    let claimed = sign(&key(1), &message, 9000, 0);
    assert_eq!(twins_where(Signatures::Off, claimed), (0, 0));
    // Another key, and its own counters, which are an echo: neither costs arithmetic.
    assert_eq!(twins(sign(&key(1), &message, FIRST, 0)), (0, 0));
}

#[test]
fn an_echo_and_what_comes_before_the_own_key_is_known_cost_no_arithmetic() {
    let mut subject = Subject::new(Signatures::Require);
    subject.pass(seconds(7));
    let newest = subject.counter;
    let verified = |subject: &mut Subject, number, counter| {
        let before = subject.router.counters().verified;
        let message = tc(locator(&key(1)), number, vec![]);
        subject.hear(STRANGER, &sign(&key(1), &message, counter, 0));
        subject.router.counters().verified - before
    };
    assert_eq!(verified(&mut subject, 30_000, newest), 0);
    assert_eq!(verified(&mut subject, 30_001, newest + 1000), 1);
    // Its signer may have another key now.
    subject.router.set_signing(true);
    assert_eq!(verified(&mut subject, 30_002, newest + 2000), 0);
}

#[test]
fn who_signs_replaces_who_does_not_under_its_address_and_nobody_replaces_who_signs() {
    let p = locator(&key(2));
    let from = |source: &str| {
        let mut message = hello(p, vec![quote(FIRST)]);
        message.addresses[0].prefix = Prefix::host(address(source));
        message
    };
    for (first_signs, next_hop) in [(false, NEIGHBOUR), (true, STRANGER)] {
        let mut subject = Subject::new(Signatures::Prefer);
        let first = match first_signs {
            true => sign(&key(2), &from(STRANGER), 1, 0),
            false => unsigned(&from(STRANGER)),
        };
        subject.hear(STRANGER, &first);
        assert_eq!(subject.route(p), Some(address(STRANGER)));
        subject.hear(NEIGHBOUR, &sign(&key(2), &from(NEIGHBOUR), 2, 1));
        assert_eq!(subject.route(p), Some(address(next_hop)), "{first_signs}");
        let disbelieved = subject.router.counters().disbelieved;
        assert_eq!(disbelieved, u64::from(first_signs));
    }
}
