use super::*;
use crate::tc::{Content, NeighbourAddress};
use alloc::collections::BTreeSet;
use alloc::vec;
use core::net::Ipv4Addr;
use core::time::Duration;
use rfc5444::Metric;

const NOW: Time = Time::from_secs(100);
const LIMITS: Limits = Limits {
    links: 0,
    two_hops: 0,
    nodes: 8,
    advertised: 100,
    edges: 40,
    duplicates: 0,
    messages_per_second: 0,
};

fn address(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + n).into()
}

fn tc(n: u32, tuples: u32) -> Tc {
    let neighbour = NeighbourAddress {
        originator: true,
        routable: true,
        metric: Metric::MIN,
        metric_in: None,
    };
    let neighbours = (0..tuples).map(|index| (address(1000 * n + index), neighbour));
    Tc {
        originator: address(n),
        seq: 1,
        ansn: 1,
        complete: true,
        interval: None,
        validity: Duration::from_secs(60),
        content: Content {
            all: false,
            neighbours: neighbours.collect(),
            attached: BTreeMap::new(),
        },
        lost_neighbours: BTreeSet::new(),
        lost_networks: BTreeSet::new(),
        quotes: BTreeMap::new(),
        proof: None,
    }
}

/// Routers below 100 are orphans, those of each further hundred lie behind one neighbour, 9xx are trusted.
fn standing(originator: IpAddr) -> Standing {
    let IpAddr::V4(address) = originator else {
        return Standing::Orphan;
    };
    match address.to_bits() - 0x0a00_0000 {
        ..100 => Standing::Orphan,
        900.. => Standing::Trusted(originator),
        n => Standing::Via(self::address(n / 100)),
    }
}

/// Lets routers with five tuples each come one after the other; which of them are there at the end.
fn come(routers: &[u32]) -> Vec<u32> {
    let (mut gate, mut topology) = (Gate::new(NOW), Topology::default());
    for n in routers {
        let tc = tc(*n, 5);
        if gate.admit(NOW, &tc, &mut topology, &LIMITS, standing) {
            topology.process(NOW, &tc, address(*n), true, &LIMITS);
        }
    }
    let is_whole = |n: &&u32| topology.tuples_of(address(**n)) == Some(5);
    routers.iter().filter(is_whole).copied().collect()
}

#[test]
fn a_router_with_a_route_takes_the_place_of_an_orphan_and_not_the_other_way_round() {
    assert!(come(&[1, 2, 3, 4, 5, 6, 7, 8, 100]).contains(&100));
    let routed = [100, 101, 102, 103, 200, 201, 202, 203];
    assert_eq!(come(&[&routed[..], &[1]].concat()), routed);
}

#[test]
fn the_first_hop_with_most_behind_it_gives_way() {
    let routed = [100, 101, 102, 103, 104, 105, 200, 201];
    let left = come(&[&routed[..], &[202]].concat());
    assert!([200, 201, 202].iter().all(|n| left.contains(n)), "{left:?}");
    assert_eq!(come(&[&routed[..], &[106]].concat()), routed);
}

#[test]
fn trusted_routers_find_room_and_keep_it() {
    let trusted = [900, 901, 902, 903, 904, 905, 906];
    let left = come(&[&[100, 101, 102][..], &trusted].concat());
    assert!(trusted.iter().all(|n| left.contains(n)), "{left:?}");
    let full = [900, 901, 902, 903, 904, 905, 906, 907];
    assert_eq!(come(&[&full[..], &[100, 1]].concat()), full);
}

#[test]
fn new_orphans_are_counted() {
    let (mut gate, mut topology) = (Gate::new(NOW), Topology::default());
    let many = Limits {
        nodes: 1 << 20,
        ..LIMITS
    };
    let mut admit = |n: u32| gate.admit(NOW, &tc(n % 100, 0), &mut topology, &many, standing);
    let admitted = (0..2000).filter(|n| admit(*n)).count();
    assert_eq!(admitted, ORPHANS.0 as usize);
}

/// How many of so many looks for a newcomer behind neighbour `n` are allowed.
fn looks(gate: &mut Gate, now: Time, n: u32, asked: u32) -> u32 {
    let own = Standing::Via(address(n));
    (0..asked)
        .map(|_| u32::from(gate.may_search(now, own)))
        .sum()
}

#[test]
fn looks_are_counted_for_each_neighbour_and_together() {
    let mut gate = Gate::new(NOW);
    assert_eq!(looks(&mut gate, NOW, 1, 1000), SEARCHES_EACH.0);
    assert_eq!(looks(&mut gate, NOW, 2, 1), 1, "another one's are its own");
    assert_eq!(
        looks(&mut gate, NOW, 1, 1),
        0,
        "another neighbour's looks renew no budget"
    );
    let others = (3..10).map(|n| looks(&mut gate, NOW, n, 1000)).sum::<u32>();
    assert_eq!(SEARCHES_EACH.0 + 1 + others, SEARCHES.0);
    let second = NOW + Duration::from_secs(1);
    assert_eq!(looks(&mut gate, second, 1, 1000), SEARCHES_EACH.1);
}

#[test]
fn neighbours_whose_looks_are_counted_are_forgotten_together() {
    let mut gate = Gate::new(NOW);
    for n in 0..3 * SEARCHERS as u32 {
        looks(&mut gate, NOW, n, 1);
        assert!((1..=SEARCHERS).contains(&gate.searches_each.len()));
        assert!(gate.searches_each.contains_key(&Standing::Via(address(n))));
    }
    assert_eq!(
        gate.searches_each.len(),
        SEARCHERS,
        "all at once, and not before"
    );
}

/// A topology of routers with so many tuples each; all have come under bounds that were wide enough.
fn filled(routers: &[(u32, u32)]) -> Topology {
    let wide = Limits {
        nodes: 1 << 20,
        edges: 1 << 20,
        ..LIMITS
    };
    let mut topology = Topology::default();
    for (n, tuples) in routers {
        topology.process(NOW, &tc(*n, *tuples), address(*n), true, &wide);
    }
    topology
}

/// Whether the originator of a TC with so many tuples is admitted, and who is left.
fn admitted(topology: &mut Topology, limits: &Limits, n: u32, tuples: u32) -> (bool, Vec<u32>) {
    let admits = Gate::new(NOW).admit(NOW, &tc(n, tuples), topology, limits, standing);
    let IpAddr::V4(base) = address(0) else {
        unreachable!()
    };
    let left = topology.nodes().filter_map(|(one, _)| match one {
        IpAddr::V4(one) => Some(one.to_bits() - base.to_bits()),
        IpAddr::V6(_) => None,
    });
    (admits, left.collect())
}

#[test]
fn nobody_gives_way_as_long_as_there_is_room() {
    let routers = [(1, 5), (2, 5), (100, 5), (101, 5)];
    for (nodes, edges) in [(5, 25), (5, 1000), (1000, 25)] {
        let limits = Limits {
            nodes,
            edges,
            ..LIMITS
        };
        let (admits, left) = admitted(&mut filled(&routers), &limits, 200, 5);
        assert_eq!((admits, left.len()), (true, 4), "{nodes} {edges}");
    }
    for (nodes, edges) in [(4, 1000), (1000, 24)] {
        let limits = Limits {
            nodes,
            edges,
            ..LIMITS
        };
        let (admits, left) = admitted(&mut filled(&routers), &limits, 200, 5);
        assert!(admits && left.len() < 4, "{nodes} {edges}");
    }
}

#[test]
fn a_router_that_is_known_and_advertises_more_makes_room_for_what_is_more() {
    let edges = |edges| Limits {
        nodes: 100,
        edges,
        ..LIMITS
    };
    let routers = [(100, 5), (101, 5), (200, 5)];
    assert_eq!(
        admitted(&mut filled(&routers), &edges(15), 200, 5).1.len(),
        3
    );
    assert_eq!(
        admitted(&mut filled(&routers), &edges(16), 200, 6).1.len(),
        3
    );
    let (admits, left) = admitted(&mut filled(&routers), &edges(15), 200, 6);
    assert!(admits && left.len() == 2 && left.contains(&200), "{left:?}");
    // An orphan that is known displaces nobody, not even another orphan.
    let orphans = [(1, 5), (2, 5)];
    assert_eq!(
        admitted(&mut filled(&orphans), &edges(10), 2, 6),
        (true, vec![1, 2])
    );
    // What is attached counts as what is advertised does.
    let mut attaching = tc(200, 5);
    let network = "10.9.0.0/16".parse().unwrap();
    let attached = crate::tc::AttachedNetwork {
        metric: Metric::MIN,
        distance: 0,
    };
    attaching.content.attached.insert(network, attached);
    let mut topology = filled(&routers);
    Gate::new(NOW).admit(NOW, &attaching, &mut topology, &edges(15), standing);
    assert_eq!(topology.len(), 2);
}

#[test]
fn where_nobody_is_worth_less_there_is_no_room() {
    let full = Limits {
        nodes: 4,
        edges: 1000,
        ..LIMITS
    };
    // Behind both first hops is as much: with the newcomer there would be more behind its own.
    let even = [(100, 5), (101, 5), (200, 5), (201, 5)];
    assert_eq!(
        admitted(&mut filled(&even), &full, 202, 5).1,
        [100, 101, 200, 201]
    );
    assert!(!admitted(&mut filled(&even), &full, 202, 5).0);
    // As much as with the newcomer is not more.
    let heavier = [(100, 11), (101, 5), (200, 5), (201, 5)];
    assert!(!admitted(&mut filled(&heavier), &full, 202, 5).0);
    let heavy = [(100, 12), (101, 5), (200, 5), (201, 5)];
    assert_eq!(
        admitted(&mut filled(&heavy), &full, 202, 5),
        (true, vec![101, 200, 201])
    );
}

#[test]
fn of_orphans_more_give_way_than_must_and_of_others_only_those_that_must() {
    let (nodes, edges) = (128, 12_800);
    let limits = Limits {
        nodes,
        edges,
        ..LIMITS
    };
    let orphans: Vec<_> = (0..100).map(|n| (n, 100)).collect();
    let routed: Vec<_> = (100..128).map(|n| (n, 100)).collect();
    let mut topology = filled(&[&orphans[..], &routed].concat());
    let (admits, left) = admitted(&mut topology, &limits, 200, 1);
    assert!(admits);
    assert_eq!(
        left.len(),
        nodes - nodes / SLACK,
        "room for two, so that not each newcomer looks"
    );
    assert_eq!(left.iter().filter(|n| **n >= 100).count(), 28);
    let routed: Vec<_> = (100..200).chain(200..228).map(|n| (n, 100)).collect();
    let (admits, left) = admitted(&mut filled(&routed), &limits, 300, 1);
    assert!(admits);
    assert_eq!(left.len(), nodes - 1);
}
