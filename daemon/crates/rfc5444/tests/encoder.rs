//! Which form the encoder chooses, octet by octet.

mod support;

use std::net::{IpAddr, Ipv4Addr};

use rfc5444::{AddressEntry, EncodeError, Message, Packet, Prefix, Tlv};
use support::hex;

/// The octets of the address and TLV blocks of a message without header fields and message TLVs.
fn body(entries: Vec<AddressEntry>) -> Vec<u8> {
    let addr_len = if entries[0].prefix.addr.is_ipv4() {
        4
    } else {
        16
    };
    let mut message = Message::without_originator(1, addr_len);
    message.addresses = entries;
    let octets = message.encode().unwrap();
    for entry in &mut message.addresses {
        entry.tlvs.sort_by_key(|tlv| (tlv.typ, tlv.ext));
    }
    assert_eq!(Message::decode(&octets), Ok(message));
    octets[6..].to_vec()
}

/// TLVs as type, type extension and value.
type Tlvs = &'static [(u8, u8, &'static str)];

fn entry(prefix: &str, tlvs: &[(u8, u8, &str)]) -> AddressEntry {
    AddressEntry {
        prefix: prefix.parse().unwrap(),
        tlvs: tlvs
            .iter()
            .map(|&(typ, ext, value)| Tlv::new(typ, ext, hex(value)))
            .collect(),
    }
}

fn addresses(prefixes: &[&str]) -> Vec<u8> {
    let octets = body(prefixes.iter().map(|prefix| entry(prefix, &[])).collect());
    octets
        .strip_suffix(&[0, 0])
        .expect("an empty TLV block")
        .to_vec()
}

/// The TLV block for 10.0.0.1, 10.0.0.2 ... with the given TLVs.
fn tlvs(tlvs: &[&[(u8, u8, &str)]]) -> Vec<u8> {
    let entries = tlvs.iter().enumerate();
    let entries = entries
        .map(|(index, tlvs)| entry(&format!("10.0.0.{}", index + 1), tlvs))
        .collect();
    let block = if tlvs.len() == 1 { 6 } else { 6 + tlvs.len() };
    body(entries)[block..].to_vec()
}

#[test]
fn address_blocks_take_the_shortest_head_and_tail() {
    let cases: [(&[&str], &str); 17] = [
        (&["1.2.3.4"], "01 00 01020304"),
        (&["1.2.3.4", "5.6.7.8"], "02 00 01020304 05060708"),
        (
            &["1.2.3.4", "1.2.5.6", "1.2.7.8"],
            "03 80 02 0102 0304 0506 0708",
        ),
        (
            &["1.2.3.7", "4.5.6.7", "8.9.1.7"],
            "03 40 01 07 010203 040506 080901",
        ),
        // A head of one octet for two addresses would save nothing.
        (&["1.2.4.5", "1.3.4.5"], "02 40 02 0405 0102 0103"),
        (
            &["1.2.0.0", "1.3.0.0", "1.4.0.0"],
            "03 a0 01 01 02 02 03 04",
        ),
        (&["1.2.0.0", "3.4.0.0"], "02 20 02 0102 0304"),
        (&["1.2.0.0/16", "3.4.0.0/16"], "02 30 02 0102 0304 10"),
        (&["1.2.0.0/16", "3.4.0.0/24"], "02 28 02 0102 0304 10 18"),
        (&["0.0.0.0/0"], "01 30 04 00"),
        (&["10.0.0.0/8"], "01 30 03 0a 08"),
        // A zero tail of one octet saves nothing in a single address.
        (&["10.1.1.0/24"], "01 10 0a010100 18"),
        // Both are equally short: the zero tail is used.
        (&["1.2.3.0", "4.5.3.0"], "02 20 01 010203 040503"),
        // The nonzero octet before the zero would lengthen the tail, but it must be written once.
        (
            &["1.2.3.0", "4.5.3.0", "6.7.3.0"],
            "03 40 02 0300 0102 0405 0607",
        ),
        (&["1.2.3.4", "1.2.3.4"], "02 80 04 01020304"),
        (&["::/0"], "01 30 10 00"),
        (
            &["2001:db8::1", "2001:db8::2"],
            "02 80 0f 20010db8 00000000 00000000 000000 01 02",
        ),
    ];
    for (prefixes, expected) in cases {
        assert_eq!(addresses(prefixes), hex(expected), "{prefixes:?}");
    }
}

#[test]
fn tlv_blocks_take_the_fewest_octets() {
    let none: Tlvs = &[];
    let cases: [(&[Tlvs], &str); 12] = [
        // All addresses: no index.
        (&[&[(3, 0, "01")], &[(3, 0, "01")]], "0004 03 10 01 01"),
        // One of several: a single index.
        (&[none, &[(3, 0, "01")]], "0005 03 50 01 01 01"),
        // Some neighbours: a range.
        (
            &[&[(3, 0, "01")], &[(3, 0, "01")], none],
            "0006 03 30 00 01 01 01",
        ),
        // Different values: one multi-value TLV, always with both indices.
        (
            &[&[(3, 0, "01")], &[(3, 0, "02")]],
            "0007 03 34 00 01 02 01 02",
        ),
        // A gap: two TLVs.
        (
            &[&[(3, 0, "01")], none, &[(3, 0, "01")]],
            "000a 03 50 00 01 01 03 50 02 01 01",
        ),
        // Different lengths: two TLVs.
        (
            &[&[(3, 0, "01")], &[(3, 0, "0102")]],
            "000b 03 50 00 01 01 03 50 01 02 0102",
        ),
        // Long equal values: a range each, instead of every value written out.
        (
            &[
                &[(3, 0, "0102030405060708")],
                &[(3, 0, "0102030405060708")],
                &[(3, 0, "1112131415161718")],
                &[(3, 0, "1112131415161718")],
            ],
            "001a 03 30 00 01 08 0102030405060708 03 30 02 03 08 1112131415161718",
        ),
        // A type extension that is not 0 is given.
        (&[&[(3, 9, "")]], "0003 03 80 09"),
        // No value at all.
        (&[&[(3, 0, "")], none], "0003 03 40 00"),
        // Types are ordered, whatever their order on the address.
        (
            &[&[(8, 0, "03"), (3, 0, "01")]],
            "0008 03 10 01 01 08 10 01 03",
        ),
        // The same full type twice on an address.
        (
            &[&[(7, 0, "1001"), (7, 0, "2002")]],
            "000a 07 10 02 1001 07 10 02 2002",
        ),
        // A full type with extension comes after the one without.
        (
            &[&[(7, 1, "aa"), (7, 0, "bb")]],
            "0009 07 10 01 bb 07 90 01 01 aa",
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(tlvs(given), hex(expected), "{given:?}");
    }
}

#[test]
fn a_long_value_gets_an_extended_length() {
    let value = |length: usize| "5a".repeat(length);
    let short = tlvs(&[&[(3, 0, &value(255))]]);
    assert_eq!(short[..5], hex("0102 03 10 ff"));
    let long = tlvs(&[&[(3, 0, &value(256))]]);
    assert_eq!(long[..6], hex("0104 03 18 0100"));
}

#[test]
fn the_256th_address_begins_a_second_block() {
    let entries = |count: u32| {
        let address = |index| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0001 + index));
        let tlv = Tlv::new(3, 0, [1]);
        let entry = move |index| AddressEntry {
            prefix: Prefix::host(address(index)),
            tlvs: vec![tlv.clone()],
        };
        (0..count).map(entry).collect::<Vec<_>>()
    };
    let one_block = body(entries(255));
    assert_eq!(one_block.len(), 6 + 255 + 6);
    let two_blocks = body(entries(256));
    assert_eq!(two_blocks[..one_block.len()], one_block);
    assert_eq!(
        two_blocks[one_block.len()..],
        hex("01 00 0a000100 0004 03 10 01 01")
    );
    body(entries(5_000));
}

#[test]
fn a_block_ends_where_another_head_saves_more() {
    let groups = [
        "10.1.1.1",
        "10.1.1.2",
        "10.1.1.3",
        "172.16.9.1",
        "172.16.9.2",
        "172.16.9.3",
    ];
    let tlv = [(3, 0, "01")];
    let same = body(groups.iter().map(|prefix| entry(prefix, &tlv)).collect());
    assert_eq!(
        same,
        hex("03 80 03 0a0101 01 02 03 0004 03 10 01 01
         03 80 03 ac1009 01 02 03 0004 03 10 01 01")
    );
    let few = body(
        ["10.1.1.1", "10.1.1.2", "172.16.9.1"]
            .map(|prefix| entry(prefix, &tlv))
            .into(),
    );
    assert_eq!(
        few,
        hex("03 00 0a010101 0a010102 ac100901 0004 03 10 01 01")
    );
}

#[test]
fn a_packet_header_has_only_what_is_given() {
    let packet = |seq, tlvs: &[Tlv]| {
        let tlvs = tlvs.to_vec();
        let messages = vec![];
        Packet {
            seq,
            tlvs,
            messages,
        }
        .encode()
        .unwrap()
    };
    assert_eq!(packet(None, &[]), hex("00"));
    assert_eq!(packet(Some(0xfffe), &[]), hex("08 fffe"));
    assert_eq!(
        packet(None, &[Tlv::new(5, 1, [7])]),
        hex("04 0005 05 90 01 01 07")
    );
    assert_eq!(
        packet(Some(1), &[Tlv::new(6, 0, [])]),
        hex("0c 0001 0002 06 00")
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let v4 = "10.0.0.1".parse().unwrap();
    let v6 = "2001:db8::1".parse().unwrap();
    let refused = |change: &dyn Fn(&mut Message)| {
        let mut message = Message::new(1, v4);
        change(&mut message);
        message.encode().unwrap_err()
    };
    let prefix = |addr, len| AddressEntry::new(Prefix { addr, len });
    assert_eq!(refused(&|m| m.addr_len = 5), EncodeError::AddressLength(5));
    assert_eq!(
        refused(&|m| m.originator = Some(v6)),
        EncodeError::AddressFamily(v6)
    );
    assert_eq!(
        refused(&|m| m.addresses = vec![prefix(v6, 128)]),
        EncodeError::AddressFamily(v6)
    );
    assert_eq!(
        refused(&|m| m.addresses = vec![prefix(v4, 33)]),
        EncodeError::PrefixLength(33)
    );
    let values = |lengths: &[usize]| -> Vec<Tlv> {
        lengths
            .iter()
            .map(|&length| Tlv::new(5, 0, vec![0; length]))
            .collect()
    };
    assert_eq!(
        refused(&|m| m.tlvs = values(&[65_536])),
        EncodeError::ValueTooLong(65_536)
    );
    let two = [32_768; 2];
    assert_eq!(
        refused(&|m| m.tlvs = values(&two)),
        EncodeError::TlvBlockTooLong(65_544)
    );
    // The header takes 8 octets, the TLV block 2 and the TLV 4.
    assert_eq!(
        refused(&|m| m.tlvs = values(&[65_522])),
        EncodeError::MessageTooLong(65_536)
    );
    let mut largest = Message::new(1, v4);
    largest.tlvs = values(&[65_521]);
    assert_eq!(Message::decode(&largest.encode().unwrap()), Ok(largest));
}
