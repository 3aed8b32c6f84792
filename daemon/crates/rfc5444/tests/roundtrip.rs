//! Every packet is the same after encoding and decoding, and no octets make the decoder panic.

mod support;

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rfc5444::{
    forward_copy, AddressEntry, DecodeCause, Message, Packet, PacketView, Prefix, Tlv, MAX_ENTRIES,
    MAX_EXPANSION,
};

/// Few types and short values, so that addresses often share them.
fn tlv() -> impl Strategy<Value = Tlv> {
    let value = prop_oneof![4 => vec(0..3_u8, 0..3), 1 => vec(any::<u8>(), 250..260)];
    (
        prop_oneof![0..4_u8, Just(255)],
        prop_oneof![3 => Just(0), 1 => any::<u8>()],
        value,
    )
        .prop_map(|(typ, ext, value)| Tlv { typ, ext, value })
}

/// Addresses with few bits set, so that they often share head and tail.
fn address(addr_len: u8) -> impl Strategy<Value = IpAddr> {
    let octets = vec(
        prop_oneof![3 => Just(0), 1 => any::<u8>()],
        usize::from(addr_len),
    );
    octets.prop_map(|octets| match <[u8; 4]>::try_from(&octets[..]) {
        Ok(octets) => octets.into(),
        Err(_) => <[u8; 16]>::try_from(octets).unwrap().into(),
    })
}

fn entry(addr_len: u8) -> impl Strategy<Value = AddressEntry> {
    let len = prop_oneof![3 => Just(addr_len * 8), 1 => 0..=addr_len * 8];
    (address(addr_len), len, vec(tlv(), 0..4)).prop_map(|(addr, len, mut tlvs)| {
        tlvs.sort_by_key(|tlv| (tlv.typ, tlv.ext));
        let prefix = Prefix { addr, len };
        AddressEntry { prefix, tlvs }
    })
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![Just(4_u8), Just(16)].prop_flat_map(|addr_len| {
        let originator = option::of(address(addr_len));
        let addresses =
            prop_oneof![9 => vec(entry(addr_len), 0..12), 1 => vec(entry(addr_len), 250..300)];
        let numbers = (
            any::<u8>(),
            any::<Option<u8>>(),
            any::<Option<u8>>(),
            any::<Option<u16>>(),
        );
        (numbers, originator, vec(tlv(), 0..4), addresses).prop_map(
            move |((typ, hop_limit, hop_count, seq), originator, tlvs, addresses)| Message {
                typ,
                addr_len,
                originator,
                hop_limit,
                hop_count,
                seq,
                tlvs,
                addresses,
            },
        )
    })
}

fn packet() -> impl Strategy<Value = Packet> {
    (any::<Option<u16>>(), vec(tlv(), 0..3), vec(message(), 0..4)).prop_map(
        |(seq, tlvs, messages)| Packet {
            seq,
            tlvs,
            messages,
        },
    )
}

/// Octets that resemble a packet: a recorded one with some octets changed.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let recorded = prop::sample::select(support::capture("line.pcap"));
    (
        recorded,
        vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    )
        .prop_map(|(mut octets, changes)| {
            for (index, octet) in changes {
                *index.get_mut(&mut octets) = octet;
            }
            octets
        })
}

/// Checks what must hold for any octets.
fn survive(octets: &[u8]) {
    if let Ok(packet) = Packet::decode(octets) {
        let encoded = packet.encode().expect("a decoded packet can be encoded");
        assert_eq!(Packet::decode(&encoded), Ok(packet));
    }
    let Ok(view) = PacketView::new(octets) else {
        return;
    };
    for raw in view.messages().flatten() {
        let Some(copy) = forward_copy(raw.octets) else {
            continue;
        };
        assert_eq!(copy.len(), raw.octets.len());
        let changed = copy.iter().zip(raw.octets).filter(|(a, b)| a != b).count();
        assert_eq!(changed, 1 + usize::from(raw.header.hop_count.is_some()));
    }
}

/// Returns the number of entries to which a packet decodes, as [`MAX_EXPANSION`] counts them.
fn entries(packet: &Packet) -> usize {
    let entry = |entry: &AddressEntry| -> usize {
        1 + entry
            .tlvs
            .iter()
            .map(|tlv| 1 + tlv.value.len())
            .sum::<usize>()
    };
    let messages = packet.messages.iter();
    messages
        .flat_map(|message| &message.addresses)
        .map(entry)
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_packet_survives_the_wire(packet in packet()) {
        let octets = packet.encode().unwrap();
        let decoded = Packet::decode(&octets);
        if entries(&packet) <= MAX_ENTRIES.min(octets.len() * MAX_EXPANSION) {
            prop_assert_eq!(decoded, Ok(packet));
        } else {
            prop_assert_eq!(decoded.unwrap_err().cause, DecodeCause::Expansion);
        }
    }

    #[test]
    fn encoding_is_deterministic(message in message()) {
        prop_assert_eq!(message.encode(), message.clone().encode());
        let again = Message::decode(&message.encode().unwrap()).unwrap();
        prop_assert_eq!(again.encode(), message.encode());
    }

    #[test]
    fn any_octets_are_survived(octets in vec(any::<u8>(), 0..200)) {
        survive(&octets);
    }

    #[test]
    fn damaged_packets_are_survived(octets in damaged()) {
        survive(&octets);
    }
}
