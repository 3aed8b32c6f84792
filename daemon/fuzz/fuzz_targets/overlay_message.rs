//! A DHT message, bencoding or inner frame that decodes survives being encoded and decoded again.
#![no_main]

use cryptoauth::Address;
use libfuzzer_sys::fuzz_target;
use overlay::bencode::Value;
use overlay::{ipv6_header, remove_ipv6_header, split_data, split_start, Content, Message};

fuzz_target!(|octets: &[u8]| {
    if let Ok(value) = Value::decode(octets) {
        let mut encoded = Vec::new();
        value.encode(&mut encoded);
        assert!(encoded.len() <= octets.len());
        assert_eq!(Value::decode(&encoded), Ok(value));
    }
    if let Ok(message) = Message::decode(octets) {
        assert_eq!(Message::decode(&message.encode()).as_ref(), Ok(&message));
    }
    if let Ok((_, content, payload)) = split_start(octets) {
        let plain = [&content.header()[..], payload].concat();
        assert_eq!(split_data(&plain), Ok((content, payload)));
    }
    if let Some(own) = octets.get(8..24) {
        check_packet(
            octets,
            Address::from_octets(own.try_into().expect("16 octets")),
        );
    }
});

fn check_packet(packet: &[u8], own: Address) {
    let Ok((destination, Content::Ipv6(next_header), payload)) = remove_ipv6_header(packet, own)
    else {
        return;
    };
    if let Some(header) = ipv6_header(next_header, payload.len(), own, destination) {
        let made = [&header[..], payload].concat();
        let again = remove_ipv6_header(&made, own);
        assert_eq!(
            again,
            Ok((destination, Content::Ipv6(next_header), payload))
        );
    }
}
