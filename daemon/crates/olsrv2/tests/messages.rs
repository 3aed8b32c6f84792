//! What a router sends, forwards and believes, seen from outside (RFC 7181, sections 13 to 18).

use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Config, Event, InterfaceEvent, InterfaceId, Metric, Prefix, Router, Time};
use rfc5444::iana::{
    address_tlv, cont_seq_num, link_metric, link_status, local_if, message, message_tlv, mpr,
    nbr_addr_type,
};
use rfc5444::metric::compress;
use rfc5444::{AddressEntry, Message, Packet, Tlv};

const START: Time = Time::from_secs(1000);
const MESH: InterfaceId = InterfaceId(1);
const WIRE: InterfaceId = InterfaceId(2);

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn config() -> Config {
    Config {
        originator_v6: Some("fd00::1".parse().unwrap()),
        first_sequence_number: Some(65534),
        advertise_all: false,
        ..Config::default()
    }
}

/// A router fd00::1 with the interfaces MESH and WIRE.
fn router(config: Config) -> Router {
    let mut router = Router::new(config, START, 1);
    for (interface, own) in [(MESH, "fe80::1"), (WIRE, "fe80::2")] {
        router.handle_interface(
            START,
            InterfaceEvent::Up {
                interface,
                addresses: vec![address(own)],
            },
        );
    }
    router
}

fn entry(text: &str, tlvs: &[(u8, &[u8])]) -> AddressEntry {
    let tlvs = tlvs
        .iter()
        .map(|(typ, value)| Tlv::new(*typ, 0, *value))
        .collect();
    AddressEntry {
        prefix: Prefix::host(address(text)),
        tlvs,
    }
}

fn metric(kinds: u16) -> [u8; 2] {
    (kinds | compress(Metric::MIN)).to_be_bytes()
}

/// A HELLO of fd00::9 on MESH that hears this router and gives it these MPR roles.
fn hello(roles: u8) -> Message {
    let mut hello = Message::new(message::HELLO, address("fd00::9"));
    hello.tlvs = vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [0x72]),
        Tlv::new(message_tlv::MPR_WILLING, 0, [0x77]),
    ];
    let in_link = metric(link_metric::INCOMING_LINK);
    let mut own: Vec<(u8, &[u8])> = vec![
        (address_tlv::LINK_STATUS, &[link_status::SYMMETRIC]),
        (address_tlv::LINK_METRIC, &in_link),
    ];
    let roles = [roles];
    if roles != [0] {
        own.push((address_tlv::MPR, &roles));
    }
    hello.addresses = vec![
        entry("fe80::9", &[(address_tlv::LOCAL_IF, &[local_if::THIS_IF])]),
        entry("fd00::9", &[(address_tlv::LOCAL_IF, &[local_if::OTHER_IF])]),
        entry("fe80::1", &own),
    ];
    hello
}

/// A TC of `from` that advertises `to`.
fn tc(from: &str, seq: u16, ansn: u16, to: &[&str]) -> Message {
    let mut tc = Message::new(message::TC, address(from));
    (tc.hop_limit, tc.hop_count, tc.seq) = (Some(255), Some(0), Some(seq));
    tc.tlvs = vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [0x72]),
        Tlv::new(
            message_tlv::CONT_SEQ_NUM,
            cont_seq_num::COMPLETE,
            ansn.to_be_bytes(),
        ),
    ];
    let out = metric(link_metric::OUTGOING_NEIGHBOR);
    let tlvs: [(u8, &[u8]); 2] = [
        (address_tlv::LINK_METRIC, &out),
        (address_tlv::NBR_ADDR_TYPE, &[nbr_addr_type::ROUTABLE_ORIG]),
    ];
    tc.addresses = to.iter().map(|to| entry(to, &tlvs)).collect();
    tc
}

fn receive(router: &mut Router, now: Time, message: Message) {
    let packet = Packet {
        messages: vec![message],
        ..Packet::default()
    };
    router.handle_packet(now, MESH, address("fe80::9"), &packet.encode().unwrap());
}

/// The messages of a type that the router sends until `end`, with their interface and time.
fn sent(router: &mut Router, end: Time, typ: u8) -> Vec<(InterfaceId, Time, Message)> {
    let mut now = START;
    let mut all = Vec::new();
    loop {
        while let Some(transmit) = router.poll_transmit() {
            let packet = Packet::decode(&transmit.bytes).unwrap();
            all.extend(
                packet
                    .messages
                    .into_iter()
                    .map(|message| (transmit.interface, now, message)),
            );
        }
        match router.poll_timeout().filter(|due| *due <= end) {
            Some(due) => now = due.max(now),
            None => break,
        }
        router.handle_timeout(now);
    }
    all.retain(|(_, _, message)| message.typ == typ);
    all
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The interfaces on which a TC of fd00::77 goes out, with its hop limit and count.
fn forwarded(router: &mut Router) -> Vec<(InterfaceId, Option<u8>, Option<u8>)> {
    let tcs = sent(router, START + seconds(1), message::TC).into_iter();
    let of_77 = tcs.filter(|(_, _, tc)| tc.originator == Some(address("fd00::77")));
    let mut copies: Vec<_> = of_77
        .map(|(interface, _, tc)| (interface, tc.hop_limit, tc.hop_count))
        .collect();
    copies.sort();
    copies
}

#[test]
fn a_flooding_mpr_forwards_once_on_every_interface() {
    let mut router = router(config());
    receive(&mut router, START, hello(mpr::FLOODING));
    receive(&mut router, START, tc("fd00::77", 1, 1, &["fd00::78"]));
    receive(&mut router, START, tc("fd00::77", 1, 1, &["fd00::78"]));
    assert_eq!(
        forwarded(&mut router),
        [(MESH, Some(254), Some(1)), (WIRE, Some(254), Some(1))]
    );
    assert_eq!(
        (router.counters().tcs_received, router.counters().duplicates),
        (1, 1)
    );
}

#[test]
fn nobody_but_a_flooding_mpr_forwards() {
    for first in [None, Some(hello(0)), Some(hello(mpr::ROUTING))] {
        let mut router = router(config());
        first
            .into_iter()
            .for_each(|hello| receive(&mut router, START, hello));
        receive(&mut router, START, tc("fd00::77", 1, 1, &["fd00::78"]));
        assert_eq!(forwarded(&mut router), []);
        assert_eq!(
            router.counters().tcs_received,
            1,
            "it is processed all the same"
        );
    }
}

#[test]
fn a_message_at_its_hop_limit_goes_no_further() {
    for (hop_limit, hop_count, copies) in [(1, 0, 0), (0, 0, 0), (2, 253, 2), (255, 255, 0)] {
        let mut router = router(config());
        receive(&mut router, START, hello(mpr::FLOODING));
        let mut tc = tc("fd00::77", 1, 1, &["fd00::78"]);
        (tc.hop_limit, tc.hop_count) = (Some(hop_limit), Some(hop_count));
        receive(&mut router, START, tc);
        assert_eq!(
            forwarded(&mut router).len(),
            copies,
            "hop limit {hop_limit}, hop count {hop_count}"
        );
    }
}

#[test]
fn a_copy_that_may_go_no_further_does_not_count_as_received() {
    let mut router = router(config());
    receive(&mut router, START, hello(mpr::FLOODING));
    for hop_limit in [1, 5] {
        let mut tc = tc("fd00::77", 1, 1, &["fd00::78"]);
        tc.hop_limit = Some(hop_limit);
        receive(&mut router, START, tc);
    }
    assert_eq!(forwarded(&mut router).len(), 2);
}

#[test]
fn the_messages_of_a_packet_travel_on_together() {
    let mut router = router(config());
    receive(&mut router, START, hello(mpr::FLOODING));
    sent(&mut router, START + seconds(1), message::TC);
    let now = START + seconds(1);
    let packet = Packet {
        messages: (1..=6)
            .map(|seq| tc("fd00::77", seq, 1, &["fd00::78"]))
            .collect(),
        ..Packet::default()
    };
    router.handle_packet(now, MESH, address("fe80::9"), &packet.encode().unwrap());
    let tcs = sent(&mut router, now + seconds(1), message::TC).into_iter();
    let times = tcs.filter(|(_, _, tc)| tc.originator == Some(address("fd00::77")));
    let times: Vec<_> = times.map(|(_, time, _)| time).collect();
    assert_eq!(times.len(), 12);
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
}

#[test]
fn what_claims_to_come_from_one_of_our_addresses_goes_nowhere() {
    let attached = olsrv2::Attached {
        prefix: "fd00::5/128".parse().unwrap(),
        distance: 1,
        metric: Metric::MIN,
    };
    for claimed in ["fe80::2", "fd00::5"] {
        let mut router = router(Config {
            attached: vec![attached],
            ..config()
        });
        receive(&mut router, START, hello(mpr::FLOODING));
        receive(&mut router, START, tc(claimed, 1, 1, &["fd00::78"]));
        assert_eq!(router.nodes(), []);
        assert_eq!(router.counters().invalid, 1);
        let tcs = sent(&mut router, START + seconds(1), message::TC);
        assert!(tcs
            .iter()
            .all(|(_, _, tc)| tc.originator != Some(address(claimed))));
        let mut claim = hello(0);
        claim.originator = Some(address(claimed));
        receive(&mut router, START + seconds(1), claim);
        assert_eq!(router.counters().invalid, 2);
    }
}

fn is_symmetric(router: &Router) -> bool {
    router
        .links()
        .iter()
        .any(|link| link.status == olsrv2::LinkStatus::Symmetric)
}

fn change_own_entry(hello: &mut Message, change: impl Fn(&mut Vec<Tlv>)) {
    change(&mut hello.addresses.last_mut().unwrap().tlvs);
}

#[test]
fn a_link_without_outgoing_metric_is_not_symmetric() {
    let is_metric = |tlv: &Tlv| tlv.typ == address_tlv::LINK_METRIC;
    let mut without = hello(0);
    change_own_entry(&mut without, |tlvs| tlvs.retain(|tlv| !is_metric(tlv)));
    let mut router = router(config());
    receive(&mut router, START, without.clone());
    assert!(!is_symmetric(&router));
    receive(&mut router, START, hello(0));
    assert!(is_symmetric(&router));
    receive(&mut router, START, without);
    assert!(!is_symmetric(&router));
}

#[test]
fn a_router_without_olsrv2_is_no_symmetric_neighbour() {
    let mut plain = hello(0);
    plain.tlvs.retain(|tlv| tlv.typ != message_tlv::MPR_WILLING);
    let mut router = router(config());
    receive(&mut router, START, plain);
    assert_eq!(router.links().len(), 1);
    assert!(!is_symmetric(&router));
    assert_eq!(router.neighbours()[0].originator, None);
}

#[test]
fn contradictory_hellos_are_discarded() {
    let discarded = |change: &dyn Fn(&mut Message)| {
        let mut router = router(config());
        let mut hello = hello(mpr::FLOODING);
        change(&mut hello);
        receive(&mut router, START, hello);
        (router.counters().invalid, router.links().len()) == (1, 0)
    };
    assert!(!discarded(&|_| {}));
    assert!(
        discarded(&|m| m.tlvs.push(m.tlvs[1].clone())),
        "MPR_WILLING twice"
    );
    let symmetric: (u8, &[u8]) = (address_tlv::LINK_STATUS, &[link_status::SYMMETRIC]);
    assert!(
        discarded(&|m| {
            m.addresses.remove(1);
            m.addresses.push(entry("fd00::9", &[symmetric]));
        }),
        "the originator as a neighbour"
    );
    let other = (link_metric::INCOMING_LINK | compress(Metric::MAX)).to_be_bytes();
    let second = Tlv::new(address_tlv::LINK_METRIC, 0, other);
    assert!(
        discarded(&|m| change_own_entry(m, |tlvs| tlvs.push(second.clone()))),
        "two metrics of an address"
    );
    assert!(
        discarded(&|m| change_own_entry(m, |tlvs| tlvs[0].value = [link_status::HEARD].into())),
        "an MPR that is not symmetric"
    );
}

#[test]
fn two_metrics_of_one_interface_contradict_each_other() {
    let mut router = Router::new(config(), START, 1);
    router.handle_interface(
        START,
        InterfaceEvent::Up {
            interface: MESH,
            addresses: vec![address("fe80::1"), address("fd00:1::1")],
        },
    );
    let mut hello = hello(0);
    let other = (link_metric::INCOMING_LINK | compress(Metric::MAX)).to_be_bytes();
    hello.addresses.push(entry(
        "fd00:1::1",
        &[
            (address_tlv::LINK_STATUS, &[link_status::SYMMETRIC]),
            (address_tlv::LINK_METRIC, &other),
        ],
    ));
    receive(&mut router, START, hello);
    assert_eq!((router.counters().invalid, router.links().len()), (1, 0));
}

#[test]
fn a_routing_mpr_that_is_only_heard_elsewhere_stays_a_selector() {
    let mut router = router(config());
    receive(&mut router, START, hello(mpr::ROUTING));
    let is_selector = |router: &Router| router.neighbours()[0].is_routing_selector;
    assert!(is_selector(&router));
    let mut partial = hello(0);
    change_own_entry(&mut partial, |tlvs| {
        tlvs[0].value = [link_status::HEARD].into()
    });
    receive(&mut router, START, partial);
    assert!(is_selector(&router), "this HELLO does not say");
    receive(&mut router, START, hello(0));
    assert!(!is_selector(&router));
}

#[test]
fn a_selector_that_is_lost_and_comes_back_has_to_say_so_again() {
    let mut router = router(config());
    receive(&mut router, START, hello(mpr::FLOOD_ROUTE));
    router.handle_interface(
        START,
        InterfaceEvent::NeighbourLost {
            interface: MESH,
            address: address("fe80::9"),
        },
    );
    let mut back = hello(0);
    change_own_entry(&mut back, |tlvs| {
        tlvs[0].value = [link_status::HEARD].into()
    });
    receive(&mut router, START, back);
    assert!(is_symmetric(&router));
    assert!(!router.neighbours()[0].is_routing_selector);
    assert!(!router.links()[0].is_flooding_selector);
}

#[test]
fn a_neighbour_keeps_its_originator_while_it_is_symmetric() {
    let mut router = router(config());
    let links = |router: &Router| -> Vec<IpAddr> {
        router.links().iter().map(|link| link.address).collect()
    };
    receive(&mut router, START, hello(0));
    let mut moved = hello(0);
    moved.addresses[0] = entry("fe80::8", &[(address_tlv::LOCAL_IF, &[local_if::THIS_IF])]);
    moved.addresses.remove(1);
    let packet = Packet {
        messages: vec![moved],
        ..Packet::default()
    };
    let packet = packet.encode().unwrap();
    router.handle_packet(START, MESH, address("fe80::8"), &packet);
    assert_eq!(links(&router), [address("fe80::9")]);
    assert_eq!(router.counters().disbelieved, 1);
    // The link is symmetric for 20 s, as its last HELLO said without an interval of its own.
    router.handle_packet(START + seconds(20), MESH, address("fe80::8"), &packet);
    assert_eq!(links(&router), [address("fe80::8")]);
}

#[test]
fn a_neighbour_speaks_from_another_interface_that_it_has_told() {
    let mut router = router(config());
    let mut advertised = hello(0);
    let other = entry("fe80::8", &[(address_tlv::LOCAL_IF, &[local_if::OTHER_IF])]);
    advertised.addresses.insert(1, other);
    receive(&mut router, START, advertised);
    let mut second = hello(0);
    second.addresses[0] = entry("fe80::8", &[(address_tlv::LOCAL_IF, &[local_if::THIS_IF])]);
    let first = entry("fe80::9", &[(address_tlv::LOCAL_IF, &[local_if::OTHER_IF])]);
    second.addresses.insert(1, first);
    let packet = Packet {
        messages: vec![second],
        ..Packet::default()
    };
    router.handle_packet(START, WIRE, address("fe80::8"), &packet.encode().unwrap());
    assert_eq!(router.links().len(), 2);
    assert_eq!(router.neighbours().len(), 1);
    assert_eq!(router.counters().disbelieved, 0);
}

#[test]
fn an_address_of_a_neighbour_or_the_originator_of_a_router_is_nobody_elses() {
    let mut router = router(config());
    receive(&mut router, START, hello(0));
    receive(&mut router, START, tc("fd00::77", 1, 1, &["fd00::9"]));
    let mut claims = hello(0);
    claims.originator = Some(address("fd00::8"));
    claims.addresses[0] = entry("fe80::8", &[(address_tlv::LOCAL_IF, &[local_if::THIS_IF])]);
    claims.addresses[1] = entry(
        "fd00::77",
        &[(address_tlv::LOCAL_IF, &[local_if::OTHER_IF])],
    );
    let own = entry("fd00::9", &[(address_tlv::LOCAL_IF, &[local_if::OTHER_IF])]);
    claims.addresses.insert(1, own);
    let send = |router: &mut Router, hello: &Message| {
        let packet = Packet {
            messages: vec![hello.clone()],
            ..Packet::default()
        };
        router.handle_packet(START, MESH, address("fe80::8"), &packet.encode().unwrap());
    };
    send(&mut router, &claims);
    let advertised: Vec<_> = router
        .neighbours()
        .into_iter()
        .map(|one| one.addresses)
        .collect();
    assert_eq!(
        advertised,
        [
            [address("fd00::9"), address("fe80::9")].to_vec(),
            vec![address("fe80::8")]
        ]
    );
    assert_eq!(router.counters().disbelieved, 2);
    claims.addresses[1] = entry("fe80::9", &[(address_tlv::LOCAL_IF, &[local_if::OTHER_IF])]);
    send(&mut router, &claims);
    assert_eq!(router.neighbours().len(), 2);
    assert_eq!(router.counters().disbelieved, 3, "the whole HELLO");
}

/// Settles the router and gives the times of its further HELLOs on both interfaces.
fn hellos_after(router: &mut Router, change: impl Fn(&mut Router, Time)) -> [usize; 2] {
    let settled = START + seconds(1);
    sent(router, settled, message::HELLO);
    change(router, settled);
    let soon = settled + Duration::from_millis(40);
    let hellos = sent(router, soon, message::HELLO);
    [MESH, WIRE].map(|wanted| {
        let on = hellos
            .iter()
            .filter(|(interface, _, _)| *interface == wanted);
        on.count()
    })
}

#[test]
fn a_changed_metric_is_told_at_once() {
    let mut router = router(config());
    receive(&mut router, START, hello(0));
    let advertised = hellos_after(&mut router, |router, now| {
        assert!(router.set_link_metric(now, MESH, address("fe80::9"), Some(Metric::MAX)));
    });
    assert_eq!(advertised, [1, 1]);
}

#[test]
fn a_heard_link_is_told_on_its_interface_alone() {
    let advertised = hellos_after(&mut router(config()), |router, now| {
        let mut heard = hello(0);
        heard.addresses.pop();
        receive(router, now, heard);
    });
    assert_eq!(advertised, [1, 0]);
}

#[test]
fn an_interface_may_have_a_timing_of_its_own() {
    let mut router = router(config());
    let timing = olsrv2::HelloTiming {
        interval: Duration::from_millis(500),
        validity: seconds(2),
    };
    router.set_hello_timing(START, MESH, Some(timing));
    let hellos = sent(&mut router, START + seconds(20), message::HELLO);
    let of = |wanted| {
        let on = hellos
            .iter()
            .filter(move |(interface, _, _)| *interface == wanted);
        on.map(|(_, _, hello)| hello)
    };
    assert!(of(MESH).count() >= 40 && of(WIRE).count() <= 12);
    let codes = |hello: &Message| {
        [message_tlv::INTERVAL_TIME, message_tlv::VALIDITY_TIME]
            .map(|typ| hello.tlv(typ, 0).unwrap().value[0])
    };
    assert!(of(MESH).all(|hello| codes(hello) == [0x48, 0x58]));
    assert!(of(WIRE).all(|hello| codes(hello) == [0x58, 0x64]));
}

/// HELLOs of `count` neighbours on MESH that hear this router.
fn crowd(router: &mut Router, now: Time, count: u32) {
    for n in 0..count {
        let [link, global] = ["fe80::", "fd00::"].map(|net| format!("{net}{:x}:9", 7 + 97 * n));
        let mut hello = hello(0);
        hello.originator = Some(address(&global));
        hello.addresses[0].prefix = Prefix::host(address(&link));
        hello.addresses[1].prefix = Prefix::host(address(&global));
        let packet = Packet {
            messages: vec![hello],
            ..Packet::default()
        };
        router.handle_packet(now, MESH, address(&link), &packet.encode().unwrap());
    }
}

#[test]
fn hellos_that_do_not_fit_share_the_addresses_of_each_interval() {
    let mut router = router(Config {
        packet_size: 400,
        ..config()
    });
    crowd(&mut router, START, 120);
    sent(&mut router, START, message::HELLO);
    let mut advertised: std::collections::BTreeMap<IpAddr, Time> = Default::default();
    let mut now = START;
    while now < START + seconds(12) {
        now = router.poll_timeout().unwrap();
        crowd(&mut router, now, 120);
        while let Some(transmit) = router.poll_transmit() {
            assert!(transmit.bytes.len() <= 400);
            let packet = Packet::decode(&transmit.bytes).unwrap();
            let hellos = packet.messages.iter().filter(|m| m.typ == message::HELLO);
            for hello in hellos.filter(|_| transmit.interface == MESH) {
                assert!(hello.addresses.len() < 2 * 120);
                advertised.extend(hello.addresses.iter().map(|e| (e.prefix.addr, now)));
            }
        }
        let interval = router.config().timing.hello_interval;
        let overdue = advertised
            .values()
            .filter(|at| now - **at > interval)
            .count();
        assert_eq!(overdue, 0, "at {now:?}");
    }
    assert_eq!(advertised.len(), 2 * 120 + 3);
}

/// A HELLO whose sender has the symmetric neighbour fd00::20, with these willingnesses.
fn hello_with_2_hop(willingness: u8) -> Message {
    let mut hello = hello(0);
    hello.tlvs[1].value = [willingness].into();
    let both = metric(link_metric::INCOMING_NEIGHBOR | link_metric::OUTGOING_NEIGHBOR);
    hello.addresses.push(entry(
        "fd00::20",
        &[
            (address_tlv::LINK_STATUS, &[link_status::SYMMETRIC]),
            (address_tlv::LINK_METRIC, &both),
        ],
    ));
    hello
}

#[test]
fn no_route_leads_through_an_unwilling_neighbour() {
    let routed = |willingness| {
        let mut router = router(config());
        receive(&mut router, START, hello_with_2_hop(willingness));
        sent(&mut router, START + seconds(1), message::HELLO);
        let to = Prefix::host(address("fd00::20"));
        router.routes().iter().any(|route| route.destination == to)
    };
    assert!(routed(0x77));
    assert!(!routed(0x70));
}

#[test]
fn an_mpr_is_named_on_a_symmetric_link_alone() {
    let mut router = router(config());
    receive(&mut router, START, hello_with_2_hop(0x77));
    let hellos = sent(&mut router, START + seconds(1), message::HELLO);
    let roles = |wanted| {
        let mut on = hellos.iter().rev();
        let (_, _, hello) = on.find(|(interface, _, _)| *interface == wanted).unwrap();
        let mut entries = hello.addresses.iter();
        let entry = entries.find(|entry| entry.prefix.addr == address("fe80::9"));
        let tlv = entry.unwrap().tlv(address_tlv::MPR, 0);
        tlv.map(|tlv| tlv.value.clone())
    };
    assert_eq!(roles(MESH), Some(vec![mpr::FLOOD_ROUTE]));
    assert_eq!(roles(WIRE), None);
}

#[test]
fn a_flooding_mpr_of_one_interface_is_named_on_all() {
    let mut router = router(config());
    let local = |text, value| entry(text, &[(address_tlv::LOCAL_IF, &[value])]);
    let mut on_mesh = hello_with_2_hop(0x77);
    on_mesh.addresses.push(local("fe80::a", local_if::OTHER_IF));
    receive(&mut router, START, on_mesh);
    let mut on_wire = hello(0);
    on_wire.addresses[0] = local("fe80::a", local_if::THIS_IF);
    on_wire.addresses[2].prefix = Prefix::host(address("fe80::2"));
    on_wire.addresses.push(local("fe80::9", local_if::OTHER_IF));
    let packet = Packet {
        messages: vec![on_wire],
        ..Packet::default()
    };
    router.handle_packet(START, WIRE, address("fe80::a"), &packet.encode().unwrap());
    let hellos = sent(&mut router, START + seconds(1), message::HELLO);
    let mut on_wire = hellos.iter().rev();
    let (_, _, hello) = on_wire
        .find(|(interface, _, _)| *interface == WIRE)
        .unwrap();
    let mut entries = hello.addresses.iter();
    let entry = entries.find(|entry| entry.prefix.addr == address("fe80::a"));
    let roles = &entry.unwrap().tlv(address_tlv::MPR, 0).unwrap().value;
    assert_eq!(roles[..], [mpr::FLOOD_ROUTE]);
}

#[test]
fn periodic_messages_keep_their_interval_but_for_jitter() {
    for (interval, min_interval, jitter) in [(2000, 200, 100), (2000, 1600, 500), (48, 200, 12)] {
        let [interval, min_interval, jitter] =
            [interval, min_interval, jitter].map(Duration::from_millis);
        let mut config = config();
        config.timing.hello_interval = interval;
        config.timing.hello_min_interval = min_interval;
        let mut router = router(config);
        let hellos = sent(&mut router, START + 100 * interval, message::HELLO);
        let on_mesh = hellos.iter().filter(|(interface, _, _)| *interface == MESH);
        // The interfaces that come up bring the first ones forward.
        let times: Vec<Time> = on_mesh.skip(2).map(|(_, time, _)| *time).collect();
        let gaps = || times.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps().all(|gap| gap <= interval && gap >= interval - jitter));
        assert!(gaps().max().unwrap() - gaps().min().unwrap() > jitter / 2);
    }
}

#[test]
fn who_has_too_many_neighbours_for_a_packet_advertises_selectors_alone() {
    let advertised = |count, changes: Config| {
        let mut router = router(Config {
            packet_size: 400,
            advertise_all: true,
            ..changes
        });
        crowd(&mut router, START, count);
        receive(&mut router, START, hello(mpr::ROUTING));
        let tcs = sent(&mut router, START + seconds(2), message::TC);
        tcs.last().unwrap().2.addresses.len()
    };
    assert_eq!(advertised(5, config()), 6);
    assert_eq!(advertised(200, config()), 1);
    let unwilling = Config {
        routing_willingness: 0,
        ..config()
    };
    assert_eq!(advertised(5, unwilling), 1);
}

#[test]
fn a_message_of_an_unknown_type_is_forwarded() {
    let mut router = router(config());
    receive(&mut router, START, hello(mpr::FLOODING));
    let mut unknown = tc("fd00::77", 1, 1, &[]);
    unknown.typ = 200;
    receive(&mut router, START, unknown);
    assert_eq!(sent(&mut router, START + seconds(1), 200).len(), 2);
}

#[test]
fn own_messages_that_come_back_are_ignored() {
    let mut router = router(config());
    receive(&mut router, START, hello(mpr::FLOOD_ROUTE));
    let own = sent(&mut router, START + seconds(1), message::TC)
        .remove(0)
        .2;
    receive(&mut router, START + seconds(10), own);
    assert_eq!(router.nodes(), []);
    let events: Vec<_> = std::iter::from_fn(|| router.poll_event()).collect();
    assert!(!events
        .iter()
        .any(|event| matches!(event, Event::DuplicateOriginator { .. })));
}

fn ansn(tc: &Message) -> u16 {
    let tlv = tc
        .tlv(message_tlv::CONT_SEQ_NUM, cont_seq_num::COMPLETE)
        .expect("a complete TC");
    u16::from_be_bytes(tlv.value[..].try_into().unwrap())
}

#[test]
fn a_selector_is_advertised_at_once_with_metric_and_type() {
    let mut router = router(config());
    receive(&mut router, START, hello(mpr::ROUTING));
    let tcs = sent(&mut router, START + Duration::from_millis(100), message::TC);
    let [(MESH, _, tc), (WIRE, _, _)] = &tcs[..] else {
        panic!("not one TC on each interface: {tcs:?}")
    };
    assert_eq!(
        (tc.hop_limit, tc.hop_count, tc.seq, ansn(tc)),
        (Some(255), Some(0), Some(65535), 65535)
    );
    // The neighbour says 1; what this router measures itself is more.
    let both = link_metric::OUTGOING_NEIGHBOR | link_metric::INCOMING_NEIGHBOR;
    let metric = (both | compress(Config::DEFAULT_LINK_METRIC)).to_be_bytes();
    let tlvs: [(u8, &[u8]); 2] = [
        (address_tlv::LINK_METRIC, &metric),
        (address_tlv::NBR_ADDR_TYPE, &[nbr_addr_type::ROUTABLE_ORIG]),
    ];
    assert_eq!(
        tc.addresses,
        [entry("fd00::9", &tlvs)],
        "the link-local address is not routable"
    );
}

#[test]
fn empty_tcs_follow_the_last_selector_for_the_hold_time() {
    let mut router = router(config());
    receive(&mut router, START, hello(mpr::ROUTING));
    let tcs = sent(&mut router, START + seconds(60), message::TC);
    let on_mesh: Vec<_> = tcs
        .iter()
        .filter(|(interface, _, _)| *interface == MESH)
        .collect();
    let empty: Vec<_> = on_mesh
        .iter()
        .skip_while(|(_, _, tc)| !tc.addresses.is_empty())
        .collect();
    let last = |empty: bool| {
        let of_kind = on_mesh.iter().rev();
        let mut of_kind = of_kind.filter(|(_, _, tc)| tc.addresses.is_empty() == empty);
        of_kind.next().unwrap().1
    };
    let timing = router.config().timing;
    assert!(last(true) < last(false) + timing.tc_validity);
    assert!(last(true) + timing.tc_interval >= last(false) + timing.tc_validity);
    assert!(empty.len() >= 3);
    assert!(
        empty
            .iter()
            .all(|(_, _, tc)| tc.addresses.is_empty() && ansn(tc) == 0),
        "the ANSN wraps to 0"
    );
}

#[test]
fn a_router_without_selectors_sends_no_tc() {
    let mut router = router(config());
    receive(&mut router, START, hello(0));
    assert_eq!(sent(&mut router, START + seconds(30), message::TC), []);
}

#[test]
fn a_hello_tells_links_metrics_and_willingness() {
    let mut router = router(Config {
        routing_willingness: 3,
        ..config()
    });
    receive(&mut router, START, hello(0));
    let hellos = sent(
        &mut router,
        START + Duration::from_millis(100),
        message::HELLO,
    );
    let (_, _, hello) = hellos
        .iter()
        .find(|(interface, _, _)| *interface == MESH)
        .unwrap();
    assert_eq!(hello.originator, Some(address("fd00::1")));
    assert_eq!(
        hello.tlv(message_tlv::MPR_WILLING, 0).unwrap().value,
        [0x73]
    );
    let of = |text| {
        hello
            .addresses
            .iter()
            .find(|entry| entry.prefix.addr == address(text))
            .unwrap()
    };
    assert_eq!(
        of("fe80::9")
            .tlv(address_tlv::LINK_STATUS, 0)
            .unwrap()
            .value,
        [link_status::SYMMETRIC]
    );
    let words: Vec<u16> = of("fe80::9")
        .tlvs_of(address_tlv::LINK_METRIC, 0)
        .map(|tlv| u16::from_be_bytes(tlv.value[..].try_into().unwrap()))
        .collect();
    let measured = link_metric::INCOMING_LINK
        | link_metric::INCOMING_NEIGHBOR
        | link_metric::OUTGOING_NEIGHBOR;
    let expected = [
        measured | compress(Config::DEFAULT_LINK_METRIC),
        link_metric::OUTGOING_LINK | compress(Metric::MIN),
    ];
    assert_eq!(words.len(), 2);
    assert!(
        expected.iter().all(|word| words.contains(word)),
        "{words:x?} instead of {expected:x?}"
    );
}

#[test]
fn an_older_ansn_is_not_believed() {
    let mut router = router(config());
    receive(&mut router, START, hello(0));
    receive(&mut router, START, tc("fd00::9", 10, 1, &["fd00::78"]));
    receive(&mut router, START, tc("fd00::9", 9, 65535, &["fd00::79"]));
    assert_eq!(router.counters().stale, 1);
    let edges: Vec<_> = router
        .edges()
        .iter()
        .map(|edge| (edge.to, edge.ansn))
        .collect();
    assert_eq!(edges, [(address("fd00::78"), 1)]);
}

#[test]
fn a_router_whose_ansn_went_back_while_its_sequence_number_went_on_has_restarted() {
    let mut router = router(config());
    receive(&mut router, START, tc("fd00::9", 10, 500, &["fd00::78"]));
    receive(&mut router, START, tc("fd00::9", 11, 3, &["fd00::79"]));
    assert_eq!(
        router
            .edges()
            .iter()
            .map(|edge| edge.to)
            .collect::<Vec<_>>(),
        [address("fd00::79")]
    );
}

/// A restarted router may begin anywhere: both of its numbers are lower than before. It goes on for longer than any message
/// is on its way.
#[test]
fn a_router_both_of_whose_numbers_went_back_has_restarted_when_it_goes_on_for_a_second() {
    let believed = |later: &[(u64, u16)]| {
        let mut router = router(config());
        receive(&mut router, START, hello(0));
        receive(&mut router, START, tc("fd00::5", 100, 50, &["fd00::6"]));
        for (milliseconds, seq) in later {
            let now = START + Duration::from_millis(*milliseconds);
            receive(&mut router, now, tc("fd00::5", *seq, 5, &["fd00::7"]));
        }
        let edges = router.edges();
        edges.iter().any(|edge| edge.to == address("fd00::7"))
    };
    assert!(!believed(&[(0, 10)]), "an old message");
    assert!(!believed(&[(0, 10), (999, 11)]), "they may be on their way");
    assert!(!believed(&[(0, 10), (1000, 9)]), "they do not go on");
    assert!(believed(&[(0, 10), (1000, 11)]));
    assert!(
        believed(&[(0, 10), (600, 11), (1000, 12)]),
        "since the first"
    );
}

#[test]
fn a_complete_tc_replaces_and_an_incomplete_one_adds() {
    let mut router = router(config());
    receive(
        &mut router,
        START,
        tc("fd00::9", 1, 1, &["fd00::78", "fd00::79"]),
    );
    let mut more = tc("fd00::9", 2, 2, &["fd00::80"]);
    more.tlvs[1].ext = cont_seq_num::INCOMPLETE;
    receive(&mut router, START, more);
    assert_eq!(router.edges().len(), 3);
    let mut less = tc("fd00::9", 3, 2, &["fd00::80"]);
    less.tlvs[1].ext = cont_seq_num::INCOMPLETE;
    less.addresses[0]
        .tlvs
        .retain(|tlv| tlv.typ != address_tlv::LINK_METRIC);
    receive(&mut router, START, less);
    assert_eq!(router.edges().len(), 2, "without a metric it is gone");
    receive(&mut router, START, tc("fd00::9", 4, 3, &["fd00::79"]));
    assert_eq!(
        router
            .edges()
            .iter()
            .map(|edge| edge.to)
            .collect::<Vec<_>>(),
        [address("fd00::79")]
    );
}

#[test]
fn routes_lead_to_all_that_a_neighbour_advertises() {
    let mut router = router(config());
    receive(&mut router, START, hello(0));
    receive(&mut router, START, tc("fd00::9", 1, 1, &["fd00::78"]));
    receive(
        &mut router,
        START,
        tc("fd00::78", 1, 1, &["fd00::1", "fd00::79"]),
    );
    sent(&mut router, START + seconds(1), message::TC);
    let found: Vec<_> = router
        .routes()
        .iter()
        .map(|r| (r.destination.addr, r.hops, r.next_hop))
        .collect();
    let via = address("fe80::9");
    assert_eq!(
        found,
        [
            (address("fd00::9"), 1, via),
            (address("fd00::78"), 2, via),
            (address("fd00::79"), 3, via)
        ]
    );
}

#[test]
fn a_lost_interface_withdraws_its_routes_at_once() {
    let mut router = router(config());
    receive(&mut router, START, hello(0));
    sent(&mut router, START + seconds(1), message::HELLO);
    assert_eq!(router.routes().len(), 1);
    router.handle_interface(START + seconds(1), InterfaceEvent::Down { interface: MESH });
    assert_eq!((router.routes().len(), router.links().len()), (0, 0));
    let events: Vec<_> = std::iter::from_fn(|| router.poll_event()).collect();
    assert!(events.contains(&Event::RouteRemoved(Prefix::host(address("fd00::9")))));
}

#[test]
fn a_changed_originator_leaves_links_and_routes() {
    let mut router = router(config());
    receive(&mut router, START, hello(0));
    sent(&mut router, START + seconds(1), message::HELLO);
    receive(
        &mut router,
        START + seconds(1),
        tc("fd00::9", 1, 1, &["fd00::78"]),
    );
    router.handle_timeout(START + seconds(2));
    while router.poll_event().is_some() {}
    router.reconfigure(
        START + seconds(2),
        Config {
            originator_v6: Some("fd00::2".parse().unwrap()),
            ..config()
        },
    );
    router.handle_timeout(START + seconds(3));
    assert_eq!(router.originators(), [address("fd00::2")]);
    assert_eq!((router.links().len(), router.nodes().len()), (1, 1));
    let routes = router.routes();
    assert_eq!(
        routes
            .iter()
            .map(|route| (route.destination.addr, route.source))
            .collect::<Vec<_>>(),
        [
            (address("fd00::9"), address("fd00::2")),
            (address("fd00::78"), address("fd00::2"))
        ]
    );
    let removed = std::iter::from_fn(|| router.poll_event())
        .filter(|event| matches!(event, Event::RouteRemoved(_)));
    assert_eq!(removed.count(), 0);
}

#[test]
fn a_former_originator_is_no_destination_while_others_still_tell_it() {
    let mut router = router(config());
    receive(&mut router, START, hello(0));
    sent(&mut router, START + seconds(1), message::HELLO);
    let changed = Config {
        originator_v6: Some("fd00::2".parse().unwrap()),
        ..config()
    };
    router.reconfigure(START + seconds(1), changed);
    receive(
        &mut router,
        START + seconds(1),
        tc("fd00::9", 1, 1, &["fd00::1", "fd00::78"]),
    );
    router.handle_timeout(START + seconds(2));
    let destinations = router
        .routes()
        .into_iter()
        .map(|route| route.destination.addr);
    assert_eq!(
        destinations.collect::<Vec<_>>(),
        [address("fd00::9"), address("fd00::78")]
    );
}

#[test]
fn messages_with_a_former_originator_are_ignored_for_its_hold_time() {
    let mut router = router(config());
    let changed = Config {
        originator_v6: Some("fd00::2".parse().unwrap()),
        ..config()
    };
    router.reconfigure(START, changed);
    let hold = router.config().timing.duplicate_hold_time;
    receive(
        &mut router,
        START + hold - seconds(1),
        tc("fd00::1", 1, 1, &["fd00::78"]),
    );
    assert_eq!(router.nodes(), []);
    receive(
        &mut router,
        START + hold,
        tc("fd00::1", 2, 1, &["fd00::78"]),
    );
    assert_eq!(router.nodes().len(), 1);
}
