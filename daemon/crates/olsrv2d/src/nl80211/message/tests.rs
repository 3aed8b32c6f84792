use std::fs;

use netlink_packet_core::{NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlinkkit::messages;
use proptest::prelude::*;

use super::*;

const NEAR: Mac = [0x42, 0, 0, 0, 0, 0];
const PEER: Mac = [0x42, 0, 0, 0, 2, 0];

/// The datagrams of a recording.
fn datagrams(name: &str) -> Vec<Vec<u8>> {
    let path = format!(
        "{}/../../../tests/vectors/nl80211/{name}.hex",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let octet = |pair: &[u8]| {
        let digits = std::str::from_utf8(pair).unwrap();
        u8::from_str_radix(digits, 16).unwrap()
    };
    let line = |line: &str| line.as_bytes().chunks(2).map(octet).collect();
    text.lines().map(line).collect()
}

fn recorded(name: &str) -> Vec<Message> {
    let inner = |message: NetlinkMessage<Message>| match message.payload {
        NetlinkPayload::InnerMessage(inner) => Some(inner),
        _ => None,
    };
    let datagrams = datagrams(name);
    let all = datagrams
        .iter()
        .flat_map(|datagram| messages::<Message>(datagram));
    all.filter_map(inner).collect()
}

fn stations(name: &str) -> Vec<Station> {
    recorded(name).iter().filter_map(Message::station).collect()
}

#[test]
fn idle_peers_are_read_as_the_kernel_told_them() {
    let [near, peer] = stations("stations-idle")[..] else {
        panic!("two stations");
    };
    let expected = Station {
        mac: NEAR,
        inactive_ms: Some(80),
        established: Some(true),
        listening: false,
        peering: [39541, 59260],
        signal_dbm: Some(-30),
        tx_bit_rate: NonZeroU64::new(13_000_000),
        expected_throughput: None,
        tx_packets: Some(3),
        tx_retries: Some(0),
        tx_failed: Some(0),
        airtime_metric: Some(4819),
        beacon_interval_tu: Some(100),
    };
    assert_eq!(near, expected);
    assert_eq!((peer.mac, peer.inactive_ms), (PEER, Some(88)));
}

#[test]
fn rates_appear_with_traffic() {
    let found = stations("stations-traffic");
    let peer = found.iter().find(|station| station.mac == PEER).unwrap();
    assert_eq!(peer.expected_throughput, NonZeroU64::new(36_468_000));
    assert_eq!(peer.tx_bit_rate, NonZeroU64::new(78_000_000));
    assert_eq!(peer.tx_packets, Some(134));
}

#[test]
fn a_peer_that_has_left_keeps_its_station_without_peering() {
    let [peer] = stations("stations-left")[..] else {
        panic!("one station");
    };
    assert_eq!(peer.established, Some(false));
    assert!(peer.listening);
    assert_eq!((peer.inactive_ms, peer.tx_failed), (Some(5144), Some(1)));
}

#[test]
fn stations_that_come_and_go_are_noticed() {
    let notices = |name| -> Vec<Notice> {
        let recorded = recorded(name);
        recorded.iter().filter_map(Message::notice).collect()
    };
    let come = Notice::Come { interface: 2 };
    assert_eq!(notices("notice-new-station"), [come]);
    let gone = Notice::Gone {
        interface: 3,
        mac: [0x42, 0, 0, 0, 1, 0],
    };
    assert_eq!(notices("notice-del-station"), [gone]);
    assert_eq!(notices("families"), [], "not about stations");
}

#[test]
fn the_family_is_found_among_all() {
    let families = recorded("families");
    assert!(families.len() > 5, "only {}", families.len());
    let found: Vec<Family> = families.iter().filter_map(Message::nl80211).collect();
    assert_eq!(found, [Family { id: 35, mlme: 22 }]);
}

#[test]
fn a_rate_of_zero_is_no_rate() {
    let rate = Message::new(0, 0, &[(nl80211::RATE_INFO_BITRATE32, &[0; 4])]).attributes;
    let info = Message::new(
        0,
        0,
        &[
            (nl80211::STA_INFO_TX_BITRATE, &rate),
            (nl80211::STA_INFO_EXPECTED_THROUGHPUT, &[0; 4]),
            (nl80211::STA_INFO_TX_FAILED, &[1, 0]),
        ],
    );
    let station = Station::read(PEER, &info.attributes);
    let nothing = Station {
        mac: PEER,
        ..Station::default()
    };
    assert_eq!(station, nothing, "and a count that is cut is none");
}

#[test]
fn a_cut_recording_gives_no_more_than_the_whole() {
    for datagram in datagrams("stations-traffic") {
        for length in (0..datagram.len()).step_by(7) {
            assert!(messages::<Message>(&datagram[..length]).len() <= 2);
        }
    }
}

fn read_all(message: &Message) {
    let _ = (message.station(), message.notice(), message.nl80211());
}

proptest! {
    #[test]
    fn no_octets_make_it_panic(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        for message in messages::<Message>(&octets) {
            if let NetlinkPayload::InnerMessage(message) = message.payload {
                read_all(&message);
            }
        }
        let header = NetlinkHeader::default();
        read_all(&Message::deserialize(&header, &octets).unwrap());
    }

    #[test]
    fn nor_do_changed_recordings(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut datagram = datagrams("stations-traffic").remove(0);
        for (index, octet) in changes {
            let place = index.index(datagram.len());
            datagram[place] = octet;
        }
        for message in messages::<Message>(&datagram) {
            if let NetlinkPayload::InnerMessage(message) = message.payload {
                read_all(&message);
            }
        }
    }
}
