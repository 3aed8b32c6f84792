//! Which links and 2-hop tuples are removed when a set is full.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use nhdp::{
    Hello, HelloNeighbour, InterfaceId, LinkStatus, Neighbourhood, Params, Rejected, Time,
    MAX_LINKS_OF_NEIGHBOUR, MAX_TWO_HOPS_OF_LINK,
};

const MESH: InterfaceId = InterfaceId(1);
const OTHER: InterfaceId = InterfaceId(2);
const OWN: u32 = 1;
const LINKS: usize = 32;
const HOLD: Duration = Duration::from_secs(6);
const START: Time = Time::from_secs(100);
const REAL: u32 = 0xffff;

fn address(n: u32) -> IpAddr {
    (0x0a00_0000 + n).to_be_bytes().into()
}

fn neighbourhood(max_two_hops: usize) -> Neighbourhood<()> {
    let mut nhdp = Neighbourhood::new(Params {
        hold_time: HOLD,
        max_links: LINKS,
        max_two_hops,
    });
    nhdp.set_interface(START, MESH, BTreeSet::from([address(OWN)]));
    nhdp.set_interface(START, OTHER, BTreeSet::from([address(OWN + 1)]));
    nhdp
}

/// A HELLO of router `n`. `hears` are its symmetric neighbours, and include this router if it hears this router.
fn hello(n: u32, hears: impl IntoIterator<Item = u32>) -> Hello {
    let neighbours = hears.into_iter().map(|other| HelloNeighbour {
        address: address(other),
        link: Some(LinkStatus::Symmetric),
        other_symmetric: None,
    });
    Hello {
        family: nhdp::Family::V4,
        originator: None,
        validity: 10 * HOLD,
        interval: None,
        this_interface: vec![address(n)],
        other_interfaces: Vec::new(),
        neighbours: neighbours.collect(),
    }
}

fn receive(nhdp: &mut Neighbourhood<()>, now: Time, hello: &Hello) -> Result<(), Rejected> {
    let source = hello.this_interface[0];
    nhdp.process(now, MESH, source, hello).map(|_| ())
}

fn knows(nhdp: &Neighbourhood<()>, n: u32) -> bool {
    nhdp.find_link(MESH, address(n)).is_some()
}

fn ms(milliseconds: u64) -> Time {
    START + Duration::from_millis(milliseconds)
}

#[test]
fn a_newcomer_takes_the_place_of_the_one_that_was_silent_longest() {
    let mut nhdp = neighbourhood(64);
    for n in 0..LINKS as u32 {
        receive(&mut nhdp, ms(n.into()), &hello(100 + n, [])).unwrap();
    }
    receive(&mut nhdp, ms(500), &hello(REAL, [])).unwrap();
    assert_eq!(nhdp.links().count(), LINKS);
    assert!(knows(&nhdp, REAL) && !knows(&nhdp, 100) && knows(&nhdp, 101));
    assert_eq!(nhdp.take_over_limit(), 1);
}

#[test]
fn a_router_that_speaks_again_outlives_a_flood_of_those_that_spoke_once() {
    let mut nhdp = neighbourhood(64);
    receive(&mut nhdp, ms(0), &hello(REAL, [])).unwrap();
    receive(&mut nhdp, ms(1), &hello(REAL, [])).unwrap();
    for n in 0..1000 {
        // They all claim to hear us.
        receive(&mut nhdp, ms(2), &hello(100 + n, [OWN])).unwrap();
    }
    assert!(knows(&nhdp, REAL));
    assert_eq!(nhdp.links().count(), LINKS);
}

#[test]
fn a_router_that_comes_back_after_it_gave_way_outlives_those_that_spoke_once() {
    let mut nhdp = neighbourhood(64);
    let mut flood = 100..;
    for round in 0..2 {
        receive(&mut nhdp, ms(round), &hello(REAL, [])).unwrap();
        for n in flood.by_ref().take(1000) {
            receive(&mut nhdp, ms(round), &hello(n, [OWN])).unwrap();
        }
        assert_eq!(knows(&nhdp, REAL), round == 1);
    }
    assert_eq!(nhdp.heard_once().len(), LINKS - 1);
}

#[test]
fn of_refreshed_links_the_symmetric_stay() {
    let mut nhdp = neighbourhood(64);
    for at in [0, 1] {
        receive(&mut nhdp, ms(at), &hello(REAL, [OWN])).unwrap();
    }
    for n in 0..1000 {
        for at in [2, 3] {
            receive(&mut nhdp, ms(at), &hello(100 + n, [])).unwrap();
        }
    }
    assert!(knows(&nhdp, REAL));
}

#[test]
fn proven_links_stay_whatever_the_others_do() {
    let mut nhdp = neighbourhood(64);
    let proven = ms(0) + HOLD;
    for at in [ms(0), proven] {
        receive(&mut nhdp, at, &hello(REAL, [OWN])).unwrap();
    }
    for n in 0..1000 {
        for _ in 0..3 {
            receive(&mut nhdp, proven, &hello(100 + n, [OWN])).unwrap();
        }
    }
    assert!(knows(&nhdp, REAL));
}

#[test]
fn a_quarter_of_the_set_is_kept_for_newcomers() {
    let mut nhdp = neighbourhood(64);
    for at in [ms(0), ms(0) + HOLD] {
        for n in 0..LINKS as u32 {
            receive(&mut nhdp, at, &hello(100 + n, [OWN])).unwrap();
        }
    }
    let newcomers = LINKS as u32 / 4;
    for n in 0..newcomers {
        receive(&mut nhdp, ms(1) + HOLD, &hello(1000 + n, [])).unwrap();
    }
    assert!((0..newcomers).all(|n| knows(&nhdp, 1000 + n)));
    receive(&mut nhdp, ms(2) + HOLD, &hello(REAL, [])).unwrap();
    assert!(knows(&nhdp, REAL) && !knows(&nhdp, 1000));
    let old = (0..LINKS as u32).filter(|n| knows(&nhdp, 100 + n));
    assert_eq!(old.count(), LINKS - LINKS / 4, "these are proven and stay");
}

#[test]
fn a_flood_on_one_interface_leaves_the_links_of_another_alone() {
    let mut nhdp = neighbourhood(64);
    let real = hello(REAL, []);
    nhdp.process(ms(0), OTHER, address(REAL), &real).unwrap();
    for n in 0..1000 {
        for _ in 0..2 {
            receive(&mut nhdp, ms(1), &hello(100 + n, [OWN])).unwrap();
        }
    }
    assert!(nhdp.find_link(OTHER, address(REAL)).is_some());
}

#[test]
fn the_source_with_most_links_gives_way_first() {
    let mut nhdp = neighbourhood(64);
    receive(&mut nhdp, ms(0), &hello(REAL, [])).unwrap();
    for n in 0..1000 {
        let of_one = hello(100 + n, []);
        nhdp.process(ms(1), MESH, address(99), &of_one).unwrap();
    }
    assert!(knows(&nhdp, REAL));
}

#[test]
fn a_trusted_neighbour_is_taken_and_kept() {
    let mut nhdp = neighbourhood(64);
    nhdp.set_trusted(BTreeSet::from([address(REAL)]));
    let proven = ms(0) + HOLD;
    for at in [ms(0), proven] {
        for n in 0..LINKS as u32 * 3 / 4 {
            receive(&mut nhdp, at, &hello(100 + n, [OWN])).unwrap();
        }
    }
    for n in 0..LINKS as u32 {
        receive(&mut nhdp, proven, &hello(1000 + n, [OWN])).unwrap();
    }
    let mut real = hello(0xfffe, []);
    real.other_interfaces = vec![address(REAL)];
    receive(&mut nhdp, proven, &real).unwrap();
    for n in 0..1000 {
        receive(&mut nhdp, ms(1) + HOLD, &hello(2000 + n, [OWN])).unwrap();
    }
    assert!(knows(&nhdp, 0xfffe));
}

#[test]
fn a_set_of_trusted_and_proven_neighbours_refuses_others() {
    let mut nhdp = neighbourhood(64);
    nhdp.set_trusted((0..LINKS as u32).map(|n| address(100 + n)).collect());
    for at in [ms(0), ms(0) + HOLD] {
        for n in 0..LINKS as u32 {
            receive(&mut nhdp, at, &hello(100 + n, [OWN])).unwrap();
        }
    }
    for n in [REAL, 100] {
        let answer = receive(&mut nhdp, ms(1) + HOLD, &hello(n, [OWN]));
        let expected = if n == REAL {
            Err(Rejected::TooManyLinks)
        } else {
            Ok(())
        };
        assert_eq!(answer, expected);
    }
}

#[test]
fn one_neighbour_has_a_bounded_number_of_links() {
    let mut nhdp = neighbourhood(64);
    for n in 0..LINKS as u32 {
        let mut of_one = hello(100 + n, []);
        // The address that makes all links belong to one neighbour, and the addresses of the earlier links.
        of_one.other_interfaces = (0..n)
            .map(|n| address(100 + n))
            .chain([address(99)])
            .collect();
        receive(&mut nhdp, ms(n.into()), &of_one).unwrap();
    }
    assert_eq!(nhdp.neighbours().count(), 1);
    assert_eq!(nhdp.links().count(), MAX_LINKS_OF_NEIGHBOUR);
    assert!(knows(&nhdp, 100 + LINKS as u32 - 1) && !knows(&nhdp, 100));
}

fn two_hops(nhdp: &Neighbourhood<()>, n: u32) -> usize {
    let link = nhdp
        .find_link(MESH, address(n))
        .and_then(|id| nhdp.link(id));
    link.map_or(0, |link| link.two_hops.len())
}

#[test]
fn the_link_with_most_two_hops_gives_way_until_all_have_as_many() {
    let mut nhdp = neighbourhood(60);
    let hears = |range: std::ops::Range<u32>| std::iter::once(OWN).chain(range);
    receive(&mut nhdp, START, &hello(100, hears(1000..2000))).unwrap();
    assert_eq!(two_hops(&nhdp, 100), 60);
    receive(&mut nhdp, START, &hello(REAL, hears(5000..5020))).unwrap();
    assert_eq!((two_hops(&nhdp, 100), two_hops(&nhdp, REAL)), (40, 20));
    receive(&mut nhdp, START, &hello(101, hears(2000..3000))).unwrap();
    assert_eq!(two_hops(&nhdp, REAL), 20, "who has less keeps it");
    assert_eq!(two_hops(&nhdp, 100) + two_hops(&nhdp, 101), 40);
}

#[test]
fn one_link_has_a_bounded_number_of_two_hops() {
    let mut nhdp = neighbourhood(10 * MAX_TWO_HOPS_OF_LINK);
    let many = 1000..1000 + 2 * MAX_TWO_HOPS_OF_LINK as u32;
    receive(
        &mut nhdp,
        START,
        &hello(100, std::iter::once(OWN).chain(many)),
    )
    .unwrap();
    assert_eq!(two_hops(&nhdp, 100), MAX_TWO_HOPS_OF_LINK);
}

#[test]
fn two_hops_that_are_reported_lost_leave_their_room() {
    let mut nhdp = neighbourhood(10);
    let hears = |range: std::ops::Range<u32>| std::iter::once(OWN).chain(range);
    receive(&mut nhdp, START, &hello(100, hears(1000..1010))).unwrap();
    let mut lost = hello(100, hears(1000..1010));
    for neighbour in &mut lost.neighbours[6..] {
        neighbour.link = Some(LinkStatus::Lost);
    }
    receive(&mut nhdp, START, &lost).unwrap();
    assert_eq!(two_hops(&nhdp, 100), 5);
    receive(&mut nhdp, START, &hello(REAL, hears(5000..5005))).unwrap();
    assert_eq!((two_hops(&nhdp, 100), two_hops(&nhdp, REAL)), (5, 5));
    assert_eq!(nhdp.take_over_limit(), 0, "nothing had to give way");
}

#[test]
fn a_trusted_two_hop_address_always_finds_room() {
    let mut nhdp = neighbourhood(10);
    nhdp.set_trusted(BTreeSet::from([address(REAL)]));
    let heard = || std::iter::once(OWN).chain(1000..1010);
    receive(&mut nhdp, START, &hello(100, heard().chain([REAL]))).unwrap();
    let link = nhdp
        .find_link(MESH, address(100))
        .and_then(|id| nhdp.link(id));
    let two_hops = &link.unwrap().two_hops;
    assert!(two_hops.contains_key(&address(REAL)));
    assert_eq!(two_hops.len(), 10);
}

#[test]
fn the_lost_neighbours_that_hellos_tell_are_bounded() {
    let mut nhdp = neighbourhood(64);
    for n in 0..10 * LINKS as u32 {
        receive(&mut nhdp, START, &hello(100 + n, [OWN])).unwrap();
        nhdp.neighbour_lost(START, MESH, address(100 + n));
    }
    assert_eq!(nhdp.lost_neighbours().count(), 4 * LINKS);
}
