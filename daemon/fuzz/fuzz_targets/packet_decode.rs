//! A packet that decodes survives being encoded and decoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rfc5444::Packet;

fuzz_target!(|octets: &[u8]| {
    let Ok(packet) = Packet::decode(octets) else {
        return;
    };
    let encoded = packet
        .encode()
        .expect("what came from a small packet fits into one");
    assert_eq!(Packet::decode(&encoded), Ok(packet));
});
