//! What is signed when the signer comes back after a while.

use std::net::Ipv6Addr;

use icv::Claim;
use olsrv2::{Attached, InterfaceEvent, InterfaceId, Metric, Prefix, Signatures, ToSign};
use rfc5444::iana::message::{HELLO, TC};
use rfc5444::{Message, Packet};

use crate::peers::*;

/// A router with a neighbour and an attached network, whose signer is away for a minute, and what waits then.
fn waiting() -> (Subject, Vec<ToSign>) {
    let mut subject = Subject::new(Signatures::Require);
    let of_p = hello(locator(&key(2)), vec![quote(FIRST)]);
    let addresses = vec![address("fe80::2")];
    let interface = InterfaceId(2);
    let up = InterfaceEvent::Up {
        interface,
        addresses,
    };
    subject.router.handle_interface(subject.now, up);
    subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, 1, 0));
    let attached = Attached {
        prefix: "fd77::/64".parse().unwrap(),
        distance: 1,
        metric: Metric::MIN,
    };
    subject.router.set_attached(subject.now, vec![attached]);
    let end = subject.now + seconds(60);
    while let Some(due) = subject.router.poll_timeout().filter(|due| *due <= end) {
        subject.now = subject.now.max(due);
        subject.router.handle_timeout(subject.now);
    }
    let waiting = std::iter::from_fn(|| subject.router.poll_sign()).collect();
    (subject, waiting)
}

fn read(waiting: &[ToSign], typ: u8) -> Vec<Message> {
    let messages = waiting.iter();
    let messages = messages.map(|one| Message::decode(&one.message).unwrap());
    messages.filter(|message| message.typ == typ).collect()
}

#[test]
fn the_newest_hello_of_each_interface_and_the_newest_tc_wait() {
    let (mut subject, waiting) = waiting();
    assert_eq!(read(&waiting, HELLO).len(), 2, "one for each interface");
    let tcs = read(&waiting, TC);
    assert_eq!((tcs.len(), waiting.len()), (1, 3));
    let newest = tcs[0].seq.unwrap();
    // What was made last waits: the next one follows it.
    let end = subject.now + seconds(10);
    while subject.now < end {
        subject.now += seconds(1);
        subject.router.handle_timeout(subject.now);
        let next: Vec<ToSign> = std::iter::from_fn(|| subject.router.poll_sign()).collect();
        if let [tc, ..] = &read(&next, TC)[..] {
            return assert_eq!(tc.seq.unwrap(), newest + 1);
        }
    }
    unreachable!("no TC in 10 s");
}

#[test]
fn a_router_that_has_not_signed_lately_believes_no_neighbour_that_it_is_heard() {
    let (mut subject, _) = waiting();
    // P was heard before, and what it quoted then is as old as what was recorded.
    let of_p = |counter| hello(locator(&key(2)), vec![quote(counter)]);
    subject.hear(NEIGHBOUR, &sign(&key(2), &of_p(FIRST), 2, 0));
    assert!(!subject.is_symmetric());
    let before = subject.counter;
    subject.pass(seconds(3));
    assert!(subject.counter > before, "it signs again");
    subject.hear(NEIGHBOUR, &sign(&key(2), &of_p(subject.counter), 3, 0));
    assert!(subject.is_symmetric());
}

#[test]
fn at_most_64_messages_wait_the_newest_of_them_and_none_when_signing_ends() {
    let (mut subject, _) = waiting();
    // They have little in common, so that one TC cannot announce them.
    let network = |number: u128| Attached {
        prefix: Prefix {
            addr: Ipv6Addr::from_bits(0x2001 << 112 | number * 0x9e37_79b9 % (1 << 44) << 64)
                .into(),
            len: 64,
        },
        distance: 1,
        metric: Metric::MIN,
    };
    let networks: Vec<Attached> = (0..20_000).map(network).collect();
    let parts = |subject: &mut Subject, networks: &[Attached]| {
        subject.router.set_attached(subject.now, networks.to_vec());
        subject.now += seconds(10);
        subject.router.handle_timeout(subject.now);
    };
    parts(&mut subject, &networks);
    let waiting: Vec<ToSign> = std::iter::from_fn(|| subject.router.poll_sign()).collect();
    assert_eq!(waiting.len(), 64, "there are more parts");
    let numbers: Vec<u16> = read(&waiting, TC).iter().filter_map(|tc| tc.seq).collect();
    assert!(numbers.len() > 60 && numbers.is_sorted(), "{numbers:?}");
    parts(&mut subject, &networks[1..]);
    subject.router.set_signing(false);
    assert_eq!(subject.router.poll_sign(), None);
}

#[test]
fn each_message_is_signed_with_the_lowest_counter_of_late_as_its_floor() {
    let mut subject = Subject::new(Signatures::Require);
    let sent = subject.pass(seconds(10));
    let packets = sent.iter().map(|packet| Packet::decode(packet).unwrap());
    let claims = packets.flat_map(|packet| packet.messages).map(|message| {
        let claim = Claim::read(&message.tlvs).unwrap();
        claim.expect("it is signed")
    });
    let floors: Vec<(u64, u64)> = claims.map(|claim| (claim.counter, claim.floor())).collect();
    assert!(floors.len() > 3);
    assert!(
        floors.iter().all(|(_, floor)| *floor == FIRST),
        "{floors:?}"
    );
}
