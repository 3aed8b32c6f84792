//! Which edges are shown as confirmed, and that routes follow: router - P - Q - R, which have keys 1, 2, 3 and 4.

use std::net::IpAddr;

use olsrv2::{Event, Signatures};
use rfc5444::{AddressEntry, Message};

use crate::peers::*;

fn p() -> IpAddr {
    locator(&key(2))
}

fn q() -> IpAddr {
    locator(&key(3))
}

fn r() -> IpAddr {
    locator(&key(4))
}

/// The routers and their counters. TCs of a router count up from its first one.
struct Network {
    subject: Subject,
    numbers: [u16; 5],
}

impl Network {
    fn new() -> Self {
        Self::with(Signatures::Require)
    }

    /// P is a neighbour, and hears Q.
    fn with(signatures: Signatures) -> Self {
        let mut subject = Subject::new(signatures);
        let mut of_p = hello(p(), vec![quote(FIRST)]);
        of_p.addresses.push(two_hop(q(), vec![quote(300)]));
        subject.hear(NEIGHBOUR, &sign(&key(2), &of_p, 200, 0));
        let numbers = [0; 5];
        Self { subject, numbers }
    }

    /// Lets a router say a TC. Its counter is a hundred times its key's number and the number of the TC, and the floor
    /// the first of them.
    fn say(&mut self, of: u8, ansn: u16, neighbours: Vec<AddressEntry>) {
        let message = self.next(of, ansn, neighbours);
        let number = self.numbers[usize::from(of)];
        let counter = 100 * u64::from(of) + u64::from(number);
        self.subject
            .hear(NEIGHBOUR, &sign(&key(of), &message, counter, number.into()));
    }

    fn say_unsigned(&mut self, of: u8, ansn: u16, neighbours: Vec<AddressEntry>) {
        let message = self.next(of, ansn, neighbours);
        self.subject.hear(NEIGHBOUR, &message.encode().unwrap());
    }

    fn next(&mut self, of: u8, ansn: u16, neighbours: Vec<AddressEntry>) -> Message {
        let number = &mut self.numbers[usize::from(of)];
        *number += 1;
        let mut message = tc(locator(&key(of)), ansn, neighbours);
        message.seq = Some(*number);
        message
    }

    /// Returns whether the edge is shown as confirmed; `None` without an edge.
    fn shown(&self, from: IpAddr, to: IpAddr) -> Option<bool> {
        let edges = self.subject.router.edges().into_iter();
        let mut found = edges.filter(|edge| (edge.from, edge.to) == (from, to));
        found.next().map(|edge| edge.confirmed)
    }
}

#[test]
fn an_edge_to_a_router_that_does_not_list_its_other_end_is_not_confirmed() {
    let mut network = Network::new();
    network.say(2, 1, vec![]);
    network.say(3, 1, vec![advertised(p(), vec![quote(200)])]);
    assert_eq!(network.shown(q(), p()), Some(false));
    network.say(2, 2, vec![advertised(q(), vec![quote(300)])]);
    assert_eq!(network.shown(q(), p()), Some(true), "by P's word");
    assert_eq!(network.shown(p(), q()), Some(true));
    network.say(2, 3, vec![]);
    assert_eq!(network.shown(q(), p()), Some(false), "P has taken it back");
}

#[test]
fn a_liar_that_quotes_somebody_draws_no_confirmed_edge() {
    let mut network = Network::new();
    network.say(4, 1, vec![advertised(p(), vec![quote(400)])]);
    // The counters of R are in its TCs, so Q can quote them.
    network.say(3, 1, vec![advertised(r(), vec![quote(401)])]);
    assert_eq!(network.shown(q(), r()), Some(false));
    assert_eq!(network.shown(r(), q()), None);
}

#[test]
fn routes_are_calculated_when_one_direction_is_no_longer_confirmed() {
    let mut network = Network::new();
    let of_q = vec![
        advertised(p(), vec![quote(200)]),
        advertised(r(), vec![quote(400)]),
    ];
    network.say(3, 1, of_q);
    network.say(4, 1, vec![advertised(q(), vec![quote(300)])]);
    let reached = network.subject.route(r()).is_some();
    assert!(reached && network.shown(q(), r()) == Some(true));
    // The same neighbours, but R has not heard Q lately.
    network.say(4, 1, vec![advertised(q(), vec![quote(1)])]);
    assert_eq!(network.shown(q(), r()), Some(false));
    assert_eq!(network.shown(r(), q()), Some(true));
    assert_eq!(network.subject.route(r()), None);
}

#[test]
fn an_edge_is_confirmed_while_the_last_words_of_both_ends_are_signed() {
    let mut network = Network::with(Signatures::Prefer);
    let of_q = || vec![advertised(r(), vec![quote(400)])];
    let of_r = || vec![advertised(q(), vec![quote(300)])];
    network.say(3, 1, of_q());
    network.say_unsigned(4, 1, of_r());
    assert_eq!(network.shown(q(), r()), Some(false), "R has not signed it");
    network.say(4, 2, of_r());
    assert_eq!(network.shown(q(), r()), Some(true));
    // Then anybody may speak unsigned for Q, whose floor is known still.
    network.subject.pass(seconds(300));
    network.say(4, 3, of_r());
    network.say_unsigned(3, 2, of_q());
    assert_eq!(network.shown(q(), r()), Some(false), "Q has not signed it");
}

#[test]
fn a_hello_with_a_higher_floor_ends_what_was_quoted_before() {
    let mut network = Network::new();
    network.say(2, 1, vec![advertised(q(), vec![quote(300)])]);
    network.say(3, 1, vec![advertised(p(), vec![quote(200)])]);
    assert_eq!(network.shown(p(), q()), Some(true));
    assert!(network.subject.route(q()).is_some());
    for (age, confirmed) in [(1000, true), (0, false)] {
        let of_p = hello(p(), vec![quote(FIRST)]);
        let counter = 1000 + u64::from(age == 0);
        let octets = sign(&key(2), &of_p, counter, age);
        while network.subject.router.poll_event().is_some() {}
        network.subject.hear(NEIGHBOUR, &octets);
        assert_eq!(network.shown(p(), q()), Some(confirmed), "age {age}");
        let events = std::iter::from_fn(|| network.subject.router.poll_event());
        let told: Vec<bool> = events
            .filter_map(|event| match event {
                Event::EdgeSet(edge) => {
                    Some(edge).filter(|edge| (edge.from, edge.to) == (p(), q()))
                }
                _ => None,
            })
            .map(|edge| edge.confirmed)
            .collect();
        assert_eq!(told, if confirmed { vec![] } else { vec![false] });
        assert_eq!(network.subject.route(q()).is_some(), confirmed);
    }
}

#[test]
fn an_edge_that_is_confirmed_one_way_alone_ends_when_its_far_end_takes_it_back() {
    let mut network = Network::new();
    network.say(3, 1, vec![advertised(r(), vec![quote(1)])]);
    network.say(4, 1, vec![advertised(q(), vec![quote(300)])]);
    assert_eq!(network.shown(q(), r()), Some(true));
    assert_eq!(network.shown(r(), q()), Some(false));
    network.say(4, 2, vec![]);
    assert_eq!(network.shown(q(), r()), Some(false));
}
