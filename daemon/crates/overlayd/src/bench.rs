//! Measures what one core of this machine achieves: the ciphers of links and sessions, the switch, and the path of a
//! packet through two nodes in memory, without sockets.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use cryptoauth::noise::{Link, Request, Timestamp, MESSAGE_ROOM};
use cryptoauth::{Ciphers, Credential, Local, Portable, PrivateKey, Session, KEY_LENGTH};
use overlay_node::{
    Admission, Beacons, Config, Connection, InterfaceId, Limits, LinkAddress, Node, Time, Timing,
    Verdict, HEAD_ROOM, TAIL_ROOM,
};
use rand_core::{OsRng, RngCore, TryRngCore, UnwrapErr};
use serde_json::json;
use switch::{forward, Header, Interface, Interfaces, Label};

use crate::daemon;

/// Repetitions between two readings of the clock.
const BATCH: u32 = 64;
/// Number of frames that are switched in turn, more than the first cache level holds.
const FRAMES: usize = 1024;
/// Number of steps within which two nodes must have a session, and the duration of each.
const STEPS: usize = 2000;
const STEP: Duration = Duration::from_millis(10);
const PASSWORD: &[u8] = b"bench";
/// Length of the IPv6 header in bytes.
const IPV6: usize = 40;

/// A measured figure.
struct Figure {
    name: String,
    /// Duration of one repetition in seconds.
    seconds: f64,
    /// Bytes of one repetition, if they matter.
    octets: Option<usize>,
}

/// Measures each figure for `seconds`, and prints the results.
pub fn run(octets: usize, seconds: f64, as_json: bool) {
    let span = Duration::from_secs_f64(seconds.clamp(0.01, 60.0));
    let mut figures = ciphers(octets, span, &Portable);
    let quickest = daemon::ciphers();
    if quickest.name() != Portable.name() {
        figures.extend(ciphers(octets, span, quickest));
    }
    figures.push(switching(span));
    figures.extend(nodes(octets, span));
    if as_json {
        println!(
            "{}",
            json!({"schema": 1, "octets": octets, "figures": figures.iter().map(Figure::json).collect::<Vec<_>>()})
        );
    } else {
        figures.iter().for_each(Figure::print);
    }
}

impl Figure {
    fn megabits(&self) -> Option<f64> {
        self.octets
            .map(|octets| 8e-6 * octets as f64 / self.seconds)
    }

    fn json(&self) -> serde_json::Value {
        json!({"name": self.name, "per_second": 1.0 / self.seconds, "megabits": self.megabits()})
    }

    fn print(&self) {
        let megabits = self
            .megabits()
            .map_or(String::new(), |megabits| format!(", {megabits:.0} Mbit/s"));
        println!("{:56} {:>12.0} /s{megabits}", self.name, 1.0 / self.seconds);
    }
}

/// Returns the seconds of one repetition in the quickest of many short batches, because other processes may use the
/// processor.
fn quickest(span: Duration, mut action: impl FnMut()) -> f64 {
    let begun = Instant::now();
    let mut quickest = f64::MAX;
    while begun.elapsed() < span {
        let start = Instant::now();
        (0..BATCH).for_each(|_| action());
        quickest = quickest.min(start.elapsed().as_secs_f64());
    }
    quickest / f64::from(BATCH)
}

/// Measures the switch alone, with a table of frames.
fn switching(span: Duration) -> Figure {
    let mut interfaces = Interfaces::new();
    while interfaces.add().is_some() {}
    let mut random = fastrand::Rng::with_seed(1);
    let frames: Vec<_> = (0..FRAMES)
        .map(|_| switchable(&interfaces, &mut random))
        .collect();
    let mut frames = frames.iter().cycle();
    let seconds = quickest(span, || {
        if let Some((source, header)) = frames.next() {
            let mut header = *header;
            let _ = black_box(forward(&interfaces, *source, black_box(&mut header)));
        }
    });
    Figure {
        name: "frames switched".into(),
        seconds,
        octets: None,
    }
}

/// Makes a frame that a switch forwards between random interfaces.
fn switchable(
    interfaces: &Interfaces,
    random: &mut fastrand::Rng,
) -> (Interface, [u8; Header::LEN]) {
    loop {
        let source = Interface::new(random.u16(..Interface::COUNT)).unwrap_or(Interface::ROUTER);
        let header = Header::new(Label(random.u64(..) >> 12 | 1 << 52)).encode();
        if forward(interfaces, source, &mut header.clone()).is_ok() {
            return (source, header);
        }
    }
}

/// Measures sealing and opening in one thread, as each link and each session does it.
fn ciphers(octets: usize, span: Duration, ciphers: &'static dyn Ciphers) -> Vec<Figure> {
    let rng = &mut OsRng.unwrap_err();
    let locals = [0; 2].map(|_| Local::with_ciphers(new_key(rng), ciphers));
    let mut sessions = sessions(&locals, rng);
    let content = cryptoauth::HEAD_ROOM..cryptoauth::HEAD_ROOM + octets;
    let mut space = vec![0; content.end + cryptoauth::TAIL_ROOM];
    let cryptoauth = quickest(span, || {
        let [first, second] = &mut sessions;
        let frame = first.seal(&locals[0], Time::ZERO, rng, &mut space, content.clone());
        let frame = &mut space[frame.expect("room")];
        second
            .open(&locals[1], Time::ZERO, frame)
            .expect("authentic");
    });
    let mut links = links(&locals, &mut OsRng.unwrap_err());
    let noise = quickest(span, || {
        let frame = links[0].seal(Time::ZERO, &mut space, content.clone());
        let frame = &mut space[frame.expect("room")];
        links[1]
            .open(&locals[1], Time::ZERO, frame)
            .expect("authentic");
    });
    let figure = |name, seconds| Figure {
        name: format!("sealed and opened: {name}, {}", ciphers.name()),
        seconds,
        octets: Some(octets),
    };
    vec![
        figure("CryptoAuth (XSalsa20)", cryptoauth),
        figure("Noise (ChaCha20)", noise),
    ]
}

/// Returns the two ends of an established CryptoAuth session.
fn sessions(locals: &[Local; 2], rng: &mut UnwrapErr<OsRng>) -> [Session; 2] {
    let new = |end: usize| {
        let peer = *locals[1 - end].public();
        Session::new(&locals[end], peer, None, false, Time::ZERO).expect("a good key")
    };
    let mut sessions = [new(0), new(1)];
    for step in 0..4 {
        let (from, to) = (step % 2, 1 - step % 2);
        let mut space = [0; cryptoauth::HEAD_ROOM + 1];
        let content = cryptoauth::HEAD_ROOM..space.len();
        let frame = sessions[from].seal(&locals[from], Time::ZERO, rng, &mut space, content);
        let frame = &mut space[frame.expect("room")];
        sessions[to]
            .open(&locals[to], Time::ZERO, frame)
            .expect("authentic");
    }
    sessions
}

/// Returns the two ends of an established Noise link.
fn links(locals: &[Local; 2], rng: &mut UnwrapErr<OsRng>) -> [Link; 2] {
    let new = |end: usize| {
        let version = switch::PROTOCOL_VERSION;
        Link::new(*locals[1 - end].public(), None, 1, version)
    };
    let mut links = [new(0), new(1)];
    let (mut init, mut reply) = ([0; MESSAGE_ROOM], [0; MESSAGE_ROOM]);
    let stamp = Timestamp([0; 12]);
    let length = links[0].initiate(&locals[0], Time::ZERO, rng, stamp, &mut init);
    let request = Request::open(&locals[1], false, &init[..length.expect("room")]);
    let length = links[1].answer(request.expect("authentic"), Time::ZERO, rng, &mut reply);
    let reply = &mut reply[..length.expect("a first request")];
    links[0]
        .open(&locals[0], Time::ZERO, reply)
        .expect("authentic");
    links
}

/// Two neighbours in memory.
struct Pair {
    nodes: [Node; 2],
    interfaces: [InterfaceId; 2],
    rng: UnwrapErr<OsRng>,
    now: Time,
    /// One packet, with the space around it that a node needs.
    buffer: Vec<u8>,
    octets: usize,
}

/// Measures sending and receiving a packet, session and link included.
fn nodes(octets: usize, span: Duration) -> Vec<Figure> {
    let Some(mut pair) = Pair::with_session(octets) else {
        log::warn!(
            "two nodes in memory did not get a session; the path of a packet is not measured"
        );
        return Vec::new();
    };
    let figure = |name: &str, seconds| Figure {
        name: name.into(),
        seconds,
        octets: Some(octets),
    };
    let sent = quickest(span, || {
        black_box(pair.send());
    });
    let both = quickest(span, || {
        let frame = pair.send();
        black_box(pair.receive(frame));
    });
    vec![
        figure("packets sent by a node", sent),
        figure("packets sent by one and received by another", both),
    ]
}

impl Pair {
    /// Makes two nodes that exchange packets; `None` if they get no session.
    fn with_session(octets: usize) -> Option<Self> {
        let mut rng = OsRng.unwrap_err();
        let keys = [0; 2].map(|_| new_key(&mut rng));
        let publics = keys.each_ref().map(PrivateKey::public);
        let mut nodes = keys.map(|key| new_node(key, &mut rng));
        let interfaces = nodes
            .each_mut()
            .map(|node| node.add_interface(Time::ZERO, &mut rng, Beacons::Off));
        nodes[1].add_user(None, PASSWORD, None).ok()?;
        let connection = Connection {
            interface: interfaces[0],
            to: link_address(1),
            key: publics[1],
            credential: Some(Credential::password(PASSWORD)),
        };
        nodes[0].connect(Time::ZERO, connection).ok()?;
        let mut pair = Self {
            nodes,
            interfaces,
            rng,
            now: Time::ZERO,
            buffer: vec![0; overlay_node::TRANSMIT_ROOM.max(HEAD_ROOM + octets + TAIL_ROOM)],
            octets,
        };
        (0..STEPS).find(|_| pair.step()).map(|_| pair)
    }

    /// Advances the time and sends a packet. Returns whether it has arrived.
    fn step(&mut self) -> bool {
        self.now += STEP;
        for from in [0, 1] {
            self.nodes[from].handle_timeout(self.now);
            self.exchange(from);
        }
        let frame = self.send();
        let arrived = self.receive(frame);
        self.exchange(0);
        arrived
    }

    /// Passes the frames that a node sends by itself to the other node.
    fn exchange(&mut self, from: usize) {
        loop {
            let (now, rng) = (self.now, &mut self.rng);
            let Some(said) = self.nodes[from].poll_transmit(now, rng, &mut self.buffer) else {
                break;
            };
            // These frames only negotiate links, paths and sessions.
            let _ = self.take(1 - from, said.frame);
        }
        while self.nodes[from].poll_event().is_some() {}
    }

    /// Sends a packet from the first node to the second. Returns the place of its frame in the buffer, if there is one.
    fn send(&mut self) -> Option<Range<usize>> {
        let packet = HEAD_ROOM..HEAD_ROOM + self.octets;
        let header = ipv6_header(&self.nodes, self.octets);
        self.buffer[packet.start..packet.start + IPV6].copy_from_slice(&header);
        let (now, rng) = (self.now, &mut self.rng);
        match self.nodes[0].send_packet(now, rng, &mut self.buffer, packet) {
            Verdict::Transmit { frame, .. } => Some(frame),
            Verdict::Nothing | Verdict::Deliver { .. } => None,
        }
    }

    /// Returns whether a frame of the first node becomes a packet at the second.
    fn receive(&mut self, frame: Option<Range<usize>>) -> bool {
        let verdict = frame.map(|frame| self.take(1, frame));
        matches!(verdict, Some(Verdict::Deliver { .. }))
    }

    /// Passes the frame to a node, moved to where it has space around it.
    fn take(&mut self, at: usize, frame: Range<usize>) -> Verdict {
        let length = frame.len().min(self.buffer.len() - HEAD_ROOM - TAIL_ROOM);
        self.buffer
            .copy_within(frame.start..frame.start + length, HEAD_ROOM);
        let (now, rng, frame) = (self.now, &mut self.rng, HEAD_ROOM..HEAD_ROOM + length);
        let (id, from) = (self.interfaces[at], link_address(1 - at));
        self.nodes[at].receive(now, rng, id, &from, &mut self.buffer, frame)
    }
}

fn new_node(key: PrivateKey, rng: &mut UnwrapErr<OsRng>) -> Node {
    let config = Config {
        key,
        ciphers: daemon::ciphers(),
        unix_at_zero: Duration::ZERO,
        noise: false,
        admission: Admission::Anybody,
        limits: Limits::default(),
        timing: Timing::default(),
    };
    Node::new(config, Time::ZERO, rng).expect("a node's key")
}

/// Makes a private key of a node. About one random key in 256 is one.
fn new_key(rng: &mut UnwrapErr<OsRng>) -> PrivateKey {
    loop {
        let mut octets = [0; KEY_LENGTH];
        rng.fill_bytes(&mut octets);
        let key = PrivateKey::from_octets(octets);
        if key.public().node_address().is_ok() {
            return key;
        }
    }
}

fn link_address(number: usize) -> LinkAddress {
    LinkAddress::Ethernet([2, 0, 0, 0, 0, number as u8])
}

/// Returns the header of a UDP packet from the first node to the second.
fn ipv6_header(nodes: &[Node; 2], octets: usize) -> [u8; IPV6] {
    let mut header = [0; IPV6];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&((octets - IPV6) as u16).to_be_bytes());
    (header[6], header[7]) = (17, 64);
    header[8..24].copy_from_slice(nodes[0].address().octets());
    header[24..40].copy_from_slice(nodes[1].address().octets());
    header
}
