//! A whole node with a hostile neighbour: it does not panic, keeps its bounds, and asks for no timer in the past.
//!
//! The input is a session of records: an octet of time step and kind, an octet of source or content, two octets of length,
//! and octets: of strangers, of the neighbour under the keys of its link, or of its inner session, beacons, or packets.
#![no_main]

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use cryptoauth::{Credential, Local, Portable, PrivateKey, PublicKey, Session};
use libfuzzer_sys::fuzz_target;
use overlay::{Content, SessionLimits, Sessions};
use overlay_node::{
    Admission, Beacons, Config, InterfaceId, Limits, LinkAddress, Node, Time, Timing, HEAD_ROOM,
    TAIL_ROOM, TRANSMIT_ROOM,
};
use rand_core::{CryptoRng, RngCore};
use switch::Label;

const PASSWORD: &[u8] = b"password";
/// Small enough to be reached in a short session.
const LIMITS: Limits = Limits {
    peers: 4,
    unconfirmed_peers: 2,
    nodes: 6,
    sessions: 4,
    unconfirmed_sessions: 2,
    waiting_packets: 2,
    link_handshakes: 100,
    link_handshakes_by_source: 100,
    inner_handshakes: 100,
    dht_messages: 100,
    control_answers: 100,
    errors: 100,
};
/// What a session may take.
const LONGEST: Time = Time::from_secs(900);
/// From a neighbour's router to the node's.
const NEIGHBOUR: Label = Label(1 << 63 | 1);

/// The node's private key and the neighbour's.
static KEYS: LazyLock<[[u8; 32]; 2]> = LazyLock::new(keys);

/// Randomness that is none, so that what happens repeats itself.
struct Counter(u64);

impl RngCore for Counter {
    fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        self.0.rotate_left(32)
    }

    fn fill_bytes(&mut self, octets: &mut [u8]) {
        for octet in octets {
            *octet = self.next_u64() as u8;
        }
    }
}

impl CryptoRng for Counter {}

/// The node, and the neighbour that lies.
struct Scene {
    node: Node,
    interface: InterfaceId,
    now: Time,
    rng: Counter,
    local: Local,
    link: Session,
    inner: Sessions,
    key: PublicKey,
}

fuzz_target!(|session: &[u8]| {
    let mut scene = Scene::new();
    scene.link_frame(&[0; 16]);
    let mut rest = session;
    while let [first, second, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (octets, after) = after.split_at(after.len().min(length));
        rest = after;
        scene.run(Duration::from_millis((1 << (first >> 4)) - 1));
        if scene.now > LONGEST {
            break;
        }
        match first & 7 {
            0 | 1 => scene.receive(&from(second & 7), octets),
            2 | 3 | 4 => scene.link_frame(octets),
            5 => scene.inner_frame(*second, octets),
            6 => scene
                .node
                .receive_beacon(scene.now, scene.interface, &from(second & 7), octets),
            _ => scene.packet(octets),
        }
        scene.check();
    }
    scene.run(Duration::from_secs(10));
});

fn from(number: u8) -> LinkAddress {
    LinkAddress::Udp(SocketAddr::from(([10, 0, 0, number], 1000)))
}

fn keys() -> [[u8; 32]; 2] {
    let octets = (0_u32..).map(|number| {
        let mut octets = [7; 32];
        octets[..4].copy_from_slice(&number.to_be_bytes());
        octets
    });
    let is_node = |octets: &[u8; 32]| {
        PrivateKey::from_octets(*octets)
            .public()
            .node_address()
            .is_ok()
    };
    let mut nodes = octets.filter(is_node);
    [(); 2].map(|()| nodes.next().expect("one of 256 is"))
}

impl Scene {
    fn new() -> Self {
        let (now, mut rng) = (Time::ZERO, Counter(1));
        let config = Config {
            key: PrivateKey::from_octets(KEYS[0]),
            ciphers: &Portable,
            unix_at_zero: Duration::ZERO,
            noise: true,
            admission: Admission::Anybody,
            limits: LIMITS,
            timing: Timing::default(),
        };
        let mut node = Node::new(config, now, &mut rng).expect("the key is a node's");
        node.add_user(None, PASSWORD, None).expect("the first user");
        let interface = node.add_interface(now, &mut rng, Beacons::Send);
        let key = *node.key();
        let local = Local::new(PrivateKey::from_octets(KEYS[1]));
        let credential = Some(Credential::password(PASSWORD));
        let link = Session::new(&local, key, credential, false, now).expect("the key is good");
        let inner = Sessions::new(SessionLimits {
            sessions: 2,
            unconfirmed: 2,
        });
        Self {
            node,
            interface,
            now,
            rng,
            local,
            link,
            inner,
            key,
        }
    }

    /// A datagram comes to the node.
    fn receive(&mut self, from: &LinkAddress, octets: &[u8]) {
        let mut buffer = vec![0; HEAD_ROOM + octets.len() + TAIL_ROOM];
        let range = HEAD_ROOM..HEAD_ROOM + octets.len();
        buffer[range.clone()].copy_from_slice(octets);
        let _ = self.node.receive(
            self.now,
            &mut self.rng,
            self.interface,
            from,
            &mut buffer,
            range,
        );
        self.flush();
    }

    /// The neighbour says something, in a handshake or under keys.
    fn link_frame(&mut self, content: &[u8]) {
        let mut space = vec![0; HEAD_ROOM + content.len()];
        space[HEAD_ROOM..].copy_from_slice(content);
        let range = HEAD_ROOM..space.len();
        let (local, rng) = (&self.local, &mut self.rng);
        if let Ok(frame) = self.link.seal(local, self.now, rng, &mut space, range) {
            self.receive(&from(1), &space[frame]);
        }
    }

    /// The neighbour says something in its inner session.
    fn inner_frame(&mut self, kind: u8, content: &[u8]) {
        let content_type = match kind {
            0..128 => Content::Dht,
            _ => Content::from(u16::from(kind) << 1),
        };
        let mut space = vec![0; HEAD_ROOM + content.len()];
        space[HEAD_ROOM..].copy_from_slice(content);
        let range = HEAD_ROOM..space.len();
        let to = (self.key, NEIGHBOUR);
        let (local, rng) = (&self.local, &mut self.rng);
        let sealed = self
            .inner
            .seal(local, self.now, rng, to, content_type, &mut space, range);
        if let Ok(frame) = sealed {
            let frame = space[frame].to_vec();
            self.link_frame(&frame);
        }
    }

    fn packet(&mut self, octets: &[u8]) {
        let mut packet = vec![0; HEAD_ROOM + 40];
        packet[HEAD_ROOM] = 6 << 4;
        packet[HEAD_ROOM + 4..HEAD_ROOM + 6].copy_from_slice(&(octets.len() as u16).to_be_bytes());
        packet[HEAD_ROOM + 8..HEAD_ROOM + 24].copy_from_slice(self.node.address().octets());
        packet[HEAD_ROOM + 24..].copy_from_slice(self.local.public().address().octets());
        packet.extend(octets);
        let range = HEAD_ROOM..packet.len();
        packet.extend([0; TAIL_ROOM]);
        let _ = self
            .node
            .send_packet(self.now, &mut self.rng, &mut packet, range);
        self.flush();
    }

    /// What the node says reaches the neighbour, who goes on with it.
    fn flush(&mut self) {
        let mut out = vec![0; TRANSMIT_ROOM + 65536];
        while let Some(said) = self.node.poll_transmit(self.now, &mut self.rng, &mut out) {
            let frame = &mut out[said.frame];
            let Ok(opened) = self.link.open(&self.local, self.now, frame) else {
                continue;
            };
            let inner = &mut frame[opened.content];
            if inner.len() > 12 {
                let _ = self.inner.open(&self.local, self.now, &mut self.rng, inner);
            }
        }
        while self.node.poll_event().is_some() {}
    }

    fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.node.poll_timeout() <= until {
            self.now = self.now.max(self.node.poll_timeout());
            self.node.handle_timeout(self.now);
            self.check();
        }
        self.now = until;
    }

    fn check(&mut self) {
        self.flush();
        if self.node.poll_timeout() <= self.now {
            self.node.handle_timeout(self.now);
            self.flush();
        }
        assert!(
            self.node.poll_timeout() > self.now,
            "a timer that is due stays due"
        );
        assert!(self.node.peers(self.now).count() <= LIMITS.peers);
        assert!(self.node.sessions().count() <= LIMITS.sessions);
        assert!(self.node.store().len() <= LIMITS.nodes);
    }
}
