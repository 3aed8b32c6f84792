//! What a router makes of messages that came over others, and which of them it passes on.

use std::net::IpAddr;

use olsrv2::{RefusalKind, Signatures};
use rfc5444::iana::{address_tlv, message, message_tlv, mpr};
use rfc5444::{Message, Packet, Tlv};

use crate::peers::*;

/// A router that P has selected as its MPR.
fn mpr_of_p(signatures: Signatures) -> Subject {
    let mut subject = Subject::new(signatures);
    let selected = Tlv::new(address_tlv::MPR, 0, [mpr::FLOODING]);
    let of_p = hello(locator(&key(2)), vec![quote(FIRST), selected]);
    subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, 300, 0));
    subject
}

fn of_q() -> Message {
    tc(locator(&key(3)), 1, vec![])
}

#[test]
fn what_its_originator_has_not_signed_is_not_passed_on() {
    let truth = sign(&key(3), &of_q(), 7, 0);
    let mut forged = truth.clone();
    let end = forged.len() - 1;
    forged[end] ^= 1;
    let of_other = sign(&key(4), &of_q(), 8, 0);
    let unsigned = of_q().encode().unwrap();
    for (signatures, octets, forwarded) in [
        (Signatures::Require, &truth, 1),
        (Signatures::Require, &forged, 0),
        (Signatures::Require, &of_other, 0),
        (Signatures::Require, &unsigned, 0),
        (Signatures::Prefer, &forged, 0),
        (Signatures::Prefer, &unsigned, 1),
        (Signatures::Off, &forged, 1),
    ] {
        let mut subject = mpr_of_p(signatures);
        subject.hear(NEIGHBOUR, octets);
        let counters = subject.router.counters();
        assert_eq!(counters.forwarded, forwarded, "{signatures:?}");
    }
    // A forgery does not keep the true message with its number out, and what came already is not passed on again.
    let mut subject = mpr_of_p(Signatures::Require);
    for octets in [&forged, &truth, &truth] {
        subject.hear(NEIGHBOUR, octets);
    }
    let counters = subject.router.counters();
    assert_eq!((counters.forwarded, counters.duplicates), (1, 1));
}

#[test]
fn a_signed_message_needs_no_other_evidence() {
    // Only the originator itself sends what goes one hop, and whoever relays can change that field.
    let q: IpAddr = locator(&key(3));
    let mut last_hop = of_q();
    last_hop.hop_limit = Some(1);
    for (octets, disbelieved) in [
        (sign(&key(3), &last_hop, 7, 0), 0),
        (last_hop.encode().unwrap(), 1),
    ] {
        let mut subject = Subject::new(Signatures::Prefer);
        subject.hear(STRANGER, &octets);
        assert_eq!(subject.router.counters().disbelieved, disbelieved);
        assert_eq!(subject.knows(q), disbelieved == 0);
    }
}

#[test]
fn a_signature_that_says_nothing_does_not_keep_an_address_from_who_signs_next() {
    let plain = |number| tc(address("2001:db8::50"), number, vec![]);
    let mut subject = Subject::new(Signatures::Prefer);
    subject.hear(STRANGER, &plain(1).encode().unwrap());
    subject.pass(seconds(59));
    subject.hear(STRANGER, &sign(&key(3), &plain(2), 1, 0));
    assert_eq!(subject.router.counters().verified, 0);
    subject.pass(seconds(1));
    subject.hear(STRANGER, &sign(&key(4), &plain(3), 1, 0));
    assert_eq!(subject.router.counters().verified, 1);
}

/// The hop limits with which the router passes the TCs of Q on within a second.
fn passed_on(subject: &mut Subject) -> Vec<u8> {
    let sent = subject.pass(seconds(1)).into_iter();
    let messages = sent.flat_map(|octets| Packet::decode(&octets).unwrap().messages);
    let of_q = |one: &Message| one.typ == message::TC && one.originator == Some(locator(&key(3)));
    let limits = messages.filter(of_q).map(|one| one.hop_limit);
    limits.map(Option::unwrap).collect()
}

/// The signed TC of Q as its neighbour P passes it on: with a hop limit of 254.
fn relayed() -> Message {
    let mut message = Message::decode(&sign(&key(3), &of_q(), 7, 0)).unwrap();
    (message.hop_limit, message.hop_count) = (Some(254), Some(1));
    message
}

#[test]
fn nothing_that_the_signature_does_not_cover_keeps_the_true_copy_from_going_on() {
    let with_limit = |hop_limit| {
        let mut copy = relayed();
        copy.hop_limit = Some(hop_limit);
        copy
    };
    let mut longer = with_limit(1);
    let other_icv = Tlv::new(message_tlv::ICV, 7, [1, 2, 3]);
    longer.tlvs.push(other_icv);
    // The two TLVs of the signature have changed places, or its length takes two octets.
    let mut turned = with_limit(1);
    turned.tlvs.rotate_right(1);
    let stretched = stretched(&with_limit(1).encode().unwrap());
    let encoded = |copy: Message| copy.encode().unwrap();
    for (source, copy, taken_in) in [
        (STRANGER, encoded(with_limit(1)), true),
        (STRANGER, encoded(longer.clone()), false),
        (NEIGHBOUR, encoded(longer), false),
        (STRANGER, encoded(turned.clone()), true),
        (NEIGHBOUR, encoded(turned), true),
        (STRANGER, stretched, true),
    ] {
        let mut subject = mpr_of_p(Signatures::Require);
        subject.hear(source, &copy);
        assert_eq!(subject.knows(locator(&key(3))), taken_in);
        assert_eq!(subject.router.counters().forged, u64::from(!taken_in));
        subject.hear(NEIGHBOUR, &relayed().encode().unwrap());
        assert_eq!(passed_on(&mut subject), [253]);
        assert_eq!(subject.router.counters().replayed, 0, "P has done nothing");
    }
}

/// Returns a signed message in which the length of the signature takes two octets.
fn stretched(message: &[u8]) -> Vec<u8> {
    let icv = [5, 0x90, 252, 96];
    let at = message.windows(4).position(|four| four == icv).unwrap();
    let (before, rest) = message.split_at(at);
    let mut octets = [before, &[5, 0x98, 252, 0, 96], &rest[4..]].concat();
    // The size of the message, and that of its TLV block after type, flags, size, originator, hops and number.
    for size in [2, 4 + 16 + 2 + 2] {
        let [high, low] = [octets[size], octets[size + 1]];
        let longer = u16::from_be_bytes([high, low]) + 1;
        octets[size..size + 2].copy_from_slice(&longer.to_be_bytes());
    }
    octets
}

#[test]
fn a_copy_that_may_go_much_further_than_the_one_before_goes_on_again() {
    let with_limit = |hop_limit| {
        let mut copy = relayed();
        copy.hop_limit = Some(hop_limit);
        copy.encode().unwrap()
    };
    for (limits, on) in [
        (&[2, 254][..], &[1, 253][..]),
        // Other ways to a router differ by a few hops.
        (&[240, 254], &[239]),
        (&[127, 254], &[126]),
        (&[126, 253, 254], &[125, 252]),
        (&[254, 2], &[253]),
    ] {
        let mut subject = mpr_of_p(Signatures::Require);
        limits
            .iter()
            .for_each(|limit| subject.hear(NEIGHBOUR, &with_limit(*limit)));
        assert_eq!(passed_on(&mut subject), on, "{limits:?}");
    }
    let mut subject = mpr_of_p(Signatures::Require);
    for limit in 0..=255 {
        subject.hear(NEIGHBOUR, &with_limit(limit));
    }
    assert_eq!(passed_on(&mut subject), [1, 4, 10, 22, 46, 94, 190]);
}

#[test]
fn an_unsigned_message_is_charged_to_who_it_names_and_to_who_passed_it_on() {
    // Q does not sign, and its neighbour P, which does, passes its TCs on.
    let mut subject = mpr_of_p(Signatures::Require);
    for number in 1..=3 {
        let unsigned = tc(locator(&key(3)), number, vec![]);
        subject.hear(NEIGHBOUR, &unsigned.encode().unwrap());
    }
    let refused = subject.router.refusals(subject.now);
    let kinds: Vec<_> = refused.iter().map(|one| (one.kind, one.count)).collect();
    assert_eq!(kinds, [(RefusalKind::NotSigned, 3)]);
    assert_eq!(refused[0].sources[0].address, address(NEIGHBOUR));
    let claim = refused[0].claims[0];
    assert_eq!(
        (claim.originator, refused[0].claims.len()),
        (locator(&key(3)), 1)
    );
    assert_eq!(claim.source, refused[0].sources[0]);
}
