//! What a router believes of messages that nobody has signed, claim by claim (docs/development/adr/0050).

use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Config, InterfaceEvent, InterfaceId, Metric, Prefix, Router, Time};
use rfc5444::iana::{
    address_tlv, link_metric, link_status, local_if, message, message_tlv, nbr_addr_type,
    other_neighb,
};
use rfc5444::metric::compress;
use rfc5444::{AddressEntry, Message, Packet, Tlv};

const START: Time = Time::from_secs(1000);
const MESH: InterfaceId = InterfaceId(1);
/// The private TLV of a TC that advertises all neighbours.
const TELLS_ALL: u8 = 228;
const DEFAULT: u32 = Config::DEFAULT_LINK_METRIC.get();

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The router fd00::1.
fn router() -> Router {
    let config = Config {
        originator_v6: Some("fd00::1".parse().unwrap()),
        ..Config::default()
    };
    let mut router = Router::new(config, START, 1);
    let addresses = vec![address("fe80::1")];
    let up = InterfaceEvent::Up {
        interface: MESH,
        addresses,
    };
    router.handle_interface(START, up);
    router
}

fn metric(kinds: u16, value: u32) -> Tlv {
    let word = kinds | compress(Metric::new(value).unwrap());
    Tlv::new(address_tlv::LINK_METRIC, 0, word.to_be_bytes())
}

fn entry(text: &str, tlvs: Vec<Tlv>) -> AddressEntry {
    AddressEntry {
        prefix: Prefix::host(address(text)),
        tlvs,
    }
}

/// The HELLO of the neighbour fd00::N at fe80::N, which hears this router with `own` and has these neighbours besides.
fn hello(n: u8, own: u32, neighbours: &[(&str, u32)]) -> Message {
    let mut hello = Message::new(message::HELLO, address(&format!("fd00::{n:x}")));
    hello.tlvs = vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [0xff]),
        Tlv::new(message_tlv::INTERVAL_TIME, 0, [0x58]),
        Tlv::new(message_tlv::MPR_WILLING, 0, [0x77]),
    ];
    let local = |value| vec![Tlv::new(address_tlv::LOCAL_IF, 0, [value])];
    let heard = Tlv::new(address_tlv::LINK_STATUS, 0, [link_status::SYMMETRIC]);
    hello.addresses = vec![
        entry(&format!("fe80::{n:x}"), local(local_if::THIS_IF)),
        entry(&format!("fd00::{n:x}"), local(local_if::OTHER_IF)),
        entry(
            "fe80::1",
            vec![heard, metric(link_metric::INCOMING_LINK, own)],
        ),
    ];
    let both = link_metric::INCOMING_NEIGHBOR | link_metric::OUTGOING_NEIGHBOR;
    let symmetric = Tlv::new(address_tlv::OTHER_NEIGHB, 0, [other_neighb::SYMMETRIC]);
    let advertised = neighbours.iter().map(|(to, weight)| {
        let tlvs = vec![symmetric.clone(), metric(both, *weight)];
        entry(to, tlvs)
    });
    hello.addresses.extend(advertised);
    hello
}

/// A TC of fd00::N with sequence number and ANSN `number`, and with N_out_metric and N_in_metric of each neighbour.
fn tc(n: u8, number: u16, neighbours: &[(&str, u32, u32)]) -> Message {
    let mut tc = Message::new(message::TC, address(&format!("fd00::{n:x}")));
    (tc.hop_limit, tc.hop_count, tc.seq) = (Some(255), Some(0), Some(number));
    tc.tlvs = vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [0xff]),
        Tlv::new(message_tlv::CONT_SEQ_NUM, 0, number.to_be_bytes()),
        Tlv::new(TELLS_ALL, 0, []),
    ];
    let kind = Tlv::new(
        address_tlv::NBR_ADDR_TYPE,
        0,
        [nbr_addr_type::ROUTABLE_ORIG],
    );
    let advertised = neighbours.iter().map(|(to, out, back)| {
        let out = metric(link_metric::OUTGOING_NEIGHBOR, *out);
        let back = metric(link_metric::INCOMING_NEIGHBOR, *back);
        entry(to, vec![out, back, kind.clone()])
    });
    tc.addresses = advertised.collect();
    tc
}

fn without_tlv(mut message: Message, typ: u8) -> Message {
    message.tlvs.retain(|tlv| tlv.typ != typ);
    message
}

/// Gives the router a message from the neighbour fe80::N.
fn receive(router: &mut Router, now: Time, n: u8, message: Message) {
    let packet = Packet {
        messages: vec![message],
        ..Packet::default()
    };
    let source = address(&format!("fe80::{n:x}"));
    router.handle_packet(now, MESH, source, &packet.encode().unwrap());
}

/// Metric and next router of the route to an address after `now`.
fn route(router: &mut Router, now: Time, to: &str) -> Option<(u32, IpAddr)> {
    router.handle_timeout(now + seconds(1));
    let routes = router.routes();
    let found = routes
        .iter()
        .find(|route| route.destination == Prefix::host(address(to)));
    found.map(|route| (route.metric, route.next_originator))
}

fn edges(router: &Router) -> usize {
    router.edges().len()
}

#[test]
fn a_link_to_a_router_that_denies_it_is_none() {
    let far = [("fd00::9", 100, 100)];
    for (advertised, expected) in [
        (tc(7, 1, &far), "fd00::9"),
        (without_tlv(tc(7, 1, &far), TELLS_ALL), "fd00::8"),
    ] {
        let mut router = router();
        receive(
            &mut router,
            START,
            9,
            hello(9, DEFAULT, &[("fd00::7", 100)]),
        );
        receive(&mut router, START, 8, hello(8, DEFAULT, &[("fd00::7", 1)]));
        receive(&mut router, START, 8, tc(8, 1, &[("fd00::7", 1, 1)]));
        receive(&mut router, START, 9, tc(9, 1, &[("fd00::7", 100, 100)]));
        receive(&mut router, START, 9, advertised);
        let (_, next) = route(&mut router, START, "fd00::7").unwrap();
        assert_eq!(next, address(expected));
    }
}

#[test]
fn a_link_that_is_denied_is_the_last_resort() {
    let mut router = router();
    receive(&mut router, START, 8, hello(8, DEFAULT, &[("fd00::7", 1)]));
    receive(&mut router, START, 8, tc(7, 1, &[("fd00::9", 100, 100)]));
    let found = route(&mut router, START, "fd00::7");
    assert_eq!(
        found,
        Some((DEFAULT + 1, address("fd00::8"))),
        "it may just have moved"
    );
    let found = route(&mut router, START, "fd00::9");
    assert_eq!(
        found,
        Some((DEFAULT + 101, address("fd00::8"))),
        "and so with what is behind it"
    );
}

#[test]
fn a_link_weighs_what_its_receiver_says_if_that_is_more() {
    for (claimed, said, expected) in [(1, 500, 500), (500, 1, 500)] {
        let mut router = router();
        receive(
            &mut router,
            START,
            8,
            hello(8, DEFAULT, &[("fd00::7", claimed)]),
        );
        receive(&mut router, START, 8, tc(7, 1, &[("fd00::8", 1, said)]));
        let found = route(&mut router, START, "fd00::7");
        assert_eq!(found, Some((DEFAULT + expected, address("fd00::8"))));
    }
}

#[test]
fn a_neighbour_is_asked_by_its_own_hellos() {
    // The link to fd00::9 is bad; fd00::8 claims a good one to it.
    let bad = 9_000_000;
    for (heard, expected) in [
        (&[][..], (bad, "fd00::9")),
        (&[("fd00::8", 100)][..], (DEFAULT + 100, "fd00::8")),
        (&[("fe80::8", 100)][..], (DEFAULT + 100, "fd00::8")),
        (&[("fd00::8", bad)][..], (bad, "fd00::9")),
    ] {
        let mut router = router();
        receive(&mut router, START, 9, hello(9, bad, heard));
        receive(&mut router, START, 8, hello(8, 1, &[("fd00::9", 1)]));
        receive(&mut router, START, 8, tc(8, 1, &[("fd00::9", 1, 1)]));
        let (metric, next) = route(&mut router, START, "fd00::9").unwrap();
        assert_eq!(next, address(expected.1), "{heard:?}");
        assert!(
            metric.abs_diff(expected.0) < expected.0 / 100,
            "{heard:?}: {metric}"
        );
    }
}

#[test]
fn validity_times_are_bounded() {
    let mut router = router();
    receive(&mut router, START, 8, hello(8, DEFAULT, &[]));
    assert_eq!(router.links()[0].symmetric_until, START + seconds(20));
    let without = without_tlv(hello(8, DEFAULT, &[]), message_tlv::INTERVAL_TIME);
    receive(&mut router, START, 8, without);
    assert_eq!(router.links()[0].symmetric_until, START + seconds(60));
    let mut advertised = tc(8, 1, &[]);
    receive(&mut router, START, 8, advertised.clone());
    assert_eq!(router.nodes()[0].expires, START + seconds(120));
    advertised.seq = Some(2);
    advertised
        .tlvs
        .push(Tlv::new(message_tlv::INTERVAL_TIME, 0, [0x62]));
    receive(&mut router, START, 8, advertised);
    assert_eq!(router.nodes()[0].expires, START + seconds(50));
}

#[test]
fn a_neighbours_tc_from_somebody_else_is_shown_to_it_and_to_nobody_else() {
    let mut router = router();
    receive(&mut router, START, 9, hello(9, DEFAULT, &[]));
    receive(&mut router, START, 8, hello(8, DEFAULT, &[]));
    let mut shown = Vec::new();
    for (number, milliseconds) in [(1, 0), (2, 999), (3, 1000)] {
        let now = START + seconds(10) + Duration::from_millis(milliseconds);
        receive(&mut router, now, 8, tc(9, number, &[("fd00::77", 1, 1)]));
        router.handle_timeout(now + Duration::from_millis(100));
        while let Some(transmit) = router.poll_transmit() {
            let packet = Packet::decode(&transmit.bytes).unwrap();
            let theirs = packet.messages.into_iter();
            shown.extend(theirs.filter(|one| one.originator == Some(address("fd00::9"))));
        }
    }
    let seen: Vec<_> = shown.iter().map(|one| (one.hop_limit, one.seq)).collect();
    assert_eq!(seen, [(Some(1), Some(1)), (Some(1), Some(3))]);
    assert_eq!((edges(&router), router.counters().disbelieved), (0, 3));
    receive(
        &mut router,
        START + seconds(12),
        9,
        tc(9, 1, &[("fd00::77", 1, 1)]),
    );
    assert_eq!(edges(&router), 1);
    receive(
        &mut router,
        START + seconds(12),
        8,
        tc(9, 1, &[("fd00::77", 1, 1)]),
    );
    assert_eq!(
        (router.counters().disbelieved, router.counters().duplicates),
        (3, 1),
        "a relayed copy"
    );
}

#[test]
fn a_neighbours_tc_may_come_from_whom_it_hears_until_it_contradicts() {
    let mut router = router();
    receive(
        &mut router,
        START,
        9,
        hello(9, DEFAULT, &[("fd00::8", 100)]),
    );
    receive(
        &mut router,
        START,
        8,
        hello(8, DEFAULT, &[("fd00::9", 100)]),
    );
    receive(&mut router, START, 8, tc(9, 500, &[("fd00::66", 1, 1)]));
    assert_eq!(edges(&router), 1, "its own copy may be lost");
    let advertised = [("fd00::77", 1, 1), ("fd00::76", 1, 1)];
    receive(&mut router, START + seconds(2), 9, tc(9, 7, &advertised));
    assert_eq!(edges(&router), 2);
    receive(&mut router, START + seconds(3), 8, tc(9, 501, &[]));
    assert_eq!((edges(&router), router.counters().disbelieved), (2, 1));
}

#[test]
fn a_tc_that_ends_here_is_its_originators_or_nobodys() {
    let last = |n, number| {
        let mut tc = tc(n, number, &[("fd00::77", 1, 1)]);
        tc.hop_limit = Some(1);
        tc
    };
    let mut router = router();
    receive(&mut router, START, 8, hello(8, DEFAULT, &[]));
    receive(&mut router, START, 8, last(7, 1));
    assert_eq!((edges(&router), router.counters().disbelieved), (0, 1));
    receive(&mut router, START, 8, last(8, 1));
    assert_eq!(edges(&router), 1);
    let mut two = last(7, 2);
    two.hop_limit = Some(2);
    receive(&mut router, START, 8, two);
    assert_eq!(edges(&router), 2);
}

#[test]
fn a_forged_message_does_not_take_the_place_of_the_true_one() {
    let mut router = router();
    receive(&mut router, START, 8, hello(8, DEFAULT, &[]));
    receive(&mut router, START, 9, hello(9, DEFAULT, &[]));
    receive(&mut router, START, 9, tc(7, 1, &[("fd00::9", 1, 1)]));
    receive(&mut router, START, 8, tc(7, 2, &[]));
    assert_eq!(edges(&router), 0);
    receive(
        &mut router,
        START + seconds(1),
        9,
        tc(7, 2, &[("fd00::9", 1, 1)]),
    );
    assert_eq!(router.counters().duplicates, 0);
    assert_eq!(edges(&router), 1);
}

#[test]
fn what_a_tc_tells_is_not_rewritten_by_another_neighbour() {
    let mut router = router();
    receive(
        &mut router,
        START,
        9,
        tc(7, 1, &[("fd00::9", 1, 1), ("fd00::6", 1, 1)]),
    );
    let rewritten = |seq, advertised: &[(&str, u32, u32)]| {
        let mut tc = tc(7, 1, advertised);
        tc.seq = Some(seq);
        tc
    };
    receive(&mut router, START, 8, rewritten(2, &[("fd00::9", 1, 1)]));
    receive(
        &mut router,
        START,
        8,
        rewritten(3, &[("fd00::9", 1, 1), ("fd00::5", 1, 1)]),
    );
    let three = [("fd00::9", 1, 1), ("fd00::6", 1, 1), ("fd00::5", 1, 1)];
    receive(&mut router, START, 8, rewritten(4, &three));
    assert_eq!((edges(&router), router.counters().disbelieved), (2, 3));
    receive(
        &mut router,
        START,
        8,
        rewritten(5, &[("fd00::9", 1, 1), ("fd00::6", 1, 1)]),
    );
    assert_eq!(
        (edges(&router), router.counters().disbelieved),
        (2, 3),
        "the same"
    );
    receive(&mut router, START, 9, rewritten(6, &three));
    assert_eq!(edges(&router), 3, "who is heard may");
}

#[test]
fn an_originator_is_nobodys_host_not_even_while_there_is_no_route_to_it() {
    for (originators, expected) in [(&[][..], Some("fd00::8")), (&[4][..], None)] {
        let mut router = router();
        receive(&mut router, START, 8, hello(8, DEFAULT, &[]));
        for n in originators {
            receive(&mut router, START, 8, tc(*n, 1, &[("fd00::5", 1, 1)]));
        }
        let mut attaching = tc(8, 1, &[("fd00::1", DEFAULT, DEFAULT)]);
        let gateway = Tlv::new(address_tlv::GATEWAY, 0, [0]);
        let host = vec![metric(link_metric::OUTGOING_NEIGHBOR, 1), gateway];
        attaching.addresses.push(entry("fd00::4", host));
        receive(&mut router, START, 8, attaching);
        let found = route(&mut router, START, "fd00::4").map(|(_, next)| next);
        assert_eq!(found, expected.map(address), "{originators:?}");
    }
}
