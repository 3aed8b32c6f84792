//! How fast small networks find their routes with default timers (RFC 7181 timing, triggered messages).

use std::time::Duration;

use olsrv2::{Config, Family, InterfaceId};
use simulator::{truth, Mesh, Port};

const STEP: Duration = Duration::from_millis(10);
const SEEDS: std::ops::Range<u64> = 0..20;

fn mesh(seed: u64, nodes: usize) -> Mesh {
    let mut mesh = Mesh::new(seed, Config::default(), &Family::ALL);
    mesh.add_nodes(nodes);
    mesh
}

fn line(seed: u64, nodes: usize) -> Mesh {
    let mut mesh = mesh(seed, nodes);
    (1..nodes).for_each(|node| mesh.connect(node - 1, node));
    mesh
}

fn port(node: usize, interface: u32) -> Port {
    Port {
        node,
        interface: InterfaceId(interface),
    }
}

/// A ring of wires: interface 2 leads to the next node, interface 3 to the one before.
fn ring(seed: u64, nodes: usize) -> Mesh {
    let mut mesh = mesh(seed, nodes);
    (0..nodes).for_each(|node| mesh.connect_ports(port(node, 2), port((node + 1) % nodes, 3)));
    mesh
}

/// Returns the slowest convergence of a network over all seeds.
fn slowest(limit: Duration, network: impl Fn(u64) -> Mesh) -> Duration {
    let time = |seed| network(seed).run_until_converged(limit, STEP);
    let times: Vec<_> = SEEDS
        .map(|seed| time(seed).unwrap_or_else(|| panic!("seed {seed}: no convergence")))
        .collect();
    let slowest = times.into_iter().max().unwrap();
    println!("slowest of {} seeds: {slowest:?}", SEEDS.count());
    slowest
}

#[test]
fn a_line_of_3_converges_within_2_s() {
    slowest(Duration::from_secs(2), |seed| line(seed, 3));
}

#[test]
fn a_line_of_10_converges_within_5_s() {
    slowest(Duration::from_secs(5), |seed| line(seed, 10));
}

#[test]
fn a_ring_of_4_routes_around_a_silent_cut_within_6_5_s() {
    slowest(Duration::from_millis(6500), |seed| {
        let mut mesh = ring(seed, 4);
        mesh.run_for(Duration::from_secs(20) + Duration::from_millis(seed * 97));
        assert_eq!(truth::check(&mesh), Ok(()));
        mesh.cut(0, 1);
        mesh
    });
}

#[test]
fn a_ring_of_4_routes_around_a_link_seen_down_at_both_ends_within_1_s() {
    slowest(Duration::from_secs(1), |seed| {
        let mut mesh = ring(seed, 4);
        mesh.run_for(Duration::from_secs(20) + Duration::from_millis(seed * 97));
        mesh.cut(0, 1);
        mesh.interface_down(port(0, 2));
        mesh.interface_down(port(1, 3));
        mesh
    });
}

#[test]
fn the_end_that_sees_a_link_down_reroutes_within_1_s() {
    for seed in SEEDS {
        let mut mesh = ring(seed, 4);
        mesh.run_for(Duration::from_secs(20));
        mesh.cut(0, 1);
        mesh.interface_down(port(0, 2));
        mesh.run_for(Duration::from_secs(1));
        for family in Family::ALL {
            let to = mesh.originator(1, family);
            let routes = mesh.router(0).unwrap().routes();
            let route = routes.iter().find(|route| route.destination.addr == to);
            assert_eq!(
                route.map(|route| (route.interface.0, route.hops)),
                Some((3, 3)),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn a_newcomer_at_the_end_of_a_line_knows_all_within_3_s() {
    slowest(Duration::from_secs(3), |seed| {
        let mut mesh = line(seed, 9);
        mesh.run_for(Duration::from_secs(20));
        mesh.add_nodes(1);
        mesh.connect(8, 9);
        mesh
    });
}

#[test]
fn nothing_is_sent_beyond_the_periodic_messages_once_the_network_is_quiet() {
    let mut mesh = line(1, 4);
    mesh.run_for(Duration::from_secs(20));
    let before = mesh.counters();
    mesh.run_for(Duration::from_secs(70));
    for (before, after) in before.iter().zip(mesh.counters()) {
        // Jitter shortens an interval by at most a quarter. There are two families.
        assert!(after.hellos_sent - before.hellos_sent <= 2 * 70 * 10 / 15 + 2);
        assert!(after.tcs_sent - before.tcs_sent <= 2 * 70 * 100 / 375 + 2);
        assert_eq!(after.route_calculations, before.route_calculations);
    }
}
