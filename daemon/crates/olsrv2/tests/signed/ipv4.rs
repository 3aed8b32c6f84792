//! The router under test with an IPv4 originator, and a neighbour of it.

use olsrv2::{Config, InterfaceEvent, InterfaceId, Router, Signatures};
use rfc5444::iana::{address_tlv, link_metric, local_if, message, message_tlv};
use rfc5444::{Message, Tlv};

use crate::peers::*;

/// The router's address.
pub const OWN: &str = "10.0.0.1";

pub fn subject(signatures: Signatures) -> Subject {
    subject_on(&[MESH], signatures)
}

/// A router whose interfaces share its address, as those of a node with one address do.
pub fn subject_on(interfaces: &[InterfaceId], signatures: Signatures) -> Subject {
    let config = Config {
        originator_v4: Some(OWN.parse().unwrap()),
        signatures,
        first_sequence_number: Some(1),
        ..Config::default()
    };
    let mut router = Router::new(config, START, 1);
    router.set_signing(true);
    for interface in interfaces {
        let up = InterfaceEvent::Up {
            interface: *interface,
            addresses: vec![address(OWN)],
        };
        router.handle_interface(START, up);
    }
    let mut subject = Subject {
        router,
        now: START,
        counter: FIRST - 1,
    };
    subject.settle();
    subject.pass(seconds(3));
    subject
}

/// A HELLO of a neighbour that hears the router, and has heard it sign with this counter.
pub fn hello(from: &str, quoted: u64) -> Message {
    let mut hello = Message::new(message::HELLO, address(from));
    hello.tlvs = vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [0x72]),
        Tlv::new(message_tlv::MPR_WILLING, 0, [0x77]),
    ];
    let local = Tlv::new(address_tlv::LOCAL_IF, 0, [local_if::THIS_IF]);
    let router = two_hop(address(OWN), vec![quote(quoted)]);
    hello.addresses = vec![entry(address(from), vec![local]), router];
    let incoming = link_metric::INCOMING_LINK.to_be_bytes()[0];
    for tlv in &mut hello.addresses[1].tlvs {
        if tlv.typ == address_tlv::LINK_METRIC {
            tlv.value[0] = incoming | tlv.value[0] & 0x0f;
        }
    }
    hello
}
