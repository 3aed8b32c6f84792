//! No clock takes part: a router's time has any beginning, and no message says what time it is.

use std::time::Duration;

use icv::Claim;
use olsrv2::{Config, InterfaceEvent, LinkStatus, Router, Signatures, Time};
use rfc5444::PacketView;

use crate::peers::*;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const STEP: Duration = Duration::from_millis(20);

struct Node {
    router: Router,
    number: u8,
    /// What its time is at the start.
    began: Time,
    counter: u64,
}

impl Node {
    fn new(number: u8, began: Time, signatures: Signatures) -> Self {
        let std::net::IpAddr::V6(originator) = locator(&key(number)) else {
            unreachable!("a locator is IPv6")
        };
        let config = Config {
            originator_v6: Some(originator),
            signatures,
            ..Config::default()
        };
        let mut router = Router::new(config, began, number.into());
        router.set_signing(true);
        let (interface, addresses) = (MESH, vec![address(&format!("fe80::{number}"))]);
        router.handle_interface(
            began,
            InterfaceEvent::Up {
                interface,
                addresses,
            },
        );
        Self {
            router,
            number,
            began,
            counter: 0,
        }
    }

    /// Returns the packets that it sends when so much time has passed.
    fn speak(&mut self, passed: Duration) -> Vec<Vec<u8>> {
        let now = self.began + passed;
        if self.router.poll_timeout().is_some_and(|due| due <= now) {
            self.router.handle_timeout(now);
        }
        while let Some(request) = self.router.poll_sign() {
            self.counter += 1;
            let age = (self.counter - request.floor.unwrap_or(self.counter)) as u32;
            let signed = key(self.number)
                .sign(&request.message, self.counter, age)
                .unwrap();
            self.router
                .handle_signed(now, &request, &signed, self.counter);
        }
        let sent = std::iter::from_fn(|| self.router.poll_transmit());
        sent.map(|transmit| transmit.bytes).collect()
    }

    fn hear(&mut self, passed: Duration, from: u8, packet: &[u8]) {
        let source = address(&format!("fe80::{from}"));
        self.router
            .handle_packet(self.began + passed, MESH, source, packet);
    }

    fn is_symmetric(&self) -> bool {
        let links = self.router.links();
        links
            .iter()
            .any(|link| link.status == LinkStatus::Symmetric)
    }
}

/// A packet and the number of its sender.
type Sent = (u8, Vec<u8>);

/// Runs two neighbours, and returns all packets and the time after which both links are symmetric.
fn run(began: [Time; 2]) -> (Vec<Sent>, Duration) {
    let [one, other] = began;
    let mut nodes =
        [(1, one), (2, other)].map(|(number, began)| Node::new(number, began, Signatures::Require));
    let (mut all, mut agreed) = (Vec::new(), None);
    for step in 0..1000 {
        let passed = STEP * step;
        for from in [0, 1] {
            for packet in nodes[from].speak(passed) {
                let number = nodes[from].number;
                nodes[1 - from].hear(passed, number, &packet);
                all.push((number, packet));
            }
        }
        if agreed.is_none() && nodes.iter().all(Node::is_symmetric) {
            agreed = Some(passed);
        }
    }
    let routes = nodes.iter().map(|node| node.router.routes().len());
    assert_eq!(routes.collect::<Vec<_>>(), [1, 1]);
    (all, agreed.expect("both links are symmetric"))
}

#[test]
fn clocks_that_are_a_year_apart_change_nothing_that_is_sent() {
    let same = run([START, START]);
    assert!(same.1 < seconds(5));
    for began in [
        [START, START + YEAR],
        [START + YEAR, START],
        [Time::ZERO, 50 * YEAR],
    ] {
        let apart = run(began);
        assert_eq!(apart.1, same.1, "{began:?}");
        assert!(apart.0 == same.0, "other packets with {began:?}");
    }
}

#[test]
fn the_counters_that_are_sent_are_the_signers() {
    let (packets, _) = run([50 * YEAR, START]);
    let mut counters = Vec::new();
    for (_, packet) in &packets {
        for message in PacketView::new(packet).unwrap().messages() {
            let tlvs = message.unwrap().decode().unwrap().tlvs;
            let claim = Claim::read(&tlvs).unwrap().expect("it is signed");
            assert!(u64::from(claim.age) < claim.counter);
            counters.push(claim.counter);
        }
    }
    // Both began with 1, so no counter exceeds the number of messages.
    assert!(counters
        .iter()
        .all(|counter| *counter <= counters.len() as u64));
}

#[test]
fn what_was_recorded_is_not_believed_whatever_the_clock_says() {
    let (recorded, _) = run([YEAR, YEAR]);
    let of_other = || recorded.iter().filter(|(number, _)| *number == 2);
    assert!(of_other().count() > 10);
    for began in [Time::ZERO, YEAR, 2 * YEAR] {
        for (signatures, believed) in [(Signatures::Require, false), (Signatures::Off, true)] {
            // It has restarted and remembers nobody. Its signer goes on with the next block of counters.
            let mut node = Node::new(1, began, signatures);
            node.counter = 4096;
            let mut passed = Duration::ZERO;
            for (number, packet) in of_other() {
                passed += 10 * STEP;
                node.speak(passed);
                node.hear(passed, *number, packet);
            }
            assert_eq!(node.is_symmetric(), believed, "{began:?} {signatures:?}");
            node.speak(passed + seconds(1));
            let routes = node.router.routes().len();
            assert_eq!(routes, believed.into(), "{began:?} {signatures:?}");
            let counters = node.router.counters();
            assert_eq!(counters.verified > 10, !believed, "all of it is signed");
            assert_eq!((counters.forged, counters.replayed), (0, 0));
        }
    }
}
