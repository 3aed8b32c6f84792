//! Tokens: what is verified although there are too many messages in its originator's name.

use icv::Tokens;
use olsrv2::{InterfaceEvent, Signatures};
use rfc5444::iana::{message, message_tlv};
use rfc5444::{Message, Packet};

use crate::peers::*;

/// Q, whose TCs have tokens.
struct Speaker {
    tokens: Tokens,
    number: u16,
}

impl Speaker {
    fn new() -> Self {
        let tokens = Tokens::new(&[3; 32], 0);
        Self { tokens, number: 0 }
    }

    /// Returns the next TC, which is not signed yet.
    fn say(&mut self) -> Message {
        self.number += 1;
        let mut message = tc(locator(&key(3)), self.number, vec![]);
        message.tlvs.push(self.tokens.next_tlv());
        message
    }

    fn sign(&self, message: &Message) -> Vec<u8> {
        sign(&key(3), message, self.number.into(), 0)
    }
}

/// A router that knows Q and has no budget left for what the stranger sends in its name.
fn flooded() -> (Subject, Speaker) {
    let (mut subject, mut q) = (Subject::new(Signatures::Require), Speaker::new());
    let first = q.say();
    subject.hear(STRANGER, &q.sign(&first));
    assert!(subject.knows(locator(&key(3))));
    flood(&mut subject, &first, 1000);
    (subject, q)
}

/// Lets the stranger send so many messages in the name of Q, and returns how many were verified.
fn flood(subject: &mut Subject, like: &Message, count: u16) -> u64 {
    let before = subject.router.counters().verified;
    for number in 0..count {
        let mut forged = like.clone();
        forged.seq = Some(1000 + number);
        let counter = 5000 + subject.router.counters().packets_received;
        subject.hear(STRANGER, &false_sign(&forged, counter));
    }
    subject.router.counters().verified - before
}

/// Returns a message with Q's key and a signature that is none.
fn false_sign(message: &Message, counter: u64) -> Vec<u8> {
    let mut forged = Message::decode(&sign(&key(3), message, counter, 0)).unwrap();
    let mut tlvs = forged.tlvs.iter_mut();
    let icv = tlvs.find(|tlv| tlv.is(message_tlv::ICV, icv::ICV_EXTENSION));
    icv.unwrap().value[95] ^= 1;
    forged.encode().unwrap()
}

#[test]
fn a_message_with_the_next_token_is_verified_in_every_flood() {
    let (mut subject, mut q) = flooded();
    for lost in [0, 1, 7, 0] {
        (0..lost).for_each(|_| drop(q.say()));
        let next = q.say();
        let before = subject.router.counters();
        subject.hear(STRANGER, &q.sign(&next));
        let after = subject.router.counters();
        assert_eq!(after.verified - before.verified, 1, "{lost} lost");
        assert_eq!(after.forged, before.forged);
        // That token is worth nothing any more.
        let again = flood(&mut subject, &next, 320);
        assert!(again <= 320 / 16 + 2, "{again}");
    }
}

#[test]
fn after_eight_lost_messages_a_token_is_not_recognised() {
    let (mut subject, mut q) = flooded();
    (0..8).for_each(|_| drop(q.say()));
    let before = subject.router.counters().verified;
    let known: Vec<_> = (0..8).map(|_| q.say()).collect();
    for next in &known {
        subject.hear(STRANGER, &q.sign(next));
    }
    // One of 16 is verified at random, and would let all that follow in.
    let verified = subject.router.counters().verified - before;
    assert_eq!(verified, 0);
}

#[test]
fn of_what_overtakes_a_message_with_its_token_64_are_verified() {
    let (mut subject, mut q) = flooded();
    let next = q.say();
    let verified = flood(&mut subject, &next, 63);
    assert!((63..=63).contains(&verified), "{verified}");
    let before = subject.router.counters();
    subject.hear(STRANGER, &q.sign(&next));
    let after = subject.router.counters();
    assert_eq!(after.verified - before.verified, 1);
    assert_eq!(after.forged, before.forged, "it is the true one");
    // One more before it, and it is lost, or one of 16.
    let next = q.say();
    let verified = flood(&mut subject, &next, 640);
    assert!((64..=64 + 640 / 16).contains(&verified), "{verified}");
}

#[test]
fn an_earlier_token_is_worth_nothing_whatever_was_said_since() {
    let (mut subject, mut q) = flooded();
    let said: Vec<_> = (0..5).map(|_| q.say()).collect();
    // Somebody who has heard them before the router uses them in turn, the newest first.
    let mut verified = 0;
    for _ in 0..100 {
        verified += flood(&mut subject, &said[4], 1);
        verified += flood(&mut subject, &said[2], 1);
    }
    assert!(verified <= 64 + 200 / 16, "{verified}");
}

#[test]
fn a_neighbours_hello_with_the_next_token_is_heard_beyond_its_rate() {
    let mut subject = Subject::new(Signatures::Require);
    let mut tokens = Tokens::new(&[2; 32], 0);
    let mut say = |with_token: bool| {
        let mut message = hello(locator(&key(2)), vec![quote(FIRST)]);
        message.tlvs.extend(with_token.then(|| tokens.next_tlv()));
        message
    };
    subject.hear(NEIGHBOUR, &sign(&key(2), &say(true), 1, 0));
    assert!(subject.is_symmetric());
    let like = Message::decode(&sign(&key(2), &say(false), 2, 0)).unwrap();
    for number in 0..500 {
        let mut forged = like.clone();
        let mut tlvs = forged.tlvs.iter_mut();
        let stamp = tlvs.find(|tlv| tlv.is(message_tlv::TIMESTAMP, 252));
        stamp.unwrap().value[..8].copy_from_slice(&(1000_u64 + number).to_be_bytes());
        subject.hear(NEIGHBOUR, &forged.encode().unwrap());
    }
    let before = subject.router.counters();
    assert!(before.rate_limited > 400, "{}", before.rate_limited);
    subject.hear(NEIGHBOUR, &sign(&key(2), &say(false), 3, 0));
    let without = subject.router.counters();
    assert_eq!(without.verified, before.verified);
    subject.hear(NEIGHBOUR, &sign(&key(2), &say(true), 4, 0));
    let with = subject.router.counters();
    assert_eq!(with.verified, before.verified + 1);
    assert_eq!(with.forged, before.forged);
}

#[test]
fn a_known_router_without_tokens_has_two_tcs_at_once_in_a_flood_and_one_a_second() {
    let (mut subject, _) = flooded();
    subject.pass(seconds(2));
    let plain = tc(locator(&key(3)), 1, vec![]);
    let all = flood(&mut subject, &plain, 160);
    // What strangers have gained in 2 s besides, and one of 16.
    assert!((8 + 2..=8 + 2 + 10).contains(&all), "{all}");
}

/// The tokens of the router's own messages of a type.
fn own_tokens(sent: &[Vec<u8>], typ: u8) -> Vec<icv::Shown> {
    let packets = sent.iter().map(|octets| Packet::decode(octets).unwrap());
    let messages = packets.flat_map(|packet| packet.messages);
    let of_type = messages.filter(|message| message.typ == typ);
    of_type
        .map(|message| icv::Shown::read(&message.tlvs).unwrap())
        .collect()
}

#[test]
fn each_message_of_the_router_has_the_token_after_the_last_one_also_when_an_interface_returns() {
    let mut subject = Subject::new(Signatures::Require);
    let sent = subject.pass(seconds(20));
    let hellos = own_tokens(&sent, message::HELLO);
    assert!(hellos.len() > 5);
    let follow = |tokens: &[icv::Shown]| {
        let mut pairs = tokens.windows(2);
        pairs.all(|pair| pair[1].after(&pair[0]).is_some())
    };
    assert!(follow(&hellos));
    let interface = MESH;
    let addresses = vec![address(OWN_LINK)];
    let (down, up) = (
        InterfaceEvent::Down { interface },
        InterfaceEvent::Up {
            interface,
            addresses,
        },
    );
    subject.router.handle_interface(subject.now, down);
    subject.router.handle_interface(subject.now, up);
    subject.settle();
    let after = own_tokens(&subject.pass(seconds(20)), message::HELLO);
    assert!(follow(&after));
    let is_new = |one: &icv::Shown| hellos.iter().all(|old| one.token != old.token);
    assert!(after.iter().all(is_new), "what was said is not said again");
}

#[test]
fn the_secret_decides_which_tokens_there_are() {
    let tokens = [[1; 32], [2; 32]].map(|secret| {
        let mut subject = Subject::new(Signatures::Require);
        subject.router.set_token_secret(secret);
        own_tokens(&subject.pass(seconds(9)), message::HELLO)
    });
    assert!(tokens[0].iter().all(|one| !tokens[1].contains(one)));
}
