//! Node A's view of a recorded line A - B - C of olsrd2: B's packets, fed to a
//! router that is configured as A was (`tests/vectors/olsrd2`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use olsrv2::{Config, InterfaceEvent, InterfaceId, LinkStatus, Prefix, RouteView, Router, Time};

const INTERFACE: InterfaceId = InterfaceId(2);
const B_LINK_V4: &str = "10.77.1.2";
const B_LINK_V6: &str = "fe80::ac91:80ff:fe14:5e31";

struct Recorded {
    at: Time,
    source: IpAddr,
    payload: Vec<u8>,
}

fn u32_le(octets: &[u8]) -> u64 {
    u64::from(u32::from_le_bytes(octets[..4].try_into().unwrap()))
}

/// The datagrams to port 269 of an Ethernet capture.
fn read_capture(name: &str) -> Vec<Recorded> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../tests/vectors/olsrd2")
        .join(name);
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(
        u32_le(&file),
        0xa1b2_c3d4,
        "a little-endian pcap with microseconds"
    );
    let (mut packets, mut rest) = (Vec::new(), &file[24..]);
    while !rest.is_empty() {
        let (header, length) = (&rest[..16], u32_le(&rest[8..]) as usize);
        let at = Duration::from_secs(u32_le(header)) + Duration::from_micros(u32_le(&header[4..]));
        packets.extend(read_frame(at, &rest[16..16 + length]));
        rest = &rest[16 + length..];
    }
    packets
}

fn read_frame(at: Time, frame: &[u8]) -> Option<Recorded> {
    let ip = &frame[14..];
    let (source, protocol, udp): (IpAddr, u8, &[u8]) = match frame[12..14] {
        [0x08, 0x00] => {
            let source: [u8; 4] = ip[12..16].try_into().unwrap();
            (
                Ipv4Addr::from(source).into(),
                ip[9],
                &ip[usize::from(ip[0] & 0x0f) * 4..],
            )
        }
        [0x86, 0xdd] => {
            let source: [u8; 16] = ip[8..24].try_into().unwrap();
            (Ipv6Addr::from(source).into(), ip[6], &ip[40..])
        }
        _ => return None,
    };
    let manet = protocol == 17 && udp[2..4] == 269u16.to_be_bytes();
    manet.then(|| Recorded {
        at,
        source,
        payload: udp[8..].to_vec(),
    })
}

/// The router after all that B sent.
fn replay() -> (Router, usize) {
    let config = Config {
        originator_v4: Some("10.77.0.1".parse().unwrap()),
        originator_v6: Some("fd77::1".parse().unwrap()),
        ..Config::default()
    };
    let own: [IpAddr; 2] =
        ["10.77.1.1", "fe80::d03e:78ff:fe8b:a3d2"].map(|address| address.parse().unwrap());
    let recorded = read_capture("line.pcap");
    let mut router = Router::new(config, recorded[0].at, 1);
    router.handle_interface(
        recorded[0].at,
        InterfaceEvent::Up {
            interface: INTERFACE,
            addresses: own.to_vec(),
        },
    );
    let mut sent = 0;
    for packet in recorded
        .iter()
        .filter(|packet| !own.contains(&packet.source))
    {
        while let Some(due) = router.poll_timeout().filter(|due| *due <= packet.at) {
            router.handle_timeout(due);
            sent += std::iter::from_fn(|| router.poll_transmit()).count();
        }
        router.handle_packet(packet.at, INTERFACE, packet.source, &packet.payload);
    }
    (router, sent)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn route(router: &Router, destination: &str) -> RouteView {
    let destination = Prefix::host(address(destination));
    let found = router
        .routes()
        .into_iter()
        .find(|route| route.destination == destination);
    found.unwrap_or_else(|| panic!("no route to {destination} in {:#?}", router.routes()))
}

#[test]
fn every_recorded_message_is_understood() {
    let (router, sent) = replay();
    let counters = router.counters();
    assert_eq!(
        (
            counters.malformed,
            counters.invalid,
            counters.stale,
            counters.over_limit
        ),
        (0, 0, 0, 0)
    );
    assert!(counters.hellos_received > 20 && counters.tcs_received > 5);
    assert!(sent > 20, "the router sends its own HELLOs meanwhile");
}

#[test]
fn the_neighbour_is_symmetric_in_both_families() {
    let (router, _) = replay();
    let links = router.links();
    let found: Vec<_> = links
        .iter()
        .map(|link| (link.address, link.originator, link.status))
        .collect();
    assert_eq!(
        found,
        [
            (
                address(B_LINK_V4),
                Some(address("10.77.0.2")),
                LinkStatus::Symmetric
            ),
            (
                address(B_LINK_V6),
                Some(address("fd77::2")),
                LinkStatus::Symmetric
            ),
        ]
    );
    assert!(links
        .iter()
        .all(|link| link.metric_out.is_some() && link.hello_validity == Duration::from_secs(20)));
    let neighbours = router.neighbours();
    assert!(neighbours
        .iter()
        .all(|neighbour| neighbour.symmetric && neighbour.is_routing_mpr));
    assert_eq!(neighbours[1].other_originator, Some(address("10.77.0.2")));
}

#[test]
fn the_far_node_is_routed_through_the_neighbour() {
    let (router, _) = replay();
    for (far, near, next_hop) in [
        ("10.77.0.3", "10.77.0.2", B_LINK_V4),
        ("fd77::3", "fd77::2", B_LINK_V6),
    ] {
        let to_near = route(&router, near);
        assert_eq!((to_near.hops, to_near.next_hop), (1, address(next_hop)));
        let to_far = route(&router, far);
        assert_eq!(
            (to_far.hops, to_far.next_hop, to_far.interface),
            (2, address(next_hop), INTERFACE)
        );
        assert_eq!(to_far.last_originator, address(near));
    }
}

#[test]
fn the_ipv4_tc_in_an_ipv6_packet_counts_for_ipv4() {
    let (router, _) = replay();
    let edges = router.edges();
    let edge = |from: &str, to: &str| {
        edges
            .iter()
            .any(|edge| edge.from == address(from) && edge.to == address(to))
    };
    assert!(edge("10.77.0.2", "10.77.0.3"));
    assert!(edge("fd77::2", "fd77::3"));
}
