//! Checks that a packet causes no allocation, from the TUN device of one node through the sockets of a relay to the TUN
//! device of another, once sessions, links and queues exist.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use cryptoauth::{Ciphers, Credential, Portable, PrivateKey, KEY_LENGTH};
use overlay_node::{
    Admission, Beacons, Config, Connection, Destination, InterfaceId, Limits, Link, LinkAddress,
    Node, PeerView, Time, Timing, Verdict,
};
use rand_core::{OsRng, RngCore, TryRngCore, UnwrapErr};

use super::buffers::{Buffer, Part, Pool};
use super::tun::Tun;
use super::udp::Udp;
use super::Flow;
use crate::daemon;

/// Counts the allocations of each thread, because other tests run on other threads.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: `System` does everything, with the arguments given. Counting allocates nothing: the thread-local is
// initialized at compile time and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer comes from `System`, as all that are given out here.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the pointer comes from `System`, as all that are given out here.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Returns the number of allocations of this thread in `action`.
fn allocations(action: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    action();
    ALLOCATIONS.get() - before
}

const PASSWORD: &[u8] = b"allocations";
/// Packets in a piece, bytes of content in each, and length of the headers.
const PACKETS: usize = 40;
const CONTENT: usize = 1200;
const HEADERS: usize = 48;
const BUFFERS: u16 = 256;
const STEP: Duration = Duration::from_millis(10);
/// Timeout, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node with a socket on the loopback device. A pair of sockets is its TUN device.
struct Station {
    node: Node,
    interface: InterfaceId,
    udp: Udp,
    pool: Pool,
    tun: Tun,
    /// This machine's end of the TUN device.
    user: UnixDatagram,
}

/// Three nodes in a line. The outer ones exchange packets.
struct Line {
    stations: [Station; 3],
    now: Time,
    /// The packets of the first node's kernel, several in one piece.
    piece: Vec<u8>,
}

impl Station {
    fn new(noise: bool, ciphers: &'static dyn Ciphers) -> Self {
        let rng = &mut rng();
        let config = Config {
            key: key(rng),
            ciphers,
            unix_at_zero: Duration::from_secs(1_700_000_000),
            noise,
            admission: Admission::Anybody,
            limits: Limits::default(),
            timing: Timing::default(),
        };
        let mut node = Node::new(config, Time::ZERO, rng).unwrap();
        node.add_user(None, PASSWORD, None).unwrap();
        let interface = node.add_interface(Time::ZERO, rng, Beacons::Off);
        let (user, device) = UnixDatagram::pair().unwrap();
        for end in [&user, &device] {
            end.set_nonblocking(true).unwrap();
        }
        let device = File::from(OwnedFd::from(device));
        Self {
            node,
            interface,
            udp: Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap(),
            pool: Pool::new(BUFFERS),
            tun: Tun::over(device, String::new(), true),
            user,
        }
    }

    fn address(&self) -> SocketAddr {
        self.udp.local_address().unwrap()
    }

    fn connect(&mut self, other: &Self) {
        let connection = Connection {
            interface: self.interface,
            to: LinkAddress::Udp(other.address()),
            key: *other.node.key(),
            credential: Some(Credential::password(PASSWORD)),
        };
        self.node.connect(Time::ZERO, connection).unwrap();
    }

    /// Reads a piece from its kernel.
    fn take_packets(&mut self, now: Time) {
        let mut packets = self.tun.receive().unwrap().unwrap();
        let mut parts: [Option<Part>; PACKETS] = [const { None }; PACKETS];
        for part in &mut parts {
            *part = packets.next(&mut self.pool);
        }
        assert!(packets.next(&mut self.pool).is_none());
        for Part { buffer, range } in parts.into_iter().flatten() {
            let octets = self.pool.octets_mut(buffer);
            let verdict = self.node.send_packet(now, &mut rng(), octets, range);
            self.obey(buffer, verdict);
        }
        self.flush(now);
    }

    /// Reads all waiting frames.
    fn take_frames(&mut self, now: Time) {
        while self.udp.receive().unwrap() {
            while let Some(arrival) = self.udp.next(&mut self.pool) {
                let Part { buffer, range } = arrival.frame;
                let octets = self.pool.octets_mut(buffer);
                let (by, from) = (self.interface, &arrival.from);
                let verdict = self.node.receive(now, &mut rng(), by, from, octets, range);
                self.obey(buffer, verdict);
            }
            self.flush(now);
        }
    }

    fn obey(&mut self, buffer: Buffer, verdict: Verdict) {
        match verdict {
            Verdict::Nothing => self.pool.give(buffer),
            Verdict::Transmit { to, frame, .. } => {
                self.push(Destination::Unicast(to), buffer, frame)
            }
            Verdict::Deliver { packet: range } => self.tun.push(Part { buffer, range }),
        }
    }

    fn push(&mut self, to: Destination, buffer: Buffer, range: std::ops::Range<usize>) {
        let Destination::Unicast(LinkAddress::Udp(to)) = to else {
            panic!("{to:?}");
        };
        self.udp.push(to, Part { buffer, range }, &mut self.pool);
    }

    /// Sends the queued frames, and those that the node originates.
    fn flush(&mut self, now: Time) {
        while let Some(buffer) = self.pool.take() {
            let octets = self.pool.octets_mut(buffer);
            let Some(said) = self.node.poll_transmit(now, &mut rng(), octets) else {
                self.pool.give(buffer);
                break;
            };
            self.push(said.to, buffer, said.frame);
        }
        while self.node.poll_event().is_some() {}
        while self.udp.flush(&mut self.pool) == Flow::Blocked {
            std::thread::yield_now(); // the loopback device gives it back as soon as it runs
        }
        self.tun.flush(&mut self.pool);
    }
}

impl Line {
    /// Makes a line in which packets pass and the links are of the wanted kind.
    fn that_stands(noise: bool, ciphers: &'static dyn Ciphers) -> Self {
        let mut stations = [0; 3].map(|_| Station::new(noise, ciphers));
        let [first, relay, last] = &mut stations;
        first.connect(relay);
        last.connect(relay);
        let piece = piece(&first.node, &last.node);
        let mut line = Self {
            stations,
            now: Time::ZERO,
            piece,
        };
        let wanted = if noise { Link::Noise } else { Link::CryptoAuth };
        let deadline = Instant::now() + PATIENCE;
        while line.stations[2].tun.counters.packets_out == 0
            || !line.links().all(|link| link == wanted)
        {
            assert!(Instant::now() < deadline, "no packet passes");
            line.now += STEP;
            for station in &mut line.stations {
                station.node.handle_timeout(line.now);
                station.flush(line.now);
            }
            line.offer();
            for station in &mut line.stations {
                station.take_frames(line.now);
            }
            line.drain();
        }
        line
    }

    fn links(&self) -> impl Iterator<Item = Link> + '_ {
        let peers = self
            .stations
            .iter()
            .flat_map(|station| station.node.peers(self.now));
        peers.map(|peer: PeerView| peer.link)
    }

    fn offer(&mut self) {
        let first = &mut self.stations[0];
        assert_eq!(first.user.send(&self.piece).unwrap(), self.piece.len());
        first.take_packets(self.now);
    }

    /// Reads the packets that reached the last node's kernel.
    fn drain(&mut self) {
        let mut space = [0; 4096];
        while self.stations[2].user.recv(&mut space).is_ok() {}
    }

    /// Sends one piece from end to end.
    fn pass(&mut self) {
        let came = |line: &Self| line.stations[2].tun.counters.packets_out;
        let wanted = came(self) + PACKETS as u64;
        self.offer();
        let deadline = Instant::now() + PATIENCE;
        while came(self) < wanted {
            assert!(Instant::now() < deadline, "{} of {wanted}", came(self));
            self.stations[1].take_frames(self.now);
            self.stations[2].take_frames(self.now);
            std::thread::yield_now();
        }
        self.drain();
    }
}

/// Makes a piece of UDP packets as the kernel hands it over: the header of linux/virtio_net.h, headers, content.
fn piece(from: &Node, to: &Node) -> Vec<u8> {
    let mut piece = vec![1, 5];
    for word in [HEADERS, CONTENT, HEADERS - 8, 6] {
        piece.extend_from_slice(&(word as u16).to_ne_bytes());
    }
    let length = (8 + PACKETS * CONTENT) as u16;
    piece.extend_from_slice(&[0x60, 0, 0, 0]);
    piece.extend_from_slice(&length.to_be_bytes());
    piece.extend_from_slice(&[17, 64]);
    piece.extend_from_slice(from.address().octets());
    piece.extend_from_slice(to.address().octets());
    piece.extend_from_slice(&[0, 7, 0, 9]);
    piece.extend_from_slice(&length.to_be_bytes());
    piece.extend_from_slice(&[0, 0]);
    piece.resize(piece.len() + PACKETS * CONTENT, 0x5a);
    piece
}

fn rng() -> UnwrapErr<OsRng> {
    OsRng.unwrap_err()
}

/// Makes a private key of a node. About one random key in 256 is one.
fn key(rng: &mut UnwrapErr<OsRng>) -> PrivateKey {
    loop {
        let mut octets = [0; KEY_LENGTH];
        rng.fill_bytes(&mut octets);
        let key = PrivateKey::from_octets(octets);
        if key.public().node_address().is_ok() {
            return key;
        }
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7)))), 1);
}

#[test]
fn a_packet_on_its_way_allocates_nothing() {
    for ciphers in [&Portable as &dyn Ciphers, daemon::ciphers()] {
        for noise in [false, true] {
            let mut line = Line::that_stands(noise, ciphers);
            // Queues that grow with their contents have reached their size now.
            (0..5).for_each(|_| line.pass());
            let count = allocations(|| (0..25).for_each(|_| line.pass()));
            assert_eq!(count, 0, "{}, Noise: {noise}, 1000 packets", ciphers.name());
            let forwarded = line.stations[1].node.counters().forwarded;
            assert!(forwarded >= 1000, "{forwarded}");
        }
    }
}
