use proptest::prelude::*;

use super::super::headers::{ACK, PROTOCOL_TCP, PROTOCOL_UDP, TCP_MIN, UDP};
use super::*;

/// A packet of a flow with a right checksum.
fn packet(protocol: Protocol, sequence: u32, flags: u8, content: &[u8]) -> Vec<u8> {
    let header = if protocol == Protocol::Tcp { 32 } else { UDP };
    let mut packet = vec![0; IPV6 + header];
    packet.extend_from_slice(content);
    packet[0] = 0x60;
    packet[6] = protocol.number();
    packet[7] = 64;
    for (place, octet) in packet[8..IPV6].iter_mut().zip(0x20..) {
        *place = octet;
    }
    packet[IPV6 + 1] = 7;
    packet[IPV6 + 3] = 9;
    if protocol == Protocol::Tcp {
        packet[IPV6 + 12] = 0x80;
        packet[IPV6 + 14] = 1;
        packet[IPV6 + TCP_MIN..IPV6 + header].copy_from_slice(b"\x01\x01\x08\x0a12345678");
        packet[IPV6 + TCP_FLAGS] = flags;
        packet[IPV6 + 4..IPV6 + 8].copy_from_slice(&sequence.to_be_bytes());
    }
    Segments {
        protocol,
        transport: IPV6,
        header: IPV6 + header,
        content: content.len(),
    }
    .write_headers(&mut packet, 0, true);
    packet
}

/// What a TUN device would be given for `packets`: pieces with what stands beside them.
fn join(packets: &mut [Vec<u8>]) -> Vec<(Offload, Vec<u8>)> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < packets.len() {
        let mut end = at + 1;
        let Some(mut train) = Train::begin(&packets[at]) else {
            pieces.push((Offload::default(), packets[at].clone()));
            at = end;
            continue;
        };
        while end < packets.len() && train.takes(&packets[at], &packets[end]) {
            end += 1;
        }
        let offload = train.finish(&mut packets[at]);
        let rest = packets[at + 1..end].iter();
        let mut piece = packets[at].clone();
        rest.for_each(|packet| piece.extend_from_slice(&packet[train.header()..]));
        pieces.push((offload, piece));
        at = end;
    }
    pieces
}

fn cut(pieces: Vec<(Offload, Vec<u8>)>) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for (offload, mut piece) in pieces {
        let mut cutter = Cutter::new(&offload, &mut piece).unwrap();
        let mut space = vec![0; cutter.longest()];
        while let Some(length) = cutter.cut(&mut space) {
            packets.push(space[..length].to_vec());
        }
    }
    packets
}

fn flow(protocol: Protocol, lengths: &[usize]) -> Vec<Vec<u8>> {
    let mut sequence = u32::MAX - 2000;
    let mut packets = Vec::new();
    for (number, &length) in lengths.iter().enumerate() {
        let content = vec![number as u8 ^ 0x5a; length];
        packets.push(packet(protocol, sequence, ACK, &content));
        sequence = sequence.wrapping_add(length as u32);
    }
    packets
}

#[test]
fn packets_of_a_flow_become_one_piece_that_is_cut_into_them_again() {
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let packets = flow(protocol, &[1200, 1200, 1200, 77]);
        let pieces = join(&mut packets.clone());
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].0.segment, 1200);
        assert_eq!(cut(pieces), packets);
    }
}

#[test]
fn a_shorter_packet_ends_a_piece() {
    let packets = flow(Protocol::Tcp, &[500, 400, 500, 500]);
    assert_eq!(join(&mut packets.clone()).len(), 2);
}

#[test]
fn a_push_ends_a_piece_and_is_cut_to_its_last_packet() {
    let mut packets = flow(Protocol::Tcp, &[500, 500, 500]);
    packets[1] = packet(
        Protocol::Tcp,
        (u32::MAX - 2000).wrapping_add(500),
        ACK | PSH,
        &[0x5b; 500],
    );
    let pieces = join(&mut packets.clone());
    assert_eq!(pieces.len(), 2);
    assert_eq!(cut(pieces), packets);
}

#[test]
fn what_differs_in_a_header_is_not_joined() {
    let sound = flow(Protocol::Tcp, &[500, 500]);
    for (octet, what) in [
        (1, "traffic class"),
        (7, "hop limit"),
        (20, "source"),
        (IPV6, "source port"),
        (IPV6 + 7, "sequence number"),
        (IPV6 + 9, "acknowledgement"),
        (IPV6 + TCP_FLAGS, "flags"),
        (IPV6 + 14, "window"),
        (IPV6 + 25, "timestamp"),
    ] {
        let mut packets = sound.clone();
        packets[1][octet] ^= 0x40;
        assert_eq!(join(&mut packets).len(), 2, "{what}");
    }
}

#[test]
fn a_wrong_checksum_is_left_for_the_kernel_to_see() {
    for wrong in 0..2 {
        let mut packets = flow(Protocol::Udp, &[500, 500]);
        packets[wrong][IPV6 + 100] ^= 1;
        assert_eq!(join(&mut packets).len(), 2);
    }
}

#[test]
fn a_missing_checksum_is_put_in() {
    let sound = packet(Protocol::Udp, 0, 0, b"content");
    let mut missing = sound.clone();
    let pseudo = fold(pseudo_header(&sound, sound.len() - IPV6, PROTOCOL_UDP));
    put(&mut missing, IPV6 + 6, pseudo.into());
    let offload = Offload {
        flags: NEEDS_CHECKSUM,
        checksum_start: 40,
        checksum_offset: 6,
        ..Offload::default()
    };
    assert_eq!(Offload::decode(&offload.encode()), offload);
    assert_eq!(cut(vec![(offload, missing)]), [sound]);
}

proptest! {
    #[test]
    fn any_octets_are_refused_or_cut(
        beside: [u8; OFFLOAD],
        kind in prop::sample::select(vec![NO_SEGMENTS, SEGMENTS_TCP6, SEGMENTS_UDP]),
        start in 0..80_u16,
        mut piece in prop::collection::vec(any::<u8>(), 0..300),
        six: bool,
    ) {
        let mut offload = Offload::decode(&beside);
        offload.segments = kind;
        offload.checksum_start = start;
        if let (true, Some(first)) = (six, piece.first_mut()) {
            *first = 0x60;
        }
        let length = piece.len();
        if let Ok(mut cutter) = Cutter::new(&offload, &mut piece) {
            let mut space = vec![0; cutter.longest()];
            let packets = std::iter::from_fn(|| cutter.cut(&mut space)).count();
            prop_assert!(packets <= length);
        }
    }

    #[test]
    fn any_packets_are_joined_to_pieces_that_are_cut_into_them(
        protocol in prop::sample::select(vec![Protocol::Tcp, Protocol::Udp]),
        lengths in prop::collection::vec(1..40_usize, 1..100),
    ) {
        let packets = flow(protocol, &lengths);
        prop_assert_eq!(cut(join(&mut packets.clone())), packets);
    }

    #[test]
    fn any_octets_can_be_asked_whether_they_are_joined(
        mut packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 1..4),
        protocol in prop::sample::select(vec![PROTOCOL_TCP, PROTOCOL_UDP]),
    ) {
        for packet in packets.iter_mut().filter(|packet| packet.len() > IPV6) {
            let length = packet.len() - IPV6;
            packet[0] = 0x60;
            packet[6] = protocol;
            put(packet, 4, length);
        }
        let octets: usize = packets.iter().map(Vec::len).sum();
        let pieces = join(&mut packets);
        prop_assert!(pieces.iter().map(|(_, piece)| piece.len()).sum::<usize>() <= octets);
    }
}
