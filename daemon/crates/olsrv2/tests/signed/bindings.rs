//! Which originators stay bound to their keys in a flood of invented ones: A is key 2 and an honest neighbour, M is key 3
//! and a neighbour that invents, and key 4 is that of everybody behind them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use olsrv2::Signatures;
use rfc5444::{Message, Prefix};

use crate::ipv4;
use crate::peers::*;

/// Time between two invented originators: 125 in a second.
const PAUSE: Duration = Duration::from_millis(8);
/// Invented originators between two HELLOs of each neighbour.
const BETWEEN_HELLOS: u32 = 500;
/// The counter of everybody behind the neighbours.
const FAR: u64 = 50;

/// A router with A and M as neighbours.
struct Between {
    subject: Subject,
    is_v4: bool,
    /// The originators and sources of A and M.
    names: [(IpAddr, &'static str); 2],
    counter: u64,
    /// Whom A lists as its neighbours.
    behind_a: Vec<IpAddr>,
    /// Whom M lists.
    behind_m: Vec<IpAddr>,
}

impl Between {
    fn new(signatures: Signatures, is_v4: bool, limit: usize) -> Self {
        let v4 = ["10.0.0.2", "10.0.0.3"].map(|name| (address(name), name));
        let v6 = [(2, NEIGHBOUR), (3, "fe80::8")].map(|(of, name)| (locator(&key(of)), name));
        let mut subject = match is_v4 {
            true => ipv4::subject(signatures),
            false => Subject::new(signatures),
        };
        let mut config = subject.router.config().clone();
        config.limits.nodes = limit;
        subject.router.reconfigure(subject.now, config);
        let mut between = Self {
            subject,
            is_v4,
            names: if is_v4 { v4 } else { v6 },
            counter: 1000,
            behind_a: vec![],
            behind_m: vec![],
        };
        between.hellos();
        between
    }

    /// An originator that no hash proves.
    fn plain(&self, number: u32) -> IpAddr {
        match self.is_v4 {
            true => Ipv4Addr::from_bits(0x0a40_0000 + number).into(),
            false => address(&format!("2001:db8::{number:x}")),
        }
    }

    /// Lets both neighbours say HELLO.
    fn hellos(&mut self) {
        for (of, (originator, source)) in [2, 3].into_iter().zip(self.names) {
            let quoted = self.subject.counter;
            let mut message = match self.is_v4 {
                true => ipv4::hello(source, quoted),
                false => hello(originator, vec![quote(quoted)]),
            };
            message.addresses[0].prefix = Prefix::host(address(source));
            let behind = if of == 2 {
                &self.behind_a
            } else {
                &self.behind_m
            };
            let listed = behind.iter().map(|far| two_hop(*far, vec![quote(FAR)]));
            message.addresses.extend(listed);
            self.counter += 1;
            let signed = sign(&key(of), &message, self.counter, 1);
            self.subject.hear(source, &signed);
        }
    }

    /// A TC of a router behind a neighbour.
    fn far(&self, originator: IpAddr, number: u16, hop: usize) -> Message {
        let hears = advertised(self.names[hop].0, vec![quote(self.counter)]);
        tc(originator, number, vec![hears])
    }

    /// Lets a router behind a neighbour be heard until there is a confirmed route to it, and be heard once more.
    fn meet(&mut self, originator: IpAddr, hop: usize) {
        match hop {
            0 => self.behind_a.push(originator),
            _ => self.behind_m.push(originator),
        }
        self.hellos();
        for number in [1, 2] {
            let message = self.far(originator, number, hop);
            let signed = sign(&key(4), &message, FAR + u64::from(number), number.into());
            self.subject.hear(self.names[hop].1, &signed);
            let route = self.subject.route(originator);
            assert_eq!(route, Some(address(self.names[hop].1)), "{originator}");
        }
    }

    /// Lets a router behind A be heard that A lists, and that does not prove to have heard A.
    fn mention(&mut self, originator: IpAddr) {
        self.behind_a.push(originator);
        self.hellos();
        for number in [1, 2] {
            let message = tc(
                originator,
                number,
                vec![advertised(self.names[0].0, vec![])],
            );
            let signed = sign(&key(4), &message, FAR + u64::from(number), number.into());
            self.subject.hear(self.names[0].1, &signed);
            let is_preferred = self.subject.router.config().signatures == Signatures::Prefer;
            assert_eq!(self.subject.route(originator).is_some(), is_preferred);
        }
        self.behind_a.clear();
    }

    /// Lets M invent these originators, and both neighbours say HELLO meanwhile. They come from M, or from sources that
    /// were not heard before.
    fn flood(&mut self, numbers: std::ops::Range<u32>, by_strangers: bool) {
        for number in numbers {
            let signed = sign(&key(3), &tc(self.plain(number), 1, vec![]), 1, 0);
            let stranger = match self.is_v4 {
                true => Ipv4Addr::from_bits(0x0a63_0000 + number).to_string(),
                false => format!("fe80::1:{number:x}"),
            };
            match by_strangers {
                true => self.subject.hear(&stranger, &signed),
                false => self.subject.hear(self.names[1].1, &signed),
            }
            if number % BETWEEN_HELLOS == 0 {
                self.hellos();
            }
            self.subject.pass(PAUSE);
        }
    }

    /// Whether another key may speak for an originator, or anybody unsigned where signatures are preferred.
    fn is_free(&mut self, originator: IpAddr) -> bool {
        let message = self.far(originator, 9, 1);
        let octets = match self.subject.router.config().signatures {
            Signatures::Require => sign(&key(3), &message, 7, 0),
            _ => message.encode().unwrap(),
        };
        let before = self.subject.router.counters().forged;
        self.subject.hear(self.names[1].1, &octets);
        self.subject.router.counters().forged == before
    }
}

#[test]
fn a_flood_of_invented_originators_ends_no_binding_of_one_that_was_reached() {
    for (signatures, is_v4, by_strangers) in [
        (Signatures::Require, true, false),
        (Signatures::Prefer, false, true),
    ] {
        let case = format!("{signatures:?}, IPv4: {is_v4}, by strangers: {by_strangers}");
        let mut between = Between::new(signatures, is_v4, 4096);
        let [away, newcomer, unreached] = [20_000, 20_001, 20_002].map(|n| between.plain(n));
        between.meet(away, 0);
        between.behind_a.clear();
        between.mention(unreached);
        between.flood(0..6000, by_strangers);
        between.meet(newcomer, 0);
        between.behind_a.clear();
        between.flood(6000..10_000, by_strangers);
        assert!(!between.is_free(newcomer), "{case}");
        assert!(!between.is_free(away), "{case}");
        assert!(
            between.is_free(unreached),
            "the flood does not bind: {case}"
        );
    }
}

#[test]
fn a_newcomer_that_is_not_reached_yet_outlives_the_next_1000_invented_ones() {
    let mut between = Between::new(Signatures::Require, true, 4096);
    between.flood(0..5000, false);
    let newcomer = between.plain(20_000);
    let signed = sign(&key(4), &tc(newcomer, 1, vec![]), FAR, 0);
    between.subject.hear(between.names[0].1, &signed);
    between.flood(5000..6000, false);
    assert!(!between.is_free(newcomer));
}

#[test]
fn invented_originators_with_confirmed_links_displace_those_behind_their_own_neighbour() {
    for (signatures, is_v4) in [(Signatures::Require, true), (Signatures::Prefer, false)] {
        let mut between = Between::new(signatures, is_v4, 64);
        let away = between.plain(20_000);
        between.meet(away, 0);
        between.behind_a.clear();
        let first = between.plain(0);
        for number in 0..150 {
            let invented = between.plain(number);
            between.meet(invented, 1);
            between.behind_m.clear();
        }
        assert!(!between.is_free(away), "{signatures:?}");
        assert!(
            between.is_free(first),
            "{signatures:?}: none had to give way"
        );
    }
}
