//! What is signed when the signer comes back after a while.

use olsrv2::{Attached, InterfaceEvent, InterfaceId, Metric, Signatures, ToSign};
use rfc5444::iana::message::{HELLO, TC};
use rfc5444::Message;

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
