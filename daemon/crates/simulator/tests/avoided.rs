//! Relays that a router avoids are its last resort, and no more (docs/development/adr/0095).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Config, Family, Prefix, RouteView};
use simulator::{truth, Mesh, NodeId};

const SEEDS: std::ops::Range<u64> = 0..8;
const A: NodeId = 0;
const B: NodeId = 1;
const X: NodeId = 2;
const C: NodeId = 3;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A network with these links after its routes are right.
fn converged(seed: u64, links: &[(NodeId, NodeId)]) -> Mesh {
    let mut mesh = Mesh::new(seed, Config::default(), &Family::ALL);
    let last = links.iter().map(|(one, other)| *one.max(other)).max();
    mesh.add_nodes(last.unwrap() + 1);
    links
        .iter()
        .for_each(|(one, other)| mesh.connect(*one, *other));
    mesh.run_for(seconds(15));
    assert_eq!(truth::check(&mesh), Ok(()), "seed {seed}");
    mesh
}

fn avoid(mesh: &mut Mesh, at: NodeId, relays: &[NodeId], duration: Duration) {
    let now = mesh.now();
    let both = relays
        .iter()
        .flat_map(|relay| Family::ALL.map(|family| mesh.originator(*relay, family)));
    let avoided: BTreeMap<IpAddr, _> = both.map(|address| (address, now + duration)).collect();
    mesh.act(at, |router| router.avoid(now, &avoided));
}

fn route(mesh: &Mesh, at: NodeId, to: NodeId) -> RouteView {
    let destination = Prefix::host(mesh.originator(to, Family::V6));
    let routes = mesh.router(at).unwrap().routes();
    let found = routes
        .into_iter()
        .find(|route| route.destination == destination);
    found.unwrap_or_else(|| panic!("{at} has no route to {to}"))
}

fn first_hop(mesh: &Mesh, at: NodeId, to: NodeId) -> NodeId {
    let next = route(mesh, at, to).next_originator;
    let mut nodes = 0..mesh.node_count();
    nodes
        .find(|node| mesh.originator(*node, Family::V6) == next)
        .unwrap()
}

/// The nodes on the way of a packet, hop by hop as each router forwards it.
fn way(mesh: &Mesh, from: NodeId, to: NodeId) -> Vec<NodeId> {
    let mut way = vec![from];
    while way.last() != Some(&to) {
        way.push(first_hop(mesh, *way.last().unwrap(), to));
        assert!(way.len() <= mesh.node_count(), "a loop: {way:?}");
    }
    way
}

#[test]
fn another_relay_is_taken_at_once_and_the_avoided_one_again_when_the_time_is_over() {
    for seed in SEEDS {
        let mut mesh = converged(seed, &[(A, B), (A, X), (B, C), (X, C)]);
        let relay = first_hop(&mesh, A, C);
        let other = if relay == X { B } else { X };
        avoid(&mut mesh, A, &[relay], seconds(30));
        mesh.run_for(Duration::from_millis(600));
        assert_eq!(first_hop(&mesh, A, C), other, "seed {seed}");
        mesh.run_for(seconds(28));
        assert_eq!(first_hop(&mesh, A, C), other, "seed {seed}");
        mesh.run_for(Duration::from_millis(1600));
        assert_eq!(
            first_hop(&mesh, A, C),
            relay,
            "seed {seed}: not tried again"
        );
    }
}

#[test]
fn the_avoided_relay_itself_is_reached_by_another_way_where_there_is_one() {
    let ring = [(A, B), (A, X), (B, C), (X, C)];
    for (links, to_x) in [(&ring[..], vec![A, B, C, X]), (&ring[1..2], vec![A, X])] {
        let mut mesh = converged(1, links);
        assert_eq!(way(&mesh, A, X), [A, X]);
        avoid(&mut mesh, A, &[X], seconds(30));
        mesh.run_for(seconds(5));
        assert_eq!(way(&mesh, A, X), to_x);
        assert_eq!(way(&mesh, X, A), [X, A], "it has not left the link");
        mesh.run_for(seconds(30));
        assert_eq!(way(&mesh, A, X), [A, X]);
    }
}

#[test]
fn an_avoided_relay_is_used_where_there_is_no_other() {
    let mut mesh = converged(1, &[(A, X), (X, C)]);
    avoid(&mut mesh, A, &[X], seconds(30));
    mesh.run_for(seconds(5));
    assert_eq!(first_hop(&mesh, A, C), X);
    assert_eq!(truth::check(&mesh), Ok(()), "the network is whole");
}

#[test]
fn if_all_relays_are_avoided_the_nearest_is_used() {
    let mut mesh = converged(1, &[(A, B), (A, X), (B, C), (X, C)]);
    let relay = first_hop(&mesh, A, C);
    avoid(&mut mesh, A, &[B, X], seconds(30));
    mesh.run_for(seconds(5));
    assert_eq!(first_hop(&mesh, A, C), relay);
}

#[test]
fn what_is_avoided_is_replaced_and_not_added_to() {
    let mut mesh = converged(1, &[(A, B), (A, X), (B, C), (X, C)]);
    avoid(&mut mesh, A, &[X], seconds(600));
    avoid(&mut mesh, A, &[B], seconds(600));
    mesh.run_for(seconds(5));
    assert_eq!(first_hop(&mesh, A, C), X);
    avoid(&mut mesh, A, &[], seconds(600));
    mesh.run_for(seconds(5));
    assert_eq!(truth::check(&mesh), Ok(()));
}

#[test]
fn others_calculate_with_the_same_metric_so_that_nothing_goes_in_circles() {
    // From B the way to C over A and X has three hops and the way over 4, 5 and 6 has four.
    let links = [(A, X), (X, C), (A, B), (B, 4), (4, 5), (5, 6), (6, C)];
    for seed in SEEDS {
        let mut mesh = converged(seed, &links);
        assert_eq!(way(&mesh, B, C), [B, A, X, C]);
        avoid(&mut mesh, A, &[X], seconds(60));
        mesh.run_for(seconds(10));
        assert_eq!(way(&mesh, A, C), [A, B, 4, 5, 6, C], "seed {seed}");
        assert_eq!(way(&mesh, B, C), [B, 4, 5, 6, C], "seed {seed}");
        let all: BTreeSet<NodeId> = (0..mesh.node_count()).collect();
        for (from, to) in all
            .iter()
            .flat_map(|from| all.iter().map(move |to| (from, to)))
        {
            way(&mesh, *from, *to);
        }
        mesh.run_for(seconds(60));
        assert_eq!(truth::check(&mesh), Ok(()), "seed {seed}: it decays");
    }
}
