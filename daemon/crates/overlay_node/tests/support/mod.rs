//! Nodes in virtual time, and the datagrams between them.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use cryptoauth::{Address, Credential, Portable, PrivateKey, PublicKey};
use fastrand::Rng;
use overlay_node::{
    Admission, Beacons, Config, Connection, Destination, Event, InterfaceId, Limits, LinkAddress,
    Node, Time, Timing, Verdict, HEAD_ROOM, TAIL_ROOM, TRANSMIT_ROOM,
};
use rand_core::{CryptoRng, RngCore};

pub const SECOND: Duration = Duration::from_secs(1);
pub const MILLISECOND: Duration = Duration::from_millis(1);
const PASSWORD: &[u8] = b"as everybody in the test knows";
/// Octets of an IPv6 header. The number of a test packet follows it.
const HEADER: usize = 40;
/// The next header for experiments (RFC 3692).
const EXPERIMENT: u8 = 253;

/// Reproducible randomness from a seed.
pub struct Random(pub Rng);

impl RngCore for Random {
    fn next_u32(&mut self) -> u32 {
        self.0.u32(..)
    }

    fn next_u64(&mut self) -> u64 {
        self.0.u64(..)
    }

    fn fill_bytes(&mut self, octets: &mut [u8]) {
        self.0.fill(octets);
    }
}

impl CryptoRng for Random {}

/// The usual properties of links and nodes.
#[derive(Clone)]
pub struct Habits {
    pub latency: Duration,
    /// One of this number of datagrams is lost; 0 for none.
    pub loss: u32,
    pub beacons: Beacons,
    pub noise: bool,
    pub limits: Limits,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            latency: MILLISECOND * 2,
            loss: 0,
            beacons: Beacons::Off,
            noise: false,
            limits: Limits::default(),
        }
    }
}

pub struct Station {
    pub node: Node,
    pub alive: bool,
    pub interface: InterfaceId,
    pub link_address: LinkAddress,
    /// The second interface and its address, if there is one.
    pub second: Option<(InterfaceId, LinkAddress)>,
    octets: [u8; 32],
    /// The stations to which it connects.
    connects: Vec<usize>,
    /// The packets that arrived: time, sender, number.
    pub received: Vec<(Time, Address, u64)>,
    pub events: Vec<(Time, Event)>,
}

/// When a datagram arrives, its order, its destination, its source, and its octets.
type Arrival = (Time, u64, LinkAddress, LinkAddress, Vec<u8>);

pub struct Mesh {
    pub stations: Vec<Station>,
    pub now: Time,
    pub random: Random,
    pub habits: Habits,
    /// The pairs that hear each other.
    links: BTreeMap<(usize, usize), ()>,
    addresses: BTreeMap<LinkAddress, usize>,
    /// The last beacon that each station sent.
    pub beacons: BTreeMap<usize, Vec<u8>>,
    /// What is sent to these addresses or by them is lost.
    pub silent: Vec<LinkAddress>,
    queue: BinaryHeap<Reverse<Arrival>>,
    sequence: u64,
    next_address: u16,
    pub datagrams: u64,
    /// Datagrams that were sent, while they are recorded.
    pub tapped: Option<Vec<Vec<u8>>>,
}

/// Returns the octets of a private key whose address is a node's.
pub fn key_octets(random: &mut Random) -> [u8; 32] {
    loop {
        let mut octets = [0; 32];
        random.fill_bytes(&mut octets);
        if PrivateKey::from_octets(octets)
            .public()
            .node_address()
            .is_ok()
        {
            return octets;
        }
    }
}

/// Returns an IPv6 packet with a number.
pub fn packet(from: Address, to: Address, number: u64) -> Vec<u8> {
    let payload = number.to_be_bytes();
    let mut packet = vec![0; HEADER];
    packet[0] = 6 << 4;
    packet[5] = payload.len() as u8;
    packet[6] = EXPERIMENT;
    packet[7] = 64;
    packet[8..24].copy_from_slice(from.octets());
    packet[24..40].copy_from_slice(to.octets());
    packet.extend(payload);
    packet
}

/// Returns a buffer with space around some octets, and where they are.
pub fn spacious(octets: &[u8]) -> (Vec<u8>, std::ops::Range<usize>) {
    let mut buffer = vec![0; HEAD_ROOM + octets.len() + TAIL_ROOM];
    let range = HEAD_ROOM..HEAD_ROOM + octets.len();
    buffer[range.clone()].copy_from_slice(octets);
    (buffer, range)
}

pub fn udp(number: u16) -> LinkAddress {
    let [high, low] = number.to_be_bytes();
    LinkAddress::Udp(SocketAddr::from((Ipv4Addr::new(10, 0, high, low), 1000)))
}

impl Station {
    fn address_at(&self, by: InterfaceId) -> LinkAddress {
        let second = self.second.filter(|(interface, _)| *interface == by);
        second.map_or(self.link_address, |(_, address)| address)
    }
}

impl Mesh {
    pub fn new(count: usize, seed: u64, habits: Habits) -> Self {
        let mut mesh = Self {
            stations: Vec::new(),
            now: Time::ZERO,
            random: Random(Rng::with_seed(seed)),
            habits,
            links: BTreeMap::new(),
            addresses: BTreeMap::new(),
            beacons: BTreeMap::new(),
            silent: Vec::new(),
            queue: BinaryHeap::new(),
            sequence: 0,
            next_address: 0,
            datagrams: 0,
            tapped: None,
        };
        for number in 0..count {
            let octets = key_octets(&mut mesh.random);
            let station = mesh.begin(octets);
            mesh.addresses.insert(station.link_address, number);
            mesh.stations.push(station);
        }
        mesh
    }

    pub fn line(count: usize, seed: u64, habits: Habits) -> Self {
        let mut mesh = Self::new(count, seed, habits);
        (1..count).for_each(|node| mesh.link(node - 1, node));
        mesh
    }

    pub fn ring(count: usize, seed: u64, habits: Habits) -> Self {
        let mut mesh = Self::line(count, seed, habits);
        mesh.link(count - 1, 0);
        mesh
    }

    pub fn star(count: usize, seed: u64, habits: Habits) -> Self {
        let mut mesh = Self::new(count, seed, habits);
        (1..count).for_each(|node| mesh.link(node, 0));
        mesh
    }

    fn begin(&mut self, octets: [u8; 32]) -> Station {
        let config = Config {
            key: PrivateKey::from_octets(octets),
            ciphers: &Portable,
            unix_at_zero: Duration::from_secs(1_700_000_000),
            noise: self.habits.noise,
            admission: Admission::Anybody,
            limits: self.habits.limits,
            timing: Timing::default(),
        };
        let mut node = Node::new(config, self.now, &mut self.random).unwrap();
        node.add_user(Some(b"everybody"), PASSWORD, None).unwrap();
        let interface = node.add_interface(self.now, &mut self.random, self.habits.beacons);
        let link_address = udp(self.next_address);
        self.next_address += 1;
        Station {
            node,
            alive: true,
            interface,
            link_address,
            second: None,
            octets,
            connects: Vec::new(),
            received: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Lets two nodes hear each other, and the first connect to the second.
    pub fn link(&mut self, one: usize, other: usize) {
        self.hear(one, other);
        self.stations[one].connects.push(other);
        self.connect(one, other);
    }

    /// Lets two nodes hear each other.
    pub fn hear(&mut self, one: usize, other: usize) {
        self.links.insert((one.min(other), one.max(other)), ());
    }

    pub fn unhear(&mut self, one: usize, other: usize) {
        self.links.remove(&(one.min(other), one.max(other)));
    }

    pub fn hears(&self, one: usize, other: usize) -> bool {
        self.links.contains_key(&(one.min(other), one.max(other)))
    }

    pub fn connect(&mut self, one: usize, other: usize) {
        let (by, to) = (
            self.stations[one].interface,
            self.stations[other].link_address,
        );
        self.connect_by(one, other, by, to);
    }

    /// Adds a second interface to a node, if it has none.
    pub fn add_second(&mut self, station: usize, beacons: Beacons) {
        if self.stations[station].second.is_none() {
            let (now, address) = (self.now, udp(self.next_address));
            self.next_address += 1;
            let node = &mut self.stations[station].node;
            let interface = node.add_interface(now, &mut self.random, beacons);
            self.stations[station].second = Some((interface, address));
            self.addresses.insert(address, station);
            self.flush(station);
        }
    }

    /// Adds a second interface to two nodes, and connects the first to the second over them.
    pub fn connect_second(&mut self, one: usize, other: usize) {
        for station in [one, other] {
            self.add_second(station, Beacons::Off);
        }
        let [by, to] = [one, other].map(|station| self.stations[station].second.unwrap());
        self.connect_by(one, other, by.0, to.1);
    }

    fn connect_by(&mut self, one: usize, other: usize, interface: InterfaceId, to: LinkAddress) {
        let connection = Connection {
            interface,
            to,
            key: self.key(other),
            credential: Some(Credential::login(b"everybody", PASSWORD)),
        };
        let now = self.now;
        self.stations[one].node.connect(now, connection).unwrap();
        self.flush(one);
    }

    pub fn key(&self, station: usize) -> PublicKey {
        *self.stations[station].node.key()
    }

    pub fn address(&self, station: usize) -> Address {
        self.stations[station].node.address()
    }

    /// Restarts a node with the same key and address.
    pub fn restart(&mut self, station: usize) {
        let old = &mut self.stations[station];
        let (octets, link_address) = (old.octets, old.link_address);
        let (connects, received) = (old.connects.clone(), std::mem::take(&mut old.received));
        let fresh = self.begin(octets);
        self.stations[station] = Station {
            link_address,
            connects: connects.clone(),
            received,
            ..fresh
        };
        connects
            .into_iter()
            .for_each(|other| self.connect(station, other));
        self.flush(station);
    }

    /// Changes the address of a node.
    pub fn relocate(&mut self, station: usize) {
        let address = udp(self.next_address);
        self.next_address += 1;
        self.addresses.remove(&self.stations[station].link_address);
        self.addresses.insert(address, station);
        self.stations[station].link_address = address;
    }

    pub fn alive(&self) -> Vec<usize> {
        let all = 0..self.stations.len();
        all.filter(|&station| self.stations[station].alive)
            .collect()
    }

    /// Sends a packet with a number.
    pub fn send(&mut self, from: usize, to: usize, number: u64) {
        let packet = packet(self.address(from), self.address(to), number);
        let (mut buffer, range) = spacious(&packet);
        let (now, random) = (self.now, &mut self.random);
        let node = &mut self.stations[from].node;
        let verdict = node.send_packet(now, random, &mut buffer, range);
        self.carry_out(from, verdict, &buffer);
        self.flush(from);
    }

    /// Runs the mesh for this time.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.step(end) {}
        self.now = end;
    }

    /// Runs the mesh until a condition holds. Returns `false` if the time is over before.
    pub fn run_until(&mut self, limit: Duration, mut is_so: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            if is_so(self) {
                return true;
            }
            if !self.step(end) {
                self.now = end;
                return false;
            }
        }
    }

    /// Processes the next event before `end`. Returns `false` if there is none.
    fn step(&mut self, end: Time) -> bool {
        let arrival = self.queue.peek().map(|Reverse((at, ..))| *at);
        let timers = self.alive().into_iter();
        let timer = timers
            .map(|station| (self.stations[station].node.poll_timeout(), station))
            .min();
        let at = [arrival, timer.map(|(at, _)| at)]
            .into_iter()
            .flatten()
            .min();
        let Some(at) = at.filter(|at| *at <= end) else {
            return false;
        };
        self.now = self.now.max(at);
        if arrival == Some(at) {
            let Some(Reverse((_, _, to, from, octets))) = self.queue.pop() else {
                return false;
            };
            self.arrive(to, from, &octets);
        } else if let Some((_, station)) = timer {
            let now = self.now;
            let node = &mut self.stations[station].node;
            node.handle_timeout(now);
            assert!(node.poll_timeout() > now, "what is due stays due");
            self.flush(station);
        }
        true
    }

    fn arrive(&mut self, to: LinkAddress, from: LinkAddress, octets: &[u8]) {
        let Some(&station) = self.addresses.get(&to) else {
            return;
        };
        let second = self.stations[station]
            .second
            .filter(|(_, address)| *address == to);
        let by = second.map_or(self.stations[station].interface, |(interface, _)| interface);
        if self.stations[station].alive {
            self.receive_by(station, by, from, octets);
        }
    }

    /// Delivers a datagram to a node, from any address.
    pub fn receive(&mut self, station: usize, from: LinkAddress, octets: &[u8]) {
        let by = self.stations[station].interface;
        self.receive_by(station, by, from, octets);
    }

    fn receive_by(&mut self, station: usize, by: InterfaceId, from: LinkAddress, octets: &[u8]) {
        let (mut buffer, range) = spacious(octets);
        let now = self.now;
        let node = &mut self.stations[station].node;
        let verdict = node.receive(now, &mut self.random, by, &from, &mut buffer, range);
        self.carry_out(station, verdict, &buffer);
        self.flush(station);
    }

    fn carry_out(&mut self, station: usize, verdict: Verdict, buffer: &[u8]) {
        match verdict {
            Verdict::Nothing => {}
            Verdict::Transmit {
                interface,
                to,
                frame,
            } => self.transmit(station, interface, to, &buffer[frame]),
            Verdict::Deliver { packet } => {
                let packet = &buffer[packet];
                assert_eq!(packet[24..40], *self.address(station).octets());
                let from = Address::from_octets(packet[8..24].try_into().unwrap());
                let number = u64::from_be_bytes(packet[40..48].try_into().unwrap());
                let now = self.now;
                self.stations[station].received.push((now, from, number));
            }
        }
    }

    pub fn flush(&mut self, station: usize) {
        let mut out = vec![0; TRANSMIT_ROOM];
        let now = self.now;
        loop {
            let node = &mut self.stations[station].node;
            let Some(said) = node.poll_transmit(now, &mut self.random, &mut out) else {
                break;
            };
            let octets = out[said.frame].to_vec();
            match said.to {
                Destination::Unicast(to) => self.transmit(station, said.interface, to, &octets),
                Destination::Broadcast => self.broadcast(station, said.interface, &octets),
            }
        }
        while let Some(event) = self.stations[station].node.poll_event() {
            self.stations[station].events.push((now, event));
        }
    }

    fn transmit(&mut self, station: usize, by: InterfaceId, to: LinkAddress, octets: &[u8]) {
        self.datagrams += 1;
        if let Some(tapped) = &mut self.tapped {
            tapped.push(octets.to_vec());
        }
        let Some(&receiver) = self.addresses.get(&to) else {
            return;
        };
        let loss = self.habits.loss;
        let is_lost = loss > 0 && self.random.0.u32(..loss) == 0;
        if is_lost || !self.hears(station, receiver) || !self.stations[station].alive {
            return;
        }
        let from = self.stations[station].address_at(by);
        if self.silent.contains(&from) || self.silent.contains(&to) {
            return;
        }
        let at = self.now + self.habits.latency;
        self.queue
            .push(Reverse((at, self.sequence, to, from, octets.to_vec())));
        self.sequence += 1;
    }

    /// Delivers beacons at once. They are lost only if other datagrams are.
    fn broadcast(&mut self, station: usize, by: InterfaceId, octets: &[u8]) {
        let from = self.stations[station].address_at(by);
        self.beacons.insert(station, octets.to_vec());
        let (now, is_second) = (self.now, by != self.stations[station].interface);
        for other in self.alive() {
            let loss = self.habits.loss;
            let is_lost = loss > 0 && self.random.0.u32(..loss) == 0;
            let hears = self.hears(station, other) && !is_lost && other != station;
            let receiver = &mut self.stations[other];
            let end = match is_second {
                true => receiver.second,
                false => Some((receiver.interface, receiver.link_address)),
            };
            let is_silent = |address| self.silent.contains(address);
            if let Some((interface, to)) = end.filter(|_| hears && !is_silent(&from)) {
                if !is_silent(&to) {
                    receiver.node.receive_beacon(now, interface, &from, octets);
                }
            }
        }
    }

    /// Returns whether a packet with this number arrived.
    pub fn has_come(&self, from: usize, to: usize, number: u64) -> bool {
        let address = self.address(from);
        let mut received = self.stations[to].received.iter();
        received.any(|(_, source, found)| (*source, *found) == (address, number))
    }

    /// Sends packets between all pairs repeatedly, until one has arrived for each pair. Returns the pairs without one
    /// in time.
    pub fn pairs_without_data(
        &mut self,
        pairs: &[(usize, usize)],
        limit: Duration,
    ) -> Vec<(usize, usize)> {
        let end = self.now + limit;
        let mark = self.random.0.u64(..);
        let mut open = pairs.to_vec();
        while !open.is_empty() && self.now < end {
            for (from, to) in open.clone() {
                self.send(from, to, mark);
            }
            self.run(MILLISECOND * 100);
            open.retain(|(from, to)| !self.has_come(*from, *to, mark));
        }
        open
    }

    pub fn all_pairs(&self) -> Vec<(usize, usize)> {
        let alive = self.alive();
        let pairs = alive
            .iter()
            .flat_map(|&from| alive.iter().map(move |&to| (from, to)));
        pairs.filter(|(from, to)| from != to).collect()
    }

    /// Returns the longest time without a packet. One is sent every 20 ms for `duration`, and `fault` happens at the
    /// start. The time after the last arrival counts.
    pub fn outage(
        &mut self,
        (from, to): (usize, usize),
        duration: Duration,
        fault: impl FnOnce(&mut Self),
    ) -> Duration {
        const INTERVAL: Duration = Duration::from_millis(20);
        let begin = self.now;
        self.stations[to].received.clear();
        fault(self);
        let mut number = 0;
        while self.now < begin + duration {
            self.send(from, to, number);
            number += 1;
            self.run(INTERVAL);
        }
        let times = self.stations[to].received.iter().map(|(at, ..)| *at);
        let times: Vec<_> = [begin].into_iter().chain(times).chain([self.now]).collect();
        times
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or(duration)
    }
}
