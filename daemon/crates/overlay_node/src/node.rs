//! The node as its caller sees it, and its management.

mod clock;
mod links;
mod originate;
mod packets;
mod pinned_sessions;
mod switching;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use cryptoauth::noise::Cookies;
use cryptoauth::{Address, Credential, DuplicateUser, KeyError, Local, PublicKey, Session, UserId};
use fastrand::Rng;
use overlay::{Contact, Finder, Query, SessionLimits, Sessions, Store};
use rand_core::CryptoRng;
use switch::{Interfaces, Label, PROTOCOL_VERSION};

use crate::beacon::{Beacon, LOGIN, PASSWORD};
use crate::config::{Admission, Config, Limits, Timing};
use crate::counters::{Cause, Counters};
use crate::event::{Event, PingId, PingResult, Question};
use crate::interface::{Beacons, Destination, InterfaceId, LinkAddress, Schedule};
use crate::limiter::{Gate, Limiter};
use crate::peer::{Endpoint, Origin, Peer};
use crate::peers::Peers;
use crate::view::{PeerView, SessionView};
use crate::Time;

use originate::Outgoing;
use packets::{Flow, Waiting};
use pinned_sessions::Kept;

/// Largest number of messages, and of events, that wait for the caller.
const MAX_QUEUE: usize = 1024;
/// Largest number of the caller's pings that wait for answers.
const MAX_PINGS: usize = 256;
/// The characters of a beacon's password.
const DIGITS: &[u8; 32] = b"0123456789bcdfghjklmnpqrstuvwxyz";

/// What the caller must do with a part of its buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Nothing.
    Nothing,
    /// Send the frame to a neighbour.
    Transmit {
        /// The interface on which to send.
        interface: InterfaceId,
        /// The address on that interface.
        to: LinkAddress,
        /// Where in the buffer the frame is.
        frame: Range<usize>,
    },
    /// Deliver the packet to this machine.
    Deliver {
        /// Where in the buffer the IPv6 packet is.
        packet: Range<usize>,
    },
}

/// A message of the node itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The interface on which to send.
    pub interface: InterfaceId,
    /// The receiver.
    pub to: Destination,
    /// Where in the buffer the frame is.
    pub frame: Range<usize>,
}

/// A configured neighbour.
#[derive(Clone)]
pub struct Connection {
    /// The interface on which it is reached.
    pub interface: InterfaceId,
    /// Its address on that interface.
    pub to: LinkAddress,
    /// Its public key.
    pub key: PublicKey,
    /// The credential to show to it.
    pub credential: Option<Credential>,
}

/// Why a neighbour cannot be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectError {
    /// There is no such interface.
    Interface,
    /// The key is this node's own, or its address is not in fc00::/8.
    Key,
    /// Another neighbour is configured with this address.
    Address,
    /// There is no space for another neighbour.
    Full,
}

/// A node of the overlay.
pub struct Node {
    local: Local,
    address: Address,
    unix_at_zero: Time,
    noise: bool,
    admission: Admission,
    limits: Limits,
    timing: Timing,
    /// When each interface sends its next beacon, or `None` for a removed interface.
    interfaces: Vec<Option<Schedule>>,
    /// This node's beacon, created with the first interface that sends it.
    beacon: Option<Beacon>,
    peers: Peers,
    /// The interfaces of the switch that have a neighbour.
    ports: Interfaces,
    sessions: Sessions,
    finder: Finder,
    flows: BTreeMap<Address, Flow>,
    waiting: BTreeMap<Address, Waiting>,
    kept: Kept,
    pings: BTreeMap<u64, Ping>,
    queue: VecDeque<Outgoing>,
    events: VecDeque<Event>,
    counters: Counters,
    rates: Rates,
    cookies: Cookies,
    /// Randomness for values that need not stay secret for long.
    random: Rng,
    /// When the next timer is due at the latest, except for the finder's.
    wake: Time,
    sweep_at: Time,
}

/// Rate limits of the work that others can cause.
struct Rates {
    /// Limits handshakes of strangers on each interface, so that a flood on one does not affect strangers on another.
    gates: Vec<Gate>,
    /// Limits handshakes of strangers that proved their address, so that forged addresses do not affect them.
    proved: Gate,
    inner_handshakes: Limiter,
    dht_messages: Limiter,
    control_answers: Limiter,
    errors: Limiter,
}

/// A ping of the caller.
#[derive(Clone, Copy)]
struct Ping {
    id: PingId,
    /// The label over which a switch was pinged. A node's answer is identified by the finder.
    label: Option<Label>,
    sent: Time,
    until: Time,
}

impl Node {
    /// Returns a node without interfaces and neighbours.
    ///
    /// # Errors
    ///
    /// [`KeyError::Address`] if the key's address is not in fc00::/8.
    pub fn new<R: CryptoRng + ?Sized>(
        config: Config,
        now: Time,
        rng: &mut R,
    ) -> Result<Self, KeyError> {
        let local = Local::with_ciphers(config.key, config.ciphers);
        let address = local.public().node_address()?;
        let mut random = Rng::with_seed(rng.next_u64());
        let limits = config.limits;
        let nodes = overlay::Limits {
            nodes: limits.nodes,
            ..overlay::Limits::default()
        };
        let sessions = SessionLimits {
            sessions: limits.sessions,
            unconfirmed: limits.unconfirmed_sessions,
        };
        Ok(Self {
            finder: Finder::new(*local.public(), nodes, now, rng.next_u64()),
            local,
            address,
            unix_at_zero: config.unix_at_zero,
            noise: config.noise,
            admission: config.admission,
            limits,
            timing: config.timing,
            interfaces: Vec::new(),
            beacon: None,
            peers: Peers::new(),
            ports: Interfaces::new(),
            sessions: Sessions::new(sessions),
            flows: BTreeMap::new(),
            waiting: BTreeMap::new(),
            kept: Kept::default(),
            pings: BTreeMap::new(),
            queue: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            rates: Rates::new(&mut random),
            cookies: Cookies::default(),
            random,
            wake: now,
            sweep_at: now,
        })
    }

    /// Returns this node's public key.
    #[must_use]
    pub fn key(&self) -> &PublicKey {
        self.local.public()
    }

    /// Returns this node's address.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }

    /// Returns the next change.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.tell_kept();
        self.events.pop_front()
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() >= MAX_QUEUE {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    fn say(&mut self, outgoing: Outgoing) {
        if self.queue.len() >= MAX_QUEUE {
            self.counters.drop(Cause::QueueFull);
            return;
        }
        self.queue.push_back(outgoing);
    }

    /// Makes sure that the timer is called at that time at the latest.
    fn wake_at(&mut self, at: Time) {
        self.wake = self.wake.min(at);
    }
}

/// Management.
impl Node {
    /// Adds an interface.
    pub fn add_interface<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        beacons: Beacons,
    ) -> InterfaceId {
        let number = self.interfaces.iter().position(Option::is_none);
        let number = number.unwrap_or(self.interfaces.len());
        if number == self.interfaces.len() {
            self.interfaces.push(None);
            self.rates.gates.push(Gate::new(&mut self.random));
        }
        self.interfaces[number] = Some(Schedule::new(Beacons::Off, now));
        let id = InterfaceId(number as u16);
        self.set_beacons(now, rng, id, beacons);
        id
    }

    /// Removes an interface, and all neighbours that are reached on it.
    pub fn remove_interface(&mut self, now: Time, interface: InterfaceId) {
        if let Some(slot) = self.interfaces.get_mut(usize::from(interface.0)) {
            *slot = None;
        }
        self.remove_peers(now, |peer| peer.endpoint.interface == interface);
    }

    /// Changes how an interface uses beacons. Returns `false` if there is no such interface. The first beacon is sent
    /// at once, the next ones soon after it.
    pub fn set_beacons<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        interface: InterfaceId,
        beacons: Beacons,
    ) -> bool {
        let slot = self.interfaces.get_mut(usize::from(interface.0));
        let Some(slot) = slot.and_then(Option::as_mut) else {
            return false;
        };
        *slot = Schedule::new(beacons, now);
        if beacons == Beacons::Send {
            self.make_beacon(rng);
            self.wake_at(now);
        }
        true
    }

    /// Admits everybody who knows `password` as a neighbour. With `only`, its key must also have that address.
    ///
    /// # Errors
    ///
    /// [`DuplicateUser`] if another user has the login or the password.
    pub fn add_user(
        &mut self,
        login: Option<&[u8]>,
        password: &[u8],
        only: Option<Address>,
    ) -> Result<UserId, DuplicateUser> {
        self.local.users.add(login, password, only)
    }

    /// Removes a user, and disconnects the neighbours that used it. Returns whether there was such a user.
    pub fn remove_user(&mut self, now: Time, user: UserId) -> bool {
        self.remove_peers(now, |peer| peer.is_incoming() && peer.user == Some(user));
        self.local.users.remove(user)
    }

    /// Configures a node as a neighbour, whether it can be reached now or not.
    ///
    /// # Errors
    ///
    /// Any [`ConnectError`].
    pub fn connect(&mut self, now: Time, connection: Connection) -> Result<(), ConnectError> {
        let Connection {
            interface,
            to,
            key,
            credential,
        } = connection;
        let endpoint = Endpoint {
            interface,
            address: to,
        };
        self.interfaces
            .get(usize::from(interface.0))
            .ok_or(ConnectError::Interface)?;
        let session = Session::new(&self.local, key, credential.clone(), false, now);
        let session = session.map_err(|_| ConnectError::Key)?;
        key.node_address().map_err(|_| ConnectError::Key)?;
        let origin = Origin::Configured(endpoint, credential);
        let same = self.peers.with_key(&key);
        if let Some(peer) = same
            .and_then(|number| self.peers.get_mut(number))
            .filter(|peer| peer.up)
        {
            // If it disappears from its present address, it is searched for at the configured one.
            peer.want(origin);
            return Ok(());
        }
        let there = self.peers.at(&endpoint);
        let there = there.and_then(|number| self.peers.get(number));
        if there.is_some_and(|peer| peer.key != key && (peer.is_configured() || peer.up)) {
            return Err(ConnectError::Address);
        }
        self.remove_peers(now, |peer| peer.key == key || peer.endpoint == endpoint);
        if !self.make_room() {
            return Err(ConnectError::Full);
        }
        self.peers.insert(Peer::new(session, endpoint, origin, now));
        self.wake_at(now);
        Ok(())
    }

    /// Disconnects a neighbour. Returns whether there was one. It can connect again if it knows a password.
    pub fn disconnect(&mut self, now: Time, key: &PublicKey) -> bool {
        self.remove_peers(now, |peer| peer.key == *key)
    }

    /// Changes with which nodes user data is exchanged. Waiting packets of other nodes are dropped at once.
    pub fn admit(&mut self, admission: Admission) {
        self.admission = admission;
        self.waiting
            .retain(|address, _| self.admission.permits(*address));
        self.kept.hasten();
        self.wake_at(Time::ZERO);
    }

    /// Returns with which nodes user data is exchanged.
    #[must_use]
    pub const fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Sends a query to the switch at the end of a label, or to this node's own for [`Label::SELF`]. [`Event::Pinged`]
    /// reports the result. Returns `None` if too many pings wait for answers.
    pub fn ping_switch(&mut self, now: Time, label: Label, question: Question) -> Option<PingId> {
        let token = self.random.u64(..);
        let id = self.add_ping(now, token, Some(label))?;
        self.say_switch_ping(label, token, question);
        Some(id)
    }

    /// Pings a node in its inner session, over `label` or the best path. [`Event::Pinged`] reports the result. Returns
    /// `None` if the node is unknown, or too many pings wait.
    pub fn ping_node(
        &mut self,
        now: Time,
        address: Address,
        label: Option<Label>,
    ) -> Option<PingId> {
        if self.pings.len() >= MAX_PINGS {
            return None;
        }
        let token = self.finder.ping(now, address, label)?;
        self.add_ping(now, token, None)
    }

    /// Sends a DHT query to a node in its inner session, over `to.path`. [`Event::Pinged`] reports the result. Returns
    /// `None` if the path is unusable, or too many queries wait.
    pub fn ask_node(&mut self, now: Time, to: Contact, query: Query) -> Option<PingId> {
        if self.pings.len() >= MAX_PINGS {
            return None;
        }
        let token = self.finder.query(now, to, query)?;
        self.add_ping(now, token, None)
    }

    /// Returns this node's own answer to a query. Labels start here; the lowest or the nearest node is first.
    #[must_use]
    pub fn consult(&self, query: Query) -> Vec<Contact> {
        self.finder.consult(query)
    }

    /// Returns the neighbours, in no particular order.
    pub fn peers(&self, now: Time) -> impl Iterator<Item = PeerView> + '_ {
        self.peers.iter().map(move |(_, peer)| peer.view(now))
    }

    /// Returns the inner sessions, ordered by this node's handles.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> + '_ {
        self.sessions.iter().map(|state| SessionView {
            way: self.finder.way(state.address).map(|way| way.path),
            state,
        })
    }

    /// Returns the nodes to which paths are known, and the paths.
    #[must_use]
    pub const fn store(&self) -> &Store {
        self.finder.store()
    }

    /// Returns the numbers of dropped and passed frames and packets.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    fn add_ping(&mut self, now: Time, token: u64, label: Option<Label>) -> Option<PingId> {
        if self.pings.len() >= MAX_PINGS {
            return None;
        }
        let id = PingId(token);
        let until = now + clock::PING_PATIENCE;
        self.pings.insert(
            token,
            Ping {
                id,
                label,
                sent: now,
                until,
            },
        );
        self.wake_at(until);
        Some(id)
    }

    fn end_ping(&mut self, token: u64, result: PingResult) -> bool {
        let ended = self.pings.remove(&token);
        if let Some(ping) = ended {
            self.tell(Event::Pinged {
                id: ping.id,
                result,
            });
        }
        ended.is_some()
    }

    /// Creates the password of this node's beacons, and admits everybody who knows it.
    fn make_beacon<R: CryptoRng + ?Sized>(&mut self, rng: &mut R) {
        if self.beacon.is_some() {
            return;
        }
        // 19 characters and a zero, as in other nodes.
        let mut password = [0; PASSWORD];
        rng.fill_bytes(&mut password[..PASSWORD - 1]);
        for octet in &mut password[..PASSWORD - 1] {
            *octet = DIGITS[usize::from(*octet & 31)];
        }
        let key = *self.local.public();
        // This fails only if a user has that name. Then nobody can connect because of a beacon.
        let _ = self.local.users.add(Some(LOGIN), &password, None);
        self.beacon = Some(Beacon {
            version: PROTOCOL_VERSION,
            key,
            password,
        });
    }

    /// Removes the neighbours that satisfy `which`. Returns whether there were any.
    fn remove_peers(&mut self, now: Time, which: impl Fn(&Peer) -> bool) -> bool {
        let numbers: Vec<_> = self
            .peers
            .iter()
            .filter(|(_, peer)| which(peer))
            .map(|(number, _)| number)
            .collect();
        for number in &numbers {
            self.take_down(now, *number);
            self.peers.remove(*number);
        }
        !numbers.is_empty()
    }
}

impl Rates {
    fn new(random: &mut Rng) -> Self {
        Self {
            gates: Vec::new(),
            proved: Gate::new(random),
            inner_handshakes: Limiter::default(),
            dht_messages: Limiter::default(),
            control_answers: Limiter::default(),
            errors: Limiter::default(),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Interface => "there is no such interface",
            Self::Key => "the key is this node's own, or not a node's",
            Self::Address => "another neighbour has this address",
            Self::Full => "there is no room for one more neighbour",
        })
    }
}

impl core::error::Error for ConnectError {}
