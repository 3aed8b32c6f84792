//! Whatever a datagram of generic netlink says of families, stations and their coming and going: it is read without a
//! panic, nothing is made up, and a message that is written again reads the same.
//!
//! The module is the daemon's own file: a program has no library to link.
#![no_main]

#[allow(dead_code)] // Its requests: answers are read here.
#[path = "../../crates/olsrv2d/src/nl80211/message.rs"]
mod message;

use libfuzzer_sys::fuzz_target;
use message::{Nl80211, Notice};
use netlinkkit::{messages, Message};
use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};

/// The octets of `struct nlmsghdr`.
const HEADER: usize = 16;

fuzz_target!(|octets: &[u8]| {
    let found = messages::<Message>(octets);
    assert!(found.len() * HEADER <= octets.len());
    for one in found {
        if let NetlinkPayload::InnerMessage(inner) = one.payload {
            check(&inner);
            assert_eq!(read_again(inner.clone()), [inner]);
        }
    }
});

fn check(message: &Message) {
    let told = |value: &[u8]| {
        let mut places = message.attributes.windows(value.len());
        places.any(|place| place == value)
    };
    if let Some(family) = message.nl80211() {
        assert!(told(&family.id.to_ne_bytes()) && told(&family.mlme.to_ne_bytes()));
    }
    if let Some(station) = message.station() {
        assert!(told(&station.mac));
    }
    match message.notice() {
        Some(Notice::Come { interface }) => assert!(told(&interface.to_ne_bytes())),
        Some(Notice::Gone { interface, mac }) => {
            assert!(told(&interface.to_ne_bytes()) && told(&mac));
        }
        None => {}
    }
}

fn read_again(message: Message) -> Vec<Message> {
    let payload = NetlinkPayload::InnerMessage(message);
    let mut written = NetlinkMessage::new(NetlinkHeader::default(), payload);
    written.finalize();
    let mut octets = vec![0; written.buffer_len()];
    written.serialize(&mut octets);
    let again = messages::<Message>(&octets).into_iter();
    again
        .filter_map(|one| match one.payload {
            NetlinkPayload::InnerMessage(inner) => Some(inner),
            _ => None,
        })
        .collect()
}
