//! Packets recorded from olsrd2.

mod support;

use rfc5444::{Packet, PacketView};
use support::{capture, hex, render};

const CAPTURES: [&str; 3] = ["line.pcap", "line-linkBC.pcap", "line-any.pcap"];

#[test]
fn every_recorded_packet_decodes_completely_and_keeps_its_meaning() {
    for file in CAPTURES {
        let packets = capture(file);
        assert!(packets.len() > 50, "{file}: only {} packets", packets.len());
        for octets in packets {
            let packet = Packet::decode(&octets).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(!packet.messages.is_empty(), "{file}: {octets:02x?}");
            let encoded = packet.encode().unwrap();
            assert_eq!(
                Packet::decode(&encoded),
                Ok(packet),
                "{file}: {octets:02x?}"
            );
        }
    }
}

/// olsrd2 omits the indices of multi-value TLVs for a whole block, which section 5.4.1 forbids. Obeying costs us two
/// octets each.
#[test]
fn our_form_of_the_recorded_packets_is_as_compact() {
    for file in CAPTURES {
        let packets = capture(file);
        let recorded: usize = packets.iter().map(Vec::len).sum();
        let reencode = |octets: &Vec<u8>| Packet::decode(octets).unwrap().encode().unwrap();
        let ours: usize = packets.iter().map(|octets| reencode(octets).len()).sum();
        assert!(
            ours * 100 <= recorded * 101,
            "{file}: {ours} octets instead of {recorded}"
        );
    }
}

#[test]
fn the_messages_of_a_recorded_packet_fill_it() {
    for octets in CAPTURES.into_iter().flat_map(capture) {
        let view = PacketView::new(&octets).unwrap();
        let messages: Vec<_> = view.messages().map(Result::unwrap).collect();
        let body: Vec<u8> = messages
            .iter()
            .flat_map(|raw| raw.octets)
            .copied()
            .collect();
        assert!(octets.ends_with(&body));
        assert_eq!(messages[0].offset + body.len(), octets.len());
    }
}

#[test]
fn both_message_types_and_both_address_families_were_recorded() {
    let packets: Vec<Packet> = capture("line.pcap")
        .iter()
        .map(|octets| Packet::decode(octets).unwrap())
        .collect();
    let kinds: std::collections::BTreeSet<_> = packets
        .iter()
        .flat_map(|packet| &packet.messages)
        .map(|message| (message.typ, message.addr_len))
        .collect();
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        [(0, 4), (0, 16), (1, 4), (1, 16)]
    );
}

#[test]
fn a_settled_hello() {
    let octets = hex("08 40e1 00 83 005a 0a4d0001
         0015 00 10 01 58  01 10 01 72  07 10 01 77  e3 10 06 d23e788ba3d2
         05 80 02 0a4d 0001 0101 0002 0102 0201
         002a 02 34 00 01 02 0100  04 34 02 04 03 010001
              07 34 02 04 06 3d558d3b3d55  03 50 03 01 01  07 50 03 02 7d55  08 50 03 01 03");
    let expected = "\
packet seq 16609
message 0 length 4 from 10.77.0.1
 tlv 0.0 58
 tlv 1.0 72
 tlv 7.0 77
 tlv 227.0 d23e788ba3d2
 10.77.0.1/32
  tlv 2.0 01
 10.77.1.1/32
  tlv 2.0 00
 10.77.0.2/32
  tlv 4.0 01
  tlv 7.0 3d55
 10.77.1.2/32
  tlv 3.0 01
  tlv 4.0 00
  tlv 7.0 8d3b
  tlv 7.0 7d55
  tlv 8.0 03
 10.77.2.1/32
  tlv 4.0 01
  tlv 7.0 3d55";
    assert_eq!(render(&Packet::decode(&octets).unwrap()), expected);
}
