//! The content of inner sessions: recorded starts, each header, and refusals.

mod support;

use cryptoauth::Address;
use overlay::{
    ipv6_header, remove_ipv6_header, split_data, split_start, Content, FrameError, Message,
    DATA_HEADER,
};
use proptest::prelude::*;
use support::{hex, recorded};

const NEXT_HEADER: u8 = 58;

fn node(number: u8) -> Address {
    let mut octets = [number; 16];
    octets[0] = 0xfc;
    Address::from_octets(octets)
}

fn packet(payload: &[u8]) -> Vec<u8> {
    let header = ipv6_header(NEXT_HEADER, payload.len(), node(1), node(2)).unwrap();
    [&header[..], payload].concat()
}

#[test]
fn recorded_starts_of_sessions() {
    let starts = recorded("starts.hex");
    let mut handles = Vec::new();
    for plain in &starts {
        let (handle, content, payload) = split_start(plain).unwrap();
        assert_eq!(content, Content::Dht);
        assert_eq!(plain[4..8], content.header());
        assert!(Message::decode(payload).is_ok());
        handles.push(handle);
    }
    handles.dedup();
    assert!(
        starts.len() == 18 && handles.contains(&29862),
        "{handles:?}"
    );
}

#[test]
fn content_types_at_their_borders() {
    let types = [
        (0, Content::Ipv6(0)),
        (255, Content::Ipv6(255)),
        (256, Content::Dht),
        (257, Content::Tunnel),
        (258, Content::Other(258)),
        (0xffff, Content::Other(0xffff)),
    ];
    for (number, content) in types {
        assert_eq!((Content::from(number), content.number()), (content, number));
        assert_eq!(split_data(&content.header()), Ok((content, &[][..])));
    }
    assert_eq!(Content::Tunnel.header(), [0x10, 0, 1, 1]);
}

#[test]
fn data_and_handles_that_are_refused() {
    assert_eq!(split_data(&[0x10, 0, 1]), Err(FrameError::Truncated));
    assert_eq!(split_data(&[0x20, 0, 1, 0]), Err(FrameError::Version(2)));
    let start = |handle: u32| {
        split_start(&[&handle.to_be_bytes()[..], &Content::Dht.header()].concat())
            .map(|start| start.0)
    };
    assert_eq!([start(4), start(u32::MAX - 1)], [Ok(4), Ok(u32::MAX - 1)]);
    assert_eq!(
        [start(3), start(u32::MAX)],
        [3, u32::MAX].map(FrameError::Handle).map(Err)
    );
    assert_eq!(split_start(&[0, 0, 0]), Err(FrameError::Truncated));
    assert_eq!(split_start(&[0, 0, 0, 9, 0x10]), Err(FrameError::Truncated));
}

#[test]
fn the_header_of_a_packet_is_removed_and_made_again() {
    let packet = packet(b"ping");
    assert_eq!(packet[..8], hex("60000000 0004 3a 2a"));
    let removed = remove_ipv6_header(&packet, node(1));
    assert_eq!(
        removed,
        Ok((node(2), Content::Ipv6(NEXT_HEADER), &b"ping"[..]))
    );
}

#[test]
fn packets_that_are_refused() {
    let refused = |changed: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = packet(b"ping");
        changed(&mut packet);
        remove_ipv6_header(&packet, node(1)).map(|_| ())
    };
    assert_eq!(refused(&|_| ()), Ok(()));
    assert_eq!(
        refused(&|packet| packet.truncate(39)),
        Err(FrameError::Truncated)
    );
    assert_eq!(
        refused(&|packet| packet[0] = 0x45),
        Err(FrameError::IpVersion(4))
    );
    assert_eq!(
        refused(&|packet| packet.push(0)),
        Err(FrameError::Length(4))
    );
    assert_eq!(
        refused(&|packet| packet.truncate(43)),
        Err(FrameError::Length(4))
    );
    assert!(matches!(
        refused(&|packet| packet[23] ^= 1),
        Err(FrameError::Source(_))
    ));
    assert!(matches!(
        refused(&|packet| packet[24] = 0xfd),
        Err(FrameError::Destination(_))
    ));
    let of_another = packet(b"");
    assert_eq!(
        remove_ipv6_header(&of_another, node(3)),
        Err(FrameError::Source(node(1)))
    );
    let header = ipv6_header(NEXT_HEADER, 0, node(1), node(1)).unwrap();
    assert_eq!(
        remove_ipv6_header(&header, node(1)),
        Err(FrameError::Destination(node(1)))
    );
}

#[test]
fn headers_that_are_not_made() {
    let stranger = Address::from_octets([0xfd; 16]);
    assert!(ipv6_header(NEXT_HEADER, 0xffff, node(1), node(2)).is_some());
    assert_eq!(ipv6_header(NEXT_HEADER, 0x10000, node(1), node(2)), None);
    assert_eq!(ipv6_header(NEXT_HEADER, 0, stranger, node(2)), None);
    assert_eq!(ipv6_header(NEXT_HEADER, 0, node(1), stranger), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_octets_are_survived(octets in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok((content, payload)) = split_data(&octets) {
            prop_assert_eq!(payload.len(), octets.len() - DATA_HEADER);
            prop_assert_eq!(&content.header()[2..], &octets[2..DATA_HEADER]);
        }
        let _ = split_start(&octets);
        let _ = remove_ipv6_header(&octets, node(1));
    }
}
