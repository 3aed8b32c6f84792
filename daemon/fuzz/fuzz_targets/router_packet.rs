//! A router that hostile neighbours speak to: it does not panic, keeps its
//! bounds, sends only what decodes, and never asks for a timer in the past.
//!
//! The input is a session of records: an octet of time step and neighbour, two
//! octets of length, and a packet.
#![no_main]

use std::net::IpAddr;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use olsrv2::{
    Attached, Config, InterfaceEvent, InterfaceId, Limits, LinkStatus, LinkView, Metric, Router,
    Time,
};
use rfc5444::Packet;

/// Small enough to be reached in a short session.
const LIMITS: Limits = Limits {
    links: 3,
    two_hops: 8,
    nodes: 6,
    advertised: 6,
    edges: 16,
    duplicates: 16,
    messages_per_second: 64,
};
/// What a session may take: enough for every validity time to run out.
const LONGEST: Time = Time::from_secs(120);
const MESH: InterfaceId = InterfaceId(1);
const NEIGHBOURS: [&str; 4] = [
    "10.77.1.2",
    "10.77.1.9",
    "fe80::ac91:80ff:fe14:5e31",
    "fe80::9",
];

fuzz_target!(|session: &[u8]| {
    let mut now = Time::ZERO;
    let mut router = router(now);
    let mut rest = session;
    while let [first, high, low, after @ ..] = rest {
        let length = u16::from_be_bytes([*high, *low]);
        let (packet, after) = after.split_at(after.len().min(length.into()));
        rest = after;
        if now > LONGEST {
            break;
        }
        let step = Duration::from_millis((1 << (first >> 4)) - 1);
        now = run(&mut router, now, now + step);
        let source: IpAddr = NEIGHBOURS[usize::from(first & 3)].parse().unwrap();
        router.handle_packet(now, MESH, source, packet);
        check(&mut router, now);
    }
    run(&mut router, now, now + Duration::from_secs(10));
    check_routes(&router);
});

/// The router A of the recorded line A - B - C.
fn router(now: Time) -> Router {
    let attached = Attached {
        prefix: "192.168.0.0/24".parse().unwrap(),
        distance: 1,
        metric: Metric::MIN,
    };
    let config = Config {
        originator_v4: Some("10.77.0.1".parse().unwrap()),
        originator_v6: Some("fd77::1".parse().unwrap()),
        attached: vec![attached],
        limits: LIMITS,
        ..Config::default()
    };
    let mut router = Router::new(config, now, 1);
    let addresses = ["10.77.1.1", "fd77:1::1", "fe80::d03e:78ff:fe8b:a3d2"];
    let addresses = addresses.map(|address| address.parse().unwrap()).into();
    router.handle_interface(
        now,
        InterfaceEvent::Up {
            interface: MESH,
            addresses,
        },
    );
    router
}

/// Lets time pass; returns when it is.
fn run(router: &mut Router, mut now: Time, until: Time) -> Time {
    while let Some(due) = router.poll_timeout().filter(|due| *due <= until) {
        now = now.max(due);
        router.handle_timeout(now);
        check(router, now);
    }
    until
}

fn check(router: &mut Router, now: Time) {
    assert!(
        router.poll_timeout().is_none_or(|due| due > now),
        "a timer that is due stays due"
    );
    while let Some(sent) = router.poll_transmit() {
        Packet::decode(&sent.bytes).expect("what we send decodes");
    }
    while router.poll_event().is_some() {}
    let families = router.originators().len();
    assert!(router.links().len() <= families * LIMITS.links);
    assert!(router.two_hops().len() <= families * LIMITS.two_hops);
    assert!(router.nodes().len() <= families * LIMITS.nodes);
    assert!(router.edges().len() <= families * 2 * LIMITS.edges);
    assert!(router.attached().len() <= families * LIMITS.edges);
}

/// Once the calculation of the routing set has caught up, every route begins with a link.
fn check_routes(router: &Router) {
    let (links, originators) = (router.links(), router.originators());
    for route in router.routes() {
        let own = originators.contains(&route.destination.addr);
        assert!(!own, "a route to ourselves: {route:?}");
        let begins = |link: &LinkView| {
            let addresses = [&link.addresses[..], &[link.address]].concat();
            link.status == LinkStatus::Symmetric && addresses.contains(&route.next_hop)
        };
        assert!(
            links.iter().any(begins),
            "a route by nobody's link: {route:?}, {links:?}"
        );
    }
}
