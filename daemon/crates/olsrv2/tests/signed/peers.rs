//! The router under test, and the keys and messages of those who speak to it.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use icv::Signer;
use olsrv2::{
    Config, InterfaceEvent, InterfaceId, LinkStatus, Metric, Prefix, Router, Signatures, Time,
    Transmit,
};
use rfc5444::iana::{
    address_tlv, cont_seq_num, link_metric, link_status, local_if, message, message_tlv,
    nbr_addr_type,
};
use rfc5444::metric::compress;
use rfc5444::{AddressEntry, Message, Tlv};

pub const START: Time = Time::from_secs(1000);
pub const MESH: InterfaceId = InterfaceId(1);
/// The link-local addresses of the router and of its neighbour.
pub const OWN_LINK: &str = "fe80::1";
pub const NEIGHBOUR: &str = "fe80::9";
pub const STRANGER: &str = "fe80::66";
/// The first counter that the router signs with.
pub const FIRST: u64 = 100;
/// olsrv2d's private TLV: the TC lists all symmetric neighbours.
const ALL: u8 = 228;

pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A key of four whose addresses begin with fc.
pub fn key(number: u8) -> Signer {
    let ends = [[0x00, 0x02], [0x02, 0xf3], [0x04, 0x34], [0x00, 0x1c]];
    let mut seed = [number; 32];
    seed[..2].copy_from_slice(&ends[usize::from(number) - 1]);
    Signer::new(&seed)
}

/// The locator of a key.
pub fn locator(signer: &Signer) -> IpAddr {
    let mut octets = icv::address_of(&signer.public()).unwrap().octets();
    assert_eq!(octets[0], 0xfc);
    octets[0] = 0xfd;
    Ipv6Addr::from(octets).into()
}

/// The router under test, which signs with key 1.
pub struct Subject {
    pub router: Router,
    pub now: Time,
    pub counter: u64,
}

impl Subject {
    pub fn new(signatures: Signatures) -> Self {
        let IpAddr::V6(originator) = locator(&key(1)) else {
            unreachable!("a locator is IPv6")
        };
        let config = Config {
            originator_v6: Some(originator),
            signatures,
            first_sequence_number: Some(1),
            ..Config::default()
        };
        let mut router = Router::new(config, START, 1);
        router.set_signing(true);
        let addresses = vec![address(OWN_LINK)];
        let interface = MESH;
        router.handle_interface(
            START,
            InterfaceEvent::Up {
                interface,
                addresses,
            },
        );
        let mut subject = Self {
            router,
            now: START,
            counter: FIRST - 1,
        };
        subject.settle();
        subject.pass(seconds(3));
        assert!(subject.counter >= FIRST, "it has said HELLO");
        subject
    }

    /// Signs what waits for it, and takes what is sent.
    pub fn settle(&mut self) -> Vec<Transmit> {
        while let Some(request) = self.router.poll_sign() {
            self.counter += 1;
            let floor = request.floor.unwrap_or(self.counter);
            let age = u32::try_from(self.counter - floor).unwrap();
            let signed = key(1).sign(&request.message, self.counter, age).unwrap();
            self.router
                .handle_signed(self.now, &request, &signed, self.counter);
        }
        std::iter::from_fn(|| self.router.poll_transmit()).collect()
    }

    /// Lets time pass, and returns the packets that are sent meanwhile.
    pub fn pass(&mut self, time: Duration) -> Vec<Vec<u8>> {
        let sent = self.transmits(time).into_iter();
        sent.map(|transmit| transmit.bytes).collect()
    }

    /// Lets time pass, and returns what is sent meanwhile on each interface.
    pub fn transmits(&mut self, time: Duration) -> Vec<Transmit> {
        let end = self.now + time;
        let mut sent = Vec::new();
        while let Some(due) = self.router.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.router.handle_timeout(self.now);
            sent.extend(self.settle());
        }
        self.now = end;
        sent
    }

    /// Receives one encoded message.
    pub fn hear(&mut self, source: &str, message: &[u8]) {
        self.hear_on(MESH, source, message);
    }

    pub fn hear_on(&mut self, interface: InterfaceId, source: &str, message: &[u8]) {
        let packet = [&[0], message].concat();
        self.router
            .handle_packet(self.now, interface, address(source), &packet);
        self.settle();
    }

    pub fn is_symmetric(&self) -> bool {
        let links = self.router.links();
        links
            .iter()
            .any(|link| link.status == LinkStatus::Symmetric)
    }

    /// Returns the next hop to a router, once routes have been calculated.
    pub fn route(&mut self, to: IpAddr) -> Option<IpAddr> {
        self.pass(Duration::from_millis(600));
        let routes = self.router.routes().into_iter();
        let mut found = routes.filter(|route| route.destination == Prefix::host(to));
        found.next().map(|route| route.next_hop)
    }

    pub fn knows(&self, originator: IpAddr) -> bool {
        let nodes = self.router.nodes();
        nodes.iter().any(|node| node.originator == originator)
    }
}

pub fn sign(signer: &Signer, message: &Message, counter: u64, age: u32) -> Vec<u8> {
    signer
        .sign(&message.encode().unwrap(), counter, age)
        .unwrap()
}

/// What quotes a counter.
pub fn quote(counter: u64) -> Tlv {
    let low = (counter as u32).to_be_bytes();
    Tlv::new(address_tlv::TIMESTAMP, icv::TIMESTAMP_EXTENSION, low)
}

/// A HELLO of a neighbour that hears the router, with these TLVs at the router's address.
pub fn hello(from: IpAddr, at_router: Vec<Tlv>) -> Message {
    let mut hello = Message::new(message::HELLO, from);
    hello.tlvs = vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [0x72]),
        Tlv::new(message_tlv::MPR_WILLING, 0, [0x77]),
    ];
    let local = |name: &str, value| {
        entry(
            address(name),
            vec![Tlv::new(address_tlv::LOCAL_IF, 0, [value])],
        )
    };
    hello.addresses = vec![
        local(NEIGHBOUR, local_if::THIS_IF),
        entry(
            from,
            vec![Tlv::new(address_tlv::LOCAL_IF, 0, [local_if::OTHER_IF])],
        ),
    ];
    let tlvs = [symmetric(link_metric::INCOMING_LINK), at_router].concat();
    hello.addresses.push(entry(address(OWN_LINK), tlvs));
    hello
}

/// A 2-hop neighbour in a HELLO.
pub fn two_hop(to: IpAddr, mut tlvs: Vec<Tlv>) -> AddressEntry {
    tlvs.extend(symmetric(
        link_metric::INCOMING_NEIGHBOR | link_metric::OUTGOING_NEIGHBOR,
    ));
    entry(to, tlvs)
}

fn symmetric(kinds: u16) -> Vec<Tlv> {
    vec![
        Tlv::new(address_tlv::LINK_STATUS, 0, [link_status::SYMMETRIC]),
        metric(kinds),
    ]
}

fn metric(kinds: u16) -> Tlv {
    let value = (kinds | compress(Metric::MIN)).to_be_bytes();
    Tlv::new(address_tlv::LINK_METRIC, 0, value)
}

/// A TC that lists all neighbours of its originator.
pub fn tc(from: IpAddr, number: u16, neighbours: Vec<AddressEntry>) -> Message {
    let mut tc = Message::new(message::TC, from);
    (tc.hop_limit, tc.hop_count, tc.seq) = (Some(255), Some(0), Some(number));
    tc.tlvs = vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [0x72]),
        Tlv::new(
            message_tlv::CONT_SEQ_NUM,
            cont_seq_num::COMPLETE,
            number.to_be_bytes(),
        ),
        Tlv::new(ALL, 0, []),
    ];
    tc.addresses = neighbours;
    tc
}

/// A neighbour in a TC.
pub fn advertised(to: IpAddr, mut tlvs: Vec<Tlv>) -> AddressEntry {
    tlvs.push(metric(
        link_metric::INCOMING_NEIGHBOR | link_metric::OUTGOING_NEIGHBOR,
    ));
    tlvs.push(Tlv::new(
        address_tlv::NBR_ADDR_TYPE,
        0,
        [nbr_addr_type::ROUTABLE_ORIG],
    ));
    entry(to, tlvs)
}

/// An address in a TC that is reached through its originator, and is no router.
pub fn routable(to: IpAddr) -> AddressEntry {
    let typ = Tlv::new(address_tlv::NBR_ADDR_TYPE, 0, [nbr_addr_type::ROUTABLE]);
    entry(to, vec![metric(link_metric::OUTGOING_NEIGHBOR), typ])
}

/// A host in a TC that is attached to its originator.
pub fn attached(to: IpAddr) -> AddressEntry {
    let gateway = Tlv::new(address_tlv::GATEWAY, 0, [0]);
    entry(to, vec![metric(link_metric::OUTGOING_NEIGHBOR), gateway])
}

pub fn entry(address: IpAddr, tlvs: Vec<Tlv>) -> AddressEntry {
    AddressEntry {
        prefix: Prefix::host(address),
        tlvs,
    }
}
