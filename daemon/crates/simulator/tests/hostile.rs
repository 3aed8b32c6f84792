//! Packets that no honest router sends. Nothing panics, memory stays bounded, and the routes of others stay right.

use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Config, Event, Family, InterfaceEvent, InterfaceId, Limits, Metric, Router, Time};
use proptest::prelude::*;
use rfc5444::iana::{address_tlv, link_metric, local_if, message, message_tlv, nbr_addr_type};
use rfc5444::{AddressEntry, Message, Packet, Prefix, Tlv};
use simulator::{truth, Mesh, Port, RADIO};

fn router(limits: Limits) -> Router {
    let config = Config {
        originator_v6: Some("fd00::1".parse().unwrap()),
        limits,
        ..Config::default()
    };
    let mut router = Router::new(config, Time::ZERO, 1);
    let addresses = vec!["fe80::1".parse().unwrap()];
    router.handle_interface(
        Time::ZERO,
        InterfaceEvent::Up {
            interface: InterfaceId(1),
            addresses,
        },
    );
    router
}

fn originator(n: u32) -> IpAddr {
    std::net::Ipv6Addr::from_bits((0xfd66 << 112) + u128::from(n)).into()
}

fn packet(message: Message) -> Vec<u8> {
    Packet {
        messages: vec![message],
        ..Packet::default()
    }
    .encode()
    .unwrap()
}

fn tc(from: u32, seq: u16, ansn: u16, targets: std::ops::Range<u32>) -> Vec<u8> {
    let mut tc = Message::new(message::TC, originator(from));
    (tc.hop_limit, tc.hop_count, tc.seq) = (Some(255), Some(0), Some(seq));
    tc.tlvs = vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [0x72]),
        Tlv::new(message_tlv::CONT_SEQ_NUM, 0, ansn.to_be_bytes()),
    ];
    let metric = link_metric::OUTGOING_NEIGHBOR | rfc5444::metric::compress(Metric::MIN);
    tc.addresses = targets
        .map(|n| AddressEntry {
            prefix: Prefix::host(originator(n)),
            tlvs: vec![
                Tlv::new(address_tlv::LINK_METRIC, 0, metric.to_be_bytes()),
                Tlv::new(
                    address_tlv::NBR_ADDR_TYPE,
                    0,
                    [nbr_addr_type::ROUTABLE_ORIG],
                ),
            ],
        })
        .collect();
    packet(tc)
}

fn hello(from: u32) -> Vec<u8> {
    let mut hello = Message::new(message::HELLO, originator(from));
    hello.tlvs = vec![Tlv::new(message_tlv::VALIDITY_TIME, 0, [0x72])];
    let own = Tlv::new(address_tlv::LOCAL_IF, 0, [local_if::THIS_IF]);
    hello.addresses = vec![AddressEntry {
        prefix: Prefix::host(originator(from)),
        tlvs: vec![own],
    }];
    packet(hello)
}

fn receive(router: &mut Router, now: Time, source: IpAddr, bytes: &[u8]) {
    router.handle_packet(now, InterfaceId(1), source, bytes);
    while router.poll_event().is_some() {}
    while router.poll_transmit().is_some() {}
}

#[test]
fn invented_neighbours_stop_at_the_limit() {
    let mut router = router(Limits {
        links: 10,
        ..Limits::default()
    });
    for n in 0..100 {
        receive(&mut router, Time::from_secs(1), originator(n), &hello(n));
    }
    assert_eq!(router.links().len(), 10);
    assert_eq!(router.counters().over_limit, 90);
}

#[test]
fn invented_routers_and_edges_stop_at_the_limit() {
    let limits = Limits {
        nodes: 20,
        advertised: 5,
        edges: 50,
        ..Limits::default()
    };
    let mut router = router(limits);
    for n in 0..100 {
        receive(
            &mut router,
            Time::from_secs(1),
            originator(n),
            &tc(n, 1, 1, 1000..1010),
        );
    }
    assert!(router.nodes().len() <= 20);
    assert_eq!(router.edges().len(), 50);
    // Of 100 routers that want 5 edges each, 10 are left.
    assert!(router.counters().over_limit >= 90);
}

#[test]
fn one_source_cannot_take_all_the_time() {
    let mut router = router(Limits {
        messages_per_second: 50,
        ..Limits::default()
    });
    for seq in 0..200 {
        receive(
            &mut router,
            Time::from_secs(1),
            originator(1),
            &tc(1, seq, seq, 2..4),
        );
    }
    receive(
        &mut router,
        Time::from_secs(1),
        originator(2),
        &tc(2, 1, 1, 3..5),
    );
    assert_eq!(router.counters().rate_limited, 150);
    assert_eq!(router.nodes().len(), 2);
}

#[test]
fn invented_topology_gives_no_route_without_a_symmetric_neighbour() {
    let mut router = router(Limits::default());
    receive(&mut router, Time::from_secs(1), originator(1), &hello(1));
    receive(
        &mut router,
        Time::from_secs(1),
        originator(1),
        &tc(1, 1, 1, 2..10),
    );
    assert_eq!(router.routes(), []);
    assert_eq!(router.edges().len(), 8);
}

#[test]
fn what_expires_is_told_and_gone() {
    let mut router = router(Limits::default());
    receive(
        &mut router,
        Time::from_secs(1),
        originator(1),
        &tc(1, 1, 1, 2..4),
    );
    let mut removed = 0;
    while let Some(at) = router.poll_timeout().filter(|at| *at < Time::from_secs(60)) {
        router.handle_timeout(at);
        let events = std::iter::from_fn(|| router.poll_event());
        removed += events
            .filter(|event| matches!(event, Event::EdgeRemoved(_) | Event::NodeRemoved(_)))
            .count();
        while router.poll_transmit().is_some() {}
    }
    assert_eq!(removed, 3);
    assert_eq!((router.nodes().len(), router.edges().len()), (0, 0));
}

#[test]
fn a_mesh_under_a_rain_of_damaged_packets_keeps_its_routes() {
    let mut mesh = Mesh::new(9, Config::default(), &[Family::V6]);
    mesh.add_nodes(6);
    (1..6).for_each(|node| mesh.connect(node - 1, node));
    assert!(mesh
        .run_until_converged(Duration::from_secs(5), Duration::from_millis(100))
        .is_some());
    let mut rng = fastrand::Rng::with_seed(9);
    let originals = [hello(900), tc(901, 1, 1, 902..920)];
    for round in 0..3000 {
        let mut bytes = originals[round % 2].clone();
        for _ in 0..rng.usize(1..6) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        bytes.truncate(rng.usize(1..=bytes.len()));
        let node = rng.usize(..6);
        mesh.inject(
            Port {
                node,
                interface: RADIO,
            },
            originator(rng.u32(900..910)),
            &bytes,
        );
        mesh.run_for(Duration::from_millis(5));
    }
    mesh.run_for(Duration::from_secs(60));
    assert_eq!(truth::check(&mesh), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_octets_do_not_panic(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..20)) {
        let mut router = router(Limits::default());
        for (n, bytes) in packets.iter().enumerate() {
            receive(&mut router, Time::from_millis(n as u64), originator(1), bytes);
        }
        router.handle_timeout(Time::from_secs(100));
    }
}
