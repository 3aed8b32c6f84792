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
    let out = metric(link_metric::OUTGOING_NEIGHBOR);
    let tlvs: [(u8, &[u8]); 2] = [
        (address_tlv::LINK_METRIC, &out),
        (address_tlv::NBR_ADDR_TYPE, &[nbr_addr_type::ROUTABLE_ORIG]),
    ];
    assert_eq!(
        tc.addresses,
        [entry("fd00::9", &tlvs)],
        "the link-local address is not routable"
    );
}

#[test]
fn after_the_last_selector_three_empty_tcs_follow() {
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
    assert_eq!(empty.len(), 3);
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
    let incoming = link_metric::INCOMING_LINK | link_metric::INCOMING_NEIGHBOR;
    let outgoing = link_metric::OUTGOING_LINK | link_metric::OUTGOING_NEIGHBOR;
    let expected = [
        incoming | compress(Config::DEFAULT_LINK_METRIC),
        outgoing | compress(Metric::MIN),
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
    receive(&mut router, START, tc("fd00::9", 3, 3, &["fd00::79"]));
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
    receive(
        &mut router,
        START,
        tc("fd00::9", 1, 1, &["fd00::78", "fe80::78", "ff02::1", "::1"]),
    );
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
fn a_changed_originator_restarts_the_family() {
    let mut router = router(config());
    receive(&mut router, START, hello(0));
    sent(&mut router, START + seconds(1), message::HELLO);
    while router.poll_event().is_some() {}
    router.reconfigure(
        START + seconds(1),
        Config {
            originator_v6: Some("fd00::2".parse().unwrap()),
            ..config()
        },
    );
    assert_eq!(
        (router.originators(), router.links().len()),
        (vec![address("fd00::2")], 0)
    );
    let events: Vec<_> = std::iter::from_fn(|| router.poll_event()).collect();
    assert!(events.contains(&Event::RouteRemoved(Prefix::host(address("fd00::9")))));
    receive(&mut router, START, hello(0));
    assert_eq!(router.links().len(), 1, "the interfaces are still there");
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
