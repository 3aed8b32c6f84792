//! A network of switches and finders in virtual time.
//!
//! Instead of using an inner session, a frame names its two ends. A receiver drops frames for others, because it could
//! not open them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use cryptoauth::{Address, PublicKey};
use fastrand::Rng;
use overlay::{Body, Contact, Dropped, Event, Finder, Limits, Message, Time, Transmit, MAX_NODES};
use switch::{
    error_frame, forward, peer_label, Handle, Header, Interface, Interfaces, Label,
    MAX_ERROR_FRAME, PROTOCOL_VERSION,
};

const SESSION: Handle = Handle::Session(77);
/// The first octet of a frame's content: a DHT message, or data of the test.
const DHT: u8 = 0;
const DATA: u8 = 1;

pub struct Node {
    pub finder: Finder,
    pub key: PublicKey,
    pub address: Address,
    pub alive: bool,
    /// Its answers name nodes that do not exist, and give invented labels to real ones.
    pub lies: bool,
    interfaces: Interfaces,
    links: BTreeMap<Interface, Link>,
    /// The senders of the data that arrived.
    pub received: Vec<Address>,
    pub events: Vec<(Time, Event)>,
}

#[derive(Clone, Copy)]
struct Link {
    peer: usize,
    peer_interface: Interface,
    latency: Duration,
}

/// When a frame arrives, its order, the node, the interface, and the octets.
type Arrival = (Time, u64, usize, u16, Vec<u8>);

pub struct Network {
    pub nodes: Vec<Node>,
    pub now: Time,
    pub frames: u64,
    queue: BinaryHeap<Reverse<Arrival>>,
    sequence: u64,
    random: Rng,
}

impl Network {
    pub fn new(count: usize, random: &mut Rng) -> Self {
        let nodes = (0..count).map(|_| Node::new(random)).collect();
        Self {
            nodes,
            now: Time::ZERO,
            frames: 0,
            queue: BinaryHeap::new(),
            random: random.fork(),
            sequence: 0,
        }
    }

    /// Returns a connected network: a random tree and some more links. Interfaces have random numbers, so that
    /// directors have all lengths.
    pub fn random(count: usize, more: usize, random: &mut Rng) -> Self {
        let mut network = Self::new(count, random);
        for node in &mut network.nodes {
            // Interfaces that are not removed again stay in use.
            let wide = [0, 0, 0, 6, 34][random.usize(..5)];
            let taken = (0..wide).filter_map(|_| node.interfaces.add()).count();
            assert_eq!(taken, wide);
        }
        for node in 1..count {
            network.link(
                node,
                random.usize(..node),
                Duration::from_millis(random.u64(1..20)),
            );
        }
        for _ in 0..more {
            let (one, other) = (random.usize(..count), random.usize(..count));
            if one != other && !network.linked(one, other) {
                network.link(one, other, Duration::from_millis(random.u64(1..20)));
            }
        }
        network
    }

    pub fn linked(&self, one: usize, other: usize) -> bool {
        self.nodes[one]
            .links
            .values()
            .any(|link| link.peer == other)
    }

    pub fn link(&mut self, one: usize, other: usize, latency: Duration) {
        let ends = [one, other].map(|node| self.nodes[node].interfaces.add().unwrap());
        for (node, peer, interface, peer_interface) in [
            (one, other, ends[0], ends[1]),
            (other, one, ends[1], ends[0]),
        ] {
            let link = Link {
                peer,
                peer_interface,
                latency,
            };
            self.nodes[node].links.insert(interface, link);
            let contact = Contact {
                key: self.nodes[peer].key,
                path: peer_label(interface),
                version: PROTOCOL_VERSION,
            };
            self.nodes[node].finder.peer_up(self.now, contact);
            self.flush(node);
        }
    }

    /// Removes a link. The link layers of both ends report it.
    pub fn unlink(&mut self, one: usize, other: usize) {
        for (node, peer) in [(one, other), (other, one)] {
            let links = &self.nodes[node].links;
            let (&interface, _) = links.iter().find(|(_, link)| link.peer == peer).unwrap();
            self.nodes[node].links.remove(&interface);
            self.nodes[node].interfaces.remove(interface);
            self.nodes[node]
                .finder
                .peer_down(self.now, peer_label(interface));
            self.flush(node);
        }
    }

    /// Returns whether the running nodes are connected.
    pub fn is_connected(&self) -> bool {
        let alive: Vec<_> = (0..self.nodes.len())
            .filter(|&node| self.nodes[node].alive)
            .collect();
        let mut reached = vec![alive[0]];
        let mut at = 0;
        while let Some(&node) = reached.get(at) {
            at += 1;
            for link in self.nodes[node].links.values() {
                if self.nodes[link.peer].alive && !reached.contains(&link.peer) {
                    reached.push(link.peer);
                }
            }
        }
        reached.len() == alive.len()
    }

    pub fn want_all(&mut self) {
        let addresses: Vec<_> = self.alive().map(|node| self.nodes[node].address).collect();
        for node in self.alive().collect::<Vec<_>>() {
            for address in &addresses {
                self.nodes[node].finder.want(self.now, *address);
            }
            self.flush(node);
        }
    }

    pub fn alive(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(|&node| self.nodes[node].alive)
    }

    /// Runs the network for this time.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let frame = self.queue.peek().map(|Reverse((due, ..))| *due);
            let timer = self
                .alive()
                .filter_map(|node| Some((self.nodes[node].finder.poll_timeout()?, node)))
                .min();
            let timer_due = timer.map(|(due, _)| due);
            let Some(due) = [frame, timer_due]
                .into_iter()
                .flatten()
                .min()
                .filter(|due| *due <= end)
            else {
                break;
            };
            self.now = self.now.max(due);
            if frame == Some(due) {
                let Reverse((_, _, node, interface, octets)) = self.queue.pop().unwrap();
                self.arrive(node, Interface::new(interface).unwrap(), octets);
            } else if let Some((_, node)) = timer {
                self.nodes[node].finder.handle_timeout(self.now);
                assert!(
                    self.nodes[node].finder.poll_timeout() > Some(self.now),
                    "a timer that is due stays due"
                );
                self.flush(node);
            }
        }
        self.now = end;
    }

    /// Sends data from one node to another over the best path. The receiver records it.
    pub fn send_data(&mut self, from: usize, to: usize) -> bool {
        let Some(way) = self.nodes[from].finder.way(self.nodes[to].address) else {
            return false;
        };
        self.send(from, way, DATA, &[]);
        true
    }

    fn flush(&mut self, node: usize) {
        while let Some(Transmit { to, payload }) = self.nodes[node].finder.poll_transmit() {
            let payload = if self.nodes[node].lies {
                self.falsified(&payload)
            } else {
                payload
            };
            self.send(node, to, DHT, &payload);
        }
        while let Some(event) = self.nodes[node].finder.poll_event() {
            let now = self.now;
            self.nodes[node].events.push((now, event));
        }
    }

    /// Returns the answer of a liar: as many nodes as an answer may contain, every second one invented.
    fn falsified(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut message = Message::decode(payload).unwrap();
        if let Body::Reply(contacts) = &mut message.body {
            let keys: Vec<_> = self.nodes.iter().map(|node| node.key).collect();
            *contacts = (0..MAX_NODES)
                .map(|number| Contact {
                    key: if number % 2 == 0 {
                        keys[number / 2 % keys.len()]
                    } else {
                        node_key(&mut self.random)
                    },
                    path: Label(self.random.u64(2..1 << 20)),
                    version: PROTOCOL_VERSION,
                })
                .collect();
        }
        message.encode()
    }

    fn send(&mut self, node: usize, to: Contact, kind: u8, payload: &[u8]) {
        let header = Header::new(to.path).encode();
        let ends = [self.nodes[node].key, to.key];
        let ends = ends.iter().flat_map(|key| *key.octets());
        let content = SESSION
            .number()
            .to_be_bytes()
            .into_iter()
            .chain(ends)
            .chain([kind]);
        let frame: Vec<_> = header
            .into_iter()
            .chain(content)
            .chain(payload.iter().copied())
            .collect();
        self.pass(node, Interface::ROUTER, frame);
    }

    /// Handles a frame that arrived on an interface of a node: forwards it, or sends the error back.
    fn arrive(&mut self, node: usize, source: Interface, frame: Vec<u8>) {
        if self.nodes[node].alive && self.nodes[node].links.contains_key(&source) {
            self.pass(node, source, frame);
        }
    }

    fn pass(&mut self, node: usize, source: Interface, mut frame: Vec<u8>) {
        self.frames += 1;
        match forward(&self.nodes[node].interfaces, source, &mut frame) {
            Ok(destination) => self.leave(node, destination, frame),
            Err(refusal) => {
                let mut out = [0; MAX_ERROR_FRAME];
                if let Some(length) = error_frame(refusal, &frame, &mut out) {
                    self.leave(node, source, out[..length].to_vec());
                }
            }
        }
    }

    fn leave(&mut self, node: usize, by: Interface, frame: Vec<u8>) {
        if by == Interface::ROUTER {
            self.take(node, &frame);
        } else if let Some(link) = self.nodes[node].links.get(&by) {
            let arrival = (
                self.now + link.latency,
                self.sequence,
                link.peer,
                link.peer_interface.number(),
                frame,
            );
            self.sequence += 1;
            self.queue.push(Reverse(arrival));
        }
    }

    fn take(&mut self, node: usize, frame: &[u8]) {
        let (header, content) = Header::decode(frame).unwrap();
        let back = header.label.reversed();
        let (handle, rest) = Handle::decode(content).unwrap();
        let now = self.now;
        if handle == Handle::Control {
            self.nodes[node].finder.handle_error(now, back);
        } else {
            self.open(node, back, rest);
        }
        self.flush(node);
    }

    fn open(&mut self, node: usize, path: Label, rest: &[u8]) {
        let ((from, to), rest) = (rest[..64].split_at(32), &rest[64..]);
        if to != self.nodes[node].key.octets() {
            return;
        }
        let key = PublicKey::from_octets(from.try_into().unwrap());
        let now = self.now;
        match rest[0] {
            DHT => {
                let from = Contact {
                    key,
                    path,
                    version: PROTOCOL_VERSION,
                };
                let finder = &mut self.nodes[node].finder;
                let heard = finder.handle_message(now, from, &rest[1..]);
                assert!(!matches!(heard, Err(Dropped::Malformed(_))));
            }
            _ => self.nodes[node].received.push(key.address()),
        }
    }
}

impl Node {
    fn new(random: &mut Rng) -> Self {
        let key = node_key(random);
        Self {
            finder: Finder::new(key, Limits::default(), Time::ZERO, random.u64(..)),
            key,
            address: key.address(),
            alive: true,
            lies: false,
            interfaces: Interfaces::new(),
            links: BTreeMap::new(),
            received: Vec::new(),
            events: Vec::new(),
        }
    }
}

/// Returns a public key whose address is a node's. Nobody has its private key.
pub fn node_key(random: &mut Rng) -> PublicKey {
    loop {
        let mut octets = [0; 32];
        random.fill(&mut octets);
        let key = PublicKey::from_octets(octets);
        if key.node_address().is_ok() {
            return key;
        }
    }
}
