//! Signed messages from hostile neighbours, among them some whose keys the input may use: the router does not panic,
//! keeps its bounds, and nobody counts as signing who has not signed.
//!
//! The input is one message for the reader of claims, and a session for two routers, one of which requires signatures
//! while the other prefers them. The session has records: an octet of time step, form and key, one of which two bits are
//! the source, two of length, and the octets of a message. The router hears them as they are, or signed, or signed and
//! then changed. A link to a neighbour that signs does not become another router's.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use icv::{Claim, Signer};
use libfuzzer_sys::fuzz_target;
use olsrv2::{
    Config, InterfaceEvent, InterfaceId, Limits, LinkStatus, Router, Signatures, Time,
};
use rfc5444::iana::message_tlv;
use rfc5444::{covered_octets, Message};

/// Small enough to be reached in a short session.
const LIMITS: Limits = Limits {
    links: 3,
    two_hops: 8,
    nodes: 6,
    advertised: 6,
    edges: 16,
    duplicates: 16,
    messages_per_second: 64,
};
/// Records of a session. Each may take two exponentiations.
const MOST: usize = 32;
const MESH: InterfaceId = InterfaceId(1);
const SOURCES: [&str; 4] = ["fe80::2", "fe80::3", "fe80::4", "10.77.1.2"];

/// The router's own key, and those of three others.
static KEYS: LazyLock<Vec<(Signer, IpAddr)>> = LazyLock::new(|| {
    let seeds = (0..=u16::MAX).map(|number| {
        let mut seed = [7; icv::KEY_LENGTH];
        seed[..2].copy_from_slice(&number.to_be_bytes());
        Signer::new(&seed)
    });
    let with_address = |signer: Signer| {
        let address = icv::address_of(&signer.public())?;
        (address.octets()[0] == 0xfc).then_some((signer, address.into()))
    };
    seeds.filter_map(with_address).take(4).collect()
});

fuzz_target!(|input: &[u8]| {
    read(input);
    for signatures in [Signatures::Require, Signatures::Prefer] {
        run(signatures, input);
    }
});

/// Lets a router with this setting hear the session.
fn run(signatures: Signatures, input: &[u8]) {
    let mut speaker = Speaker::new(signatures);
    let mut rest = input;
    for _ in 0..MOST {
        let [first, source, high, low, after @ ..] = rest else {
            break;
        };
        let length = u16::from_be_bytes([*high, *low]);
        let (octets, after) = after.split_at(after.len().min(length.into()));
        rest = after;
        speaker.pass(Duration::from_millis((1 << (first >> 4)) - 1));
        let key = &KEYS[usize::from(first & 3)];
        speaker.say(SOURCES[usize::from(source & 3)], first >> 2 & 3, key, octets);
    }
    speaker.pass(Duration::from_secs(10));
}

/// Reads what claims to be one message, as `icv` does.
fn read(octets: &[u8]) {
    if let Ok(covered) = covered_octets(octets) {
        assert!(covered.len() <= octets.len());
        assert_eq!(covered_octets(&covered).as_deref(), Ok(&covered[..]));
    }
    let Ok(message) = Message::decode(octets) else {
        return;
    };
    if let (Ok(Some(claim)), Some(originator)) = (Claim::read(&message.tlvs), message.originator) {
        let _ = claim.verify(originator, octets);
        assert!(claim.floor() <= claim.counter);
    }
}

struct Speaker {
    router: Router,
    now: Time,
    own_counter: u64,
    counter: u64,
}

impl Speaker {
    fn new(signatures: Signatures) -> Self {
        let IpAddr::V6(own) = KEYS[0].1 else {
            unreachable!("the hash of a key is an IPv6 address")
        };
        let config = Config {
            originator_v4: Some("10.77.0.1".parse().unwrap()),
            originator_v6: Some(own),
            signatures,
            limits: LIMITS,
            ..Config::default()
        };
        let mut router = Router::new(config, Time::ZERO, 1);
        router.set_signing(true);
        let addresses = ["10.77.1.1", "fe80::1"].map(|address| address.parse().unwrap());
        let up = InterfaceEvent::Up {
            interface: MESH,
            addresses: addresses.into(),
        };
        router.handle_interface(Time::ZERO, up);
        let mut speaker = Self {
            router,
            now: Time::ZERO,
            own_counter: 0,
            counter: 0,
        };
        speaker.check();
        speaker
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.router.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.router.handle_timeout(self.now);
            self.check();
        }
        self.now = end;
    }

    fn say(&mut self, source: &str, form: u8, key: &(Signer, IpAddr), octets: &[u8]) {
        let source: IpAddr = source.parse().unwrap();
        let before = self.signing();
        let message = match form {
            0 | 1 => octets.to_vec(),
            _ => match self.signed(key, octets) {
                Some(signed) if form == 3 => changed(signed, octets),
                Some(signed) => signed,
                None => return,
            },
        };
        let packet = [&[0], &message[..]].concat();
        self.router.handle_packet(self.now, MESH, source, &packet);
        self.check();
        for (address, originator) in self.signing() {
            let was = before.get(&address).copied().unwrap_or(originator);
            assert_eq!(was, originator, "{address} was taken");
        }
    }

    /// Returns the originators of symmetric neighbours that sign, by the addresses that they send from.
    fn signing(&self) -> BTreeMap<IpAddr, IpAddr> {
        let neighbours = self.router.neighbours().into_iter();
        let signing = neighbours.filter(|one| one.symmetric && one.signs);
        let signing: BTreeSet<_> = signing.filter_map(|one| one.originator).collect();
        let links = self.router.links().into_iter();
        let symmetric = links.filter(|link| link.status == LinkStatus::Symmetric);
        let named = symmetric.flat_map(|link| {
            let originator = link.originator.filter(|one| signing.contains(one));
            link.addresses.into_iter().zip(originator.into_iter().cycle())
        });
        named.collect()
    }

    /// Lets a key sign a message in its own name. The last octet says how far its counter goes on, and its age.
    fn signed(&mut self, (signer, address): &(Signer, IpAddr), octets: &[u8]) -> Option<Vec<u8>> {
        let mut message = Message::decode(octets)
            .ok()
            .filter(|one| one.addr_len == 16)?;
        message.originator = Some(*address);
        let is_claim = |typ| typ == message_tlv::ICV || typ == message_tlv::TIMESTAMP;
        message.tlvs.retain(|tlv| !is_claim(tlv.typ));
        let last = u32::from(*octets.last()?);
        self.counter += u64::from(last >> 4);
        signer
            .sign(&message.encode().ok()?, self.counter, last & 15)
            .ok()
    }

    /// Signs and takes what the router sends, and checks what it knows.
    fn check(&mut self) {
        while let Some(request) = self.router.poll_sign() {
            self.own_counter += 1;
            let floor = request.floor.unwrap_or(self.own_counter);
            let age = (self.own_counter - floor) as u32;
            let signed = KEYS[0]
                .0
                .sign(&request.message, self.own_counter, age)
                .unwrap();
            self.router
                .handle_signed(self.now, &request, &signed, self.own_counter);
        }
        while self.router.poll_transmit().is_some() {}
        while self.router.poll_event().is_some() {}
        let has_signed =
            |originator: &IpAddr| KEYS.iter().any(|(_, address)| address == originator);
        let required = self.router.config().signatures == Signatures::Require;
        for node in self.router.nodes() {
            let may_be = !required && !node.signs;
            assert!(may_be || has_signed(&node.originator), "{node:?}");
        }
        for neighbour in self.router.neighbours() {
            let may_be = !required && !neighbour.signs;
            let mut originator = neighbour.originator.iter();
            assert!(may_be || originator.all(has_signed), "{neighbour:?}");
        }
        let families = self.router.originators().len();
        assert!(self.router.links().len() <= families * LIMITS.links);
        assert!(self.router.nodes().len() <= families * LIMITS.nodes);
        assert!(self.router.edges().len() <= families * 2 * LIMITS.edges);
    }
}

/// Changes an octet of a signed message. The last octets of what was signed say which and how.
fn changed(mut signed: Vec<u8>, octets: &[u8]) -> Vec<u8> {
    if let [.., high, low, change, _] = octets {
        let index = usize::from(u16::from_be_bytes([*high, *low])) % signed.len();
        signed[index] ^= change;
    }
    signed
}
