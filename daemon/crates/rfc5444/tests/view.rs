//! Messages one by one: forwarding, and malformed messages next to valid ones.

mod support;

use rfc5444::{forward_copy, DecodeCause, Packet, PacketView, PacketWriter};
use support::hex;

#[test]
fn only_hop_limit_and_hop_count_change() {
    let cases = [
        (
            "hop limit and count",
            "01 f3 0010 0a000001 ff 00 1234 0000 0506",
            "01 f3 0010 0a000001 fe 01 1234 0000 0506",
        ),
        (
            "no hop count",
            "01 d3 000f 0a000001 02 1234 0000 0506",
            "01 d3 000f 0a000001 01 1234 0000 0506",
        ),
        (
            "no originator",
            "01 63 0008 02 fe 0000",
            "01 63 0008 01 ff 0000",
        ),
        (
            "unknown type, addresses of 6 octets",
            "fe e5 0010 0a0000000001 ff 00 deadbeef",
            "fe e5 0010 0a0000000001 fe 01 deadbeef",
        ),
        (
            "addresses of 16 octets",
            "01 cf 0017 20010db8000000000000000000000001 09 0000",
            "01 cf 0017 20010db8000000000000000000000001 08 0000",
        ),
    ];
    for (title, received, expected) in cases {
        assert_eq!(forward_copy(&hex(received)), Some(hex(expected)), "{title}");
    }
}

#[test]
fn what_must_not_travel_on() {
    let cases = [
        ("no hop limit", "01 b3 000f 0a000001 00 1234 0000 00"),
        ("hop limit 0", "01 43 0007 00 0000"),
        ("hop limit 1", "01 43 0007 01 0000"),
        ("hop count 255", "01 63 0008 ff ff 0000"),
        ("size too large", "01 43 0008 ff 0000"),
        ("size too small", "01 43 0006 ff 0000"),
        ("header cut short", "01 43 0004"),
        ("nothing", ""),
    ];
    for (title, received) in cases {
        assert_eq!(forward_copy(&hex(received)), None, "{title}");
    }
}

#[test]
fn a_bad_message_does_not_spoil_its_neighbours() {
    let octets = hex("08 0007
        01 03 0006 0000
        02 03 0008 0002 05 40
        03 83 0006 0a00
        04 03 0006 0000");
    let view = PacketView::new(&octets).unwrap();
    assert_eq!(view.seq, Some(7));
    let messages: Vec<_> = view.messages().collect();
    assert_eq!(messages.len(), 4);
    let [first, body, header, last] = [0, 1, 2, 3].map(|index| messages[index]);
    assert!(first.unwrap().decode().is_ok());
    let body = body.unwrap();
    assert_eq!((body.header.typ, body.offset), (2, 9));
    assert_eq!(body.decode().unwrap_err().cause, DecodeCause::TlvFlags);
    let error = header.unwrap_err();
    assert_eq!(
        (error.cause, error.offset, error.value),
        (DecodeCause::Truncated, 23, 2)
    );
    let last = last.unwrap();
    assert_eq!((last.header.typ, last.octets), (4, &octets[23..]));
    assert!(last.decode().is_ok());
}

#[test]
fn a_message_size_that_cannot_be_right_ends_the_packet() {
    for size in ["0003", "0007", "ffff"] {
        let octets = hex(&format!("00 01 03 0006 0000 02 03 {size} 0000"));
        let messages: Vec<_> = PacketView::new(&octets).unwrap().messages().collect();
        assert_eq!(messages.len(), 2, "size {size}");
        assert!(messages[0].is_ok());
        let error = messages[1].unwrap_err();
        assert_eq!(
            (error.cause, error.offset),
            (DecodeCause::MessageSize, 9),
            "size {size}"
        );
    }
}

#[test]
fn the_writer_fills_packets_in_order() {
    let messages: Vec<Vec<u8>> = [10, 10, 10, 40, 5]
        .iter()
        .map(|&size| vec![size; size.into()])
        .collect();
    let mut writer = PacketWriter::new(23);
    messages.iter().for_each(|message| writer.push(message));
    let mut seq = 0xfffe_u16;
    let packets = writer.finish(|| {
        seq = seq.wrapping_add(1);
        Some(seq)
    });
    let expected = [
        [hex("08 ffff"), messages[0].clone(), messages[1].clone()].concat(),
        [hex("08 0000"), messages[2].clone()].concat(),
        [hex("08 0001"), messages[3].clone()].concat(),
        [hex("08 0002"), messages[4].clone()].concat(),
    ];
    assert_eq!(packets, expected);
}

#[test]
fn the_writer_without_sequence_numbers_and_without_messages() {
    let mut writer = PacketWriter::new(100);
    writer.push(&[1, 2]);
    assert_eq!(writer.finish(|| None), [hex("00 0102")]);
    assert!(PacketWriter::new(100).finish(|| None).is_empty());
}

#[test]
fn what_no_router_changes_is_all_but_hop_limit_and_hop_count() {
    let mut message = rfc5444::Message::new(1, [10, 0, 0, 1].into());
    (message.hop_limit, message.hop_count, message.seq) = (Some(9), Some(3), Some(0x0102));
    let lasting = |message: &rfc5444::Message| -> Vec<u8> {
        let packet = Packet {
            messages: vec![message.clone()],
            ..Packet::default()
        };
        let octets = packet.encode().unwrap();
        let view = PacketView::new(&octets).unwrap();
        let raw = view.messages().next().unwrap().unwrap();
        raw.lasting_octets().collect()
    };
    let before = lasting(&message);
    assert_eq!(before, [1, 0xf3, 0, 14, 10, 0, 0, 1, 1, 2, 0, 0]);
    (message.hop_limit, message.hop_count) = (Some(8), Some(4));
    assert_eq!(lasting(&message), before);
    message.seq = Some(0x0103);
    assert_ne!(lasting(&message), before);
    (message.hop_limit, message.hop_count) = (None, None);
    assert_eq!(lasting(&message), [1, 0x93, 0, 12, 10, 0, 0, 1, 1, 3, 0, 0]);
}

#[test]
fn message_tlvs_are_read_without_the_body() {
    let read = |text: &str| {
        let octets = [&[0][..], &hex(text)].concat();
        let view = PacketView::new(&octets).unwrap();
        let raw = view.messages().next().unwrap().unwrap();
        raw.message_tlvs().map(|tlvs| tlvs.len())
    };
    assert_eq!(read("01 03 0006 0000"), Ok(0));
    // What follows is no address block.
    assert_eq!(read("01 03 000d 0006 0000 0590fc00 ff"), Ok(2));
    assert_eq!(read("01 03 000d 0008 0000 0590fc00 ff").ok(), None);
}

#[test]
fn the_last_hop_leaves_all_but_the_hop_limit() {
    let mut message = rfc5444::Message::new(1, [10, 0, 0, 1].into());
    message.hop_count = Some(3);
    assert_eq!(rfc5444::last_hop_copy(&message.encode().unwrap()), None);
    for limit in [0, 1, 255] {
        message.hop_limit = Some(limit);
        let copy = rfc5444::last_hop_copy(&message.encode().unwrap()).unwrap();
        message.hop_limit = Some(1);
        assert_eq!(copy, message.encode().unwrap());
    }
    assert_eq!(rfc5444::last_hop_copy(&[1]), None);
}
