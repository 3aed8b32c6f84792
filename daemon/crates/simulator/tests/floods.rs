//! Floods of forged messages fill the tables of the victim. Real routers must be accepted all the same.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use olsrv2::{Config, Family, Limits, Metric, RefusalKind, Time};
use rfc5444::iana::{
    address_tlv, link_metric, link_status, local_if, message, message_tlv, nbr_addr_type,
};
use rfc5444::metric::compress;
use rfc5444::{AddressEntry, Message, Packet, Prefix, Tlv};
use simulator::{Mesh, Port, RADIO};

const STEP: Duration = Duration::from_millis(5);
/// The node that is flooded.
const VICTIM: Port = Port {
    node: 0,
    interface: RADIO,
};

fn forged(n: u32) -> IpAddr {
    Ipv6Addr::from_bits((0xfd66 << 112) + u128::from(n)).into()
}

fn forged_link_local(n: u32) -> IpAddr {
    Ipv6Addr::from_bits((0xfe80 << 112) + (0x66 << 32) + u128::from(n)).into()
}

fn packet(message: Message) -> Vec<u8> {
    let messages = vec![message];
    let packet = Packet {
        messages,
        ..Packet::default()
    };
    packet.encode().unwrap()
}

fn metric_tlv(flags: u16) -> Tlv {
    let value = flags | compress(Metric::MIN);
    Tlv::new(address_tlv::LINK_METRIC, 0, value.to_be_bytes())
}

/// A HELLO of an invented router that claims to hear `heard` and to have `two_hops` as neighbours.
fn hello(n: u32, heard: Option<IpAddr>, two_hops: &[IpAddr]) -> Vec<u8> {
    let mut hello = Message::new(message::HELLO, forged(n));
    hello.tlvs = vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [0x92]),
        Tlv::new(message_tlv::MPR_WILLING, 0, [0x77]),
    ];
    let entry = |address, tlvs| AddressEntry {
        prefix: Prefix::host(address),
        tlvs,
    };
    let local = |value| vec![Tlv::new(address_tlv::LOCAL_IF, 0, [value])];
    hello.addresses = vec![
        entry(forged_link_local(n), local(local_if::THIS_IF)),
        entry(forged(n), local(local_if::OTHER_IF)),
    ];
    let claims = heard.iter().chain(two_hops).map(|address| {
        let status = Tlv::new(address_tlv::LINK_STATUS, 0, [link_status::SYMMETRIC]);
        entry(*address, vec![status, metric_tlv(0xf000)])
    });
    hello.addresses.extend(claims);
    packet(hello)
}

/// A TC of an invented router with this number of invented neighbours.
fn tc(n: u32, seq: u16, neighbours: u32) -> Vec<u8> {
    let mut tc = Message::new(message::TC, forged(n));
    (tc.hop_limit, tc.hop_count, tc.seq) = (Some(255), Some(0), Some(seq));
    tc.tlvs = vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [0x92]),
        Tlv::new(message_tlv::CONT_SEQ_NUM, 0, seq.to_be_bytes()),
    ];
    let kind = Tlv::new(
        address_tlv::NBR_ADDR_TYPE,
        0,
        [nbr_addr_type::ROUTABLE_ORIG],
    );
    let targets = (0..neighbours).map(|index| AddressEntry {
        prefix: Prefix::host(forged(1_000_000 + n * 64 + index)),
        tlvs: vec![metric_tlv(link_metric::OUTGOING_NEIGHBOR), kind.clone()],
    });
    tc.addresses = targets.collect();
    packet(tc)
}

fn limits() -> Limits {
    Limits {
        links: 64,
        two_hops: 512,
        nodes: 128,
        edges: 1024,
        ..Limits::default()
    }
}

/// A line of nodes whose last one is not connected yet.
fn line(seed: u64, nodes: usize, limits: Limits) -> Mesh {
    let config = Config {
        limits,
        ..Config::default()
    };
    let mut mesh = Mesh::new(seed, config, &[Family::V6]);
    mesh.add_nodes(nodes);
    (2..nodes).for_each(|node| mesh.connect(node - 2, node - 1));
    mesh.run_for(Duration::from_secs(20));
    mesh
}

fn victims_address(mesh: &Mesh) -> IpAddr {
    mesh.router(VICTIM.node).unwrap().interfaces()[0].addresses[0]
}

fn reaches(mesh: &Mesh, node: usize) -> bool {
    let destination = Prefix::host(mesh.originator(node, Family::V6));
    let routes = mesh.router(VICTIM.node).unwrap().routes();
    routes.iter().any(|route| route.destination == destination)
}

/// Floods the victim, and connects the last node meanwhile. Returns how long the victim takes to find a route to it.
fn time_to_reach_the_last(
    mesh: &mut Mesh,
    rounds: u32,
    mut round: impl FnMut(&mut Mesh, u32),
) -> Option<Duration> {
    let last = mesh.node_count() - 1;
    let mut appeared: Option<Time> = None;
    let mut reached = None;
    for n in 0..rounds {
        round(mesh, n);
        if n == rounds / 2 {
            mesh.connect(last - 1, last);
            appeared = Some(mesh.now());
        }
        mesh.run_for(STEP);
        if reached.is_none() && reaches(mesh, last) {
            reached = appeared.map(|at| mesh.now() - at);
        }
    }
    reached.filter(|_| reaches(mesh, last))
}

#[test]
fn a_neighbour_appears_during_a_flood_of_hellos() {
    for seed in 0..10 {
        let mut mesh = line(seed, 2, limits());
        let own = victims_address(&mesh);
        let time = time_to_reach_the_last(&mut mesh, 2000, |mesh, n| {
            mesh.inject(VICTIM, forged_link_local(n), &hello(n, None, &[]));
            mesh.inject(
                VICTIM,
                forged_link_local(n),
                &hello(n + 5000, Some(own), &[]),
            );
        });
        println!("seed {seed}: {time:?}");
        assert!(
            time.is_some_and(|time| time < Duration::from_secs(3)),
            "{time:?}"
        );
        let router = mesh.router(VICTIM.node).unwrap();
        assert!(router.links().len() <= limits().links);
        let refusals = router.refusals(mesh.now());
        assert_eq!(refusals[0].kind, RefusalKind::OverLimit);
        assert!(refusals[0].further_sources > 1000);
    }
}

#[test]
fn a_neighbour_appears_during_a_flood_faster_than_the_links_live() {
    // At 4000 HELLOs per second, a link that was heard once lives for 64 ms.
    let links = Limits::default().links;
    let mut mesh = line(4, 2, Limits { links, ..limits() });
    let own = victims_address(&mesh);
    let time = time_to_reach_the_last(&mut mesh, 1600, |mesh, n| {
        for forgery in 20 * n..20 * n + 20 {
            let source = forged_link_local(forgery);
            mesh.inject(VICTIM, source, &hello(forgery, Some(own), &[]));
        }
    });
    assert!(
        time.is_some_and(|time| time < Duration::from_secs(4)),
        "{time:?}"
    );
}

/// Returns how long a neighbour takes to appear among 400 invented ones, each heard every 2 s. That is six times the
/// number of links that the victim can hold.
fn time_among_refreshed_forgeries(mesh: &mut Mesh) -> Option<Duration> {
    let own = victims_address(mesh);
    time_to_reach_the_last(mesh, 4000, |mesh, n| {
        mesh.inject(
            VICTIM,
            forged_link_local(n % 400),
            &hello(n % 400, Some(own), &[]),
        );
    })
}

#[test]
fn a_neighbour_appears_among_refreshed_forgeries() {
    let mut mesh = line(1, 2, limits());
    let time = time_among_refreshed_forgeries(&mut mesh);
    assert!(
        time.is_some_and(|time| time < Duration::from_secs(10)),
        "{time:?}"
    );
}

#[test]
fn a_trusted_neighbour_appears_at_once_among_refreshed_forgeries() {
    let mut mesh = line(1, 2, limits());
    let trusted = [mesh.originator(1, Family::V6)].into();
    mesh.act(VICTIM.node, |router| router.set_trusted(trusted));
    let time = time_among_refreshed_forgeries(&mut mesh);
    assert!(
        time.is_some_and(|time| time < Duration::from_secs(3)),
        "{time:?}"
    );
}

#[test]
fn a_node_four_hops_away_appears_during_a_flood_of_tcs() {
    for seed in 0..5 {
        let mut mesh = line(seed, 5, limits());
        let time = time_to_reach_the_last(&mut mesh, 4000, |mesh, n| {
            for forgery in 4 * n..4 * n + 4 {
                mesh.inject(VICTIM, forged_link_local(forgery), &tc(forgery, 1, 20));
            }
        });
        println!("seed {seed}: {time:?}");
        assert!(
            time.is_some_and(|time| time < Duration::from_secs(8)),
            "{time:?}"
        );
        let router = mesh.router(VICTIM.node).unwrap();
        assert!(router.nodes().len() <= limits().nodes);
        assert!(router.edges().len() <= limits().edges);
    }
}

#[test]
fn a_neighbour_that_makes_up_a_network_displaces_nothing_behind_another() {
    let mut mesh = line(3, 5, limits());
    let own = victims_address(&mesh);
    let made_up: Vec<IpAddr> = (1..400).map(forged).collect();
    let time = time_to_reach_the_last(&mut mesh, 4000, |mesh, n| {
        let source = forged_link_local(0);
        if n % 100 == 0 {
            mesh.inject(VICTIM, source, &hello(0, Some(own), &made_up));
        }
        let seq = (n / 400) as u16;
        mesh.inject(VICTIM, source, &tc(n % 400, seq, 20));
    });
    assert!(reaches(&mesh, 3), "what was there before");
    assert!(
        time.is_some_and(|time| time < Duration::from_secs(8)),
        "{time:?}"
    );
}

#[test]
fn the_control_without_an_attack() {
    for nodes in [2, 5] {
        let mut mesh = line(1, nodes, limits());
        let time = time_to_reach_the_last(&mut mesh, 4000, |_, _| {});
        assert!(
            time.is_some_and(|time| time < Duration::from_secs(8)),
            "{time:?}"
        );
        assert_eq!(mesh.router(VICTIM.node).unwrap().refusals(mesh.now()), []);
    }
}

#[test]
fn a_router_that_starts_in_a_mesh_as_large_as_its_tables_learns_all_of_it() {
    let nodes = 120;
    let config = Config {
        limits: limits(),
        ..Config::default()
    };
    let mut mesh = Mesh::new(1, config, &[Family::V6]);
    mesh.add_nodes(nodes);
    (2..nodes).for_each(|node| mesh.connect(node - 2, node - 1));
    mesh.run_for(Duration::from_secs(60));
    mesh.connect(nodes - 2, nodes - 1);
    let time = mesh.run_until_converged(Duration::from_secs(60), Duration::from_millis(500));
    assert!(time.is_some(), "no convergence");
}
