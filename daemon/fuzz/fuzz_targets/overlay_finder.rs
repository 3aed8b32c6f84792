//! A finder that hostile nodes speak to: it does not panic, keeps its bounds, sends only what decodes, and never asks
//! for a timer in the past.
//!
//! The input is a session of records: an octet of time step and kind, an octet of label and sender, two octets of length,
//! and a message. A message that begins with `=` answers the last question with what follows.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use cryptoauth::PublicKey;
use libfuzzer_sys::fuzz_target;
use overlay::{Body, Contact, Finder, Limits, Message, Time};
use switch::Label;

/// The node's own key and those of others, all with addresses of nodes.
static SENDERS: LazyLock<[PublicKey; 4]> = LazyLock::new(senders);
/// Small enough to be reached in a short session.
const LIMITS: Limits = Limits { nodes: 6, ways: 2 };
/// What a session may take.
const LONGEST: Time = Time::from_secs(900);

fuzz_target!(|session: &[u8]| {
    let senders = *SENDERS;
    let mut now = Time::ZERO;
    let mut finder = Finder::new(senders[0], LIMITS, now, 1);
    let peer = Contact {
        key: senders[1],
        path: Label(0x13),
        version: 22,
    };
    finder.peer_up(now, peer);
    let mut question = None;
    let mut rest = session;
    while let [first, second, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (octets, after) = after.split_at(after.len().min(length));
        rest = after;
        now = run(
            &mut finder,
            now,
            now + Duration::from_millis((1 << (first >> 4)) - 1),
            &mut question,
        );
        if now > LONGEST {
            break;
        }
        let sender = senders[usize::from(second & 3)];
        let path = Label(0x13 | u64::from(second >> 2) << 8);
        let from = Contact {
            key: sender,
            path,
            version: 22,
        };
        match first & 7 {
            0 => finder.want(now, senders[usize::from(second & 3)].address()),
            1 => finder.handle_error(now, path),
            2 => finder.peer_down(now, peer.path),
            3 => finder.peer_up(now, peer),
            _ => drop(finder.handle_message(now, from, &answer(octets, question.as_ref()))),
        }
        check(&mut finder, now, &mut question);
    }
    run(
        &mut finder,
        now,
        now + Duration::from_secs(10),
        &mut question,
    );
});

fn senders() -> [PublicKey; 4] {
    let keys = (0_u32..).map(|number| {
        let mut octets = [0; 32];
        octets[..4].copy_from_slice(&number.to_be_bytes());
        PublicKey::from_octets(octets)
    });
    let mut nodes = keys.filter(|key| key.node_address().is_ok());
    [(); 4].map(|()| nodes.next().expect("one of 256 is"))
}

fn answer(octets: &[u8], question: Option<&Message>) -> Vec<u8> {
    let (Some((b'=', fields)), Some(question)) = (octets.split_first(), question) else {
        return octets.to_vec();
    };
    let contacts = fields.chunks_exact(34).map(|contact| {
        let mut key = [0; 32];
        key.copy_from_slice(&contact[..32]);
        let path = Label(u16::from_be_bytes([contact[32], contact[33]]).into());
        Contact {
            key: PublicKey::from_octets(key),
            path,
            version: 22,
        }
    });
    let body = Body::Reply(contacts.collect());
    Message {
        body,
        ..question.clone()
    }
    .encode()
}

/// Lets time pass; returns when it is.
fn run(finder: &mut Finder, mut now: Time, until: Time, question: &mut Option<Message>) -> Time {
    while let Some(due) = finder.poll_timeout().filter(|due| *due <= until) {
        now = now.max(due);
        finder.handle_timeout(now);
        check(finder, now, question);
    }
    until
}

fn check(finder: &mut Finder, now: Time, question: &mut Option<Message>) {
    if finder.poll_timeout().is_some_and(|due| due <= now) {
        finder.handle_timeout(now);
    }
    assert!(
        finder.poll_timeout().is_none_or(|due| due > now),
        "a timer that is due stays due"
    );
    while let Some(sent) = finder.poll_transmit() {
        let message = Message::decode(&sent.payload).expect("what we send decodes");
        if matches!(message.body, Body::Query(_)) {
            *question = Some(message);
        }
    }
    while finder.poll_event().is_some() {}
    assert!(finder.store().len() <= LIMITS.nodes);
    for (_, node) in finder.store().iter() {
        assert!((1..=LIMITS.ways).contains(&node.ways().len()));
    }
}
