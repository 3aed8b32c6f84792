//! Hostile octets are refused before anything is allocated for them.

mod support;

use rfc5444::{DecodeCause, DecodeError, Message, Packet, PacketView, MAX_ENTRIES, MAX_EXPANSION};
use support::hex;

/// A message of type 1 with IPv4 addresses, no message TLVs and these address blocks.
fn message(blocks: &[u8]) -> Vec<u8> {
    let size = u16::try_from(6 + blocks.len()).unwrap().to_be_bytes();
    [&[1, 3, size[0], size[1], 0, 0], blocks].concat()
}

/// An address block of 255 times the same address, in 7 octets, with these TLVs.
fn block(tlvs: &[u8]) -> Vec<u8> {
    let length = u16::try_from(tlvs.len()).unwrap().to_be_bytes();
    [&[255, 0x80, 4, 10, 0, 0, 1], &length[..], tlvs].concat()
}

/// An address block of 10.0.0.0 to 10.0.0.254 with these TLVs.
fn dense_block(tlvs: &[u8]) -> Vec<u8> {
    let mids: Vec<u8> = (0..255).collect();
    let length = u16::try_from(tlvs.len()).unwrap().to_be_bytes();
    [&[255, 0x80, 3, 10, 0, 0], &mids[..], &length, tlvs].concat()
}

fn expansion(octets: &[u8]) -> DecodeError {
    let error = Message::decode(octets).unwrap_err();
    assert_eq!(error.cause, DecodeCause::Expansion);
    error
}

#[test]
fn addresses_without_octets_of_their_own() {
    let octets = message(&block(&[]).repeat(7_000));
    assert_eq!(expansion(&octets).value, MAX_ENTRIES);
}

#[test]
fn tlvs_without_value_for_all_of_255_addresses() {
    let octets = message(&block(&[5, 0].repeat(1_000)));
    assert_eq!(expansion(&octets).value, octets.len() * MAX_EXPANSION);
}

#[test]
fn one_long_value_for_all_of_255_addresses() {
    let tlv = [&hex("05 18 f000")[..], &[0; 0xf000]].concat();
    assert_eq!(expansion(&message(&block(&tlv))).value, MAX_ENTRIES);
}

#[test]
fn the_limit_counts_addresses_tlvs_and_value_octets() {
    // 255 addresses with a TLV of length n cost 255 * (2 + n) entries.
    let with_value = |length: u8| {
        let tlv = [&[5, 0x10, length][..], &vec![0; length.into()]].concat();
        message(&dense_block(&tlv))
    };
    for length in 0..=255 {
        let octets = with_value(length);
        let entries = 255 * (2 + usize::from(length));
        let fits = entries <= octets.len() * MAX_EXPANSION;
        assert_eq!(Message::decode(&octets).is_ok(), fits, "length {length}");
    }
    assert!(Message::decode(&with_value(36)).is_ok());
    assert!(Message::decode(&with_value(37)).is_err());
}

#[test]
fn the_last_entry_that_is_allowed() {
    // 21 octets may decode to 672 entries: 168 addresses with 3 TLVs each.
    let with_addresses = |count: u8| {
        let mut block = block(&[5, 0].repeat(3));
        block[0] = count;
        message(&block)
    };
    assert_eq!(with_addresses(168).len() * MAX_EXPANSION, 672);
    assert!(Message::decode(&with_addresses(168)).is_ok());
    assert_eq!(expansion(&with_addresses(169)).value, 672);
}

#[test]
fn many_messages_together_stay_below_the_limit_of_a_packet() {
    let dense = message(&dense_block(&[5, 0].repeat(7)));
    assert!(Message::decode(&dense).is_ok());
    let octets = [&[0][..], &dense.repeat(200)].concat();
    assert!(PacketView::new(&octets)
        .unwrap()
        .messages()
        .all(|raw| raw.unwrap().decode().is_ok()));
    let error = Packet::decode(&octets).unwrap_err();
    assert_eq!(
        (error.cause, error.value),
        (DecodeCause::Expansion, MAX_ENTRIES)
    );
}

#[test]
fn a_dense_hello_of_255_neighbours_fits() {
    let tlvs = hex("03 10 01 01  04 10 01 01  08 10 01 03
                    07 10 02 8001  07 10 02 4002  07 10 02 2003  07 10 02 1004");
    let decoded = Message::decode(&message(&dense_block(&tlvs))).unwrap();
    assert_eq!(decoded.addresses.len(), 255);
    assert!(decoded.addresses.iter().all(|entry| entry.tlvs.len() == 7));
}
