//! The node: what a caller sees of it, and its management.

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

/// Things that wait for the caller at most, of each kind.
const MAX_QUEUE: usize = 1024;
/// Pings that were asked for and wait for their answers at most.
const MAX_PINGS: usize = 256;
/// The digits of a beacon's password.
const DIGITS: &[u8; 32] = b"0123456789bcdfghjklmnpqrstuvwxyz";

/// What is to be done with a part of the caller's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Nothing.
    Nothing,
    /// To be sent to a neighbour.
    Transmit {
        /// By which interface.
        interface: InterfaceId,
        /// To which address there.
        to: LinkAddress,
        /// Where in the buffer the frame is.
        frame: Range<usize>,
    },
    /// To be given to this machine.
    Deliver {
        /// Where in the buffer the IPv6 packet is.
        packet: Range<usize>,
    },
}

/// Something that the node says by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// By which interface.
    pub interface: InterfaceId,
    /// To whom.
    pub to: Destination,
    /// Where in the buffer it is.
    pub frame: Range<usize>,
}

/// A neighbour that is configured.
#[derive(Clone)]
pub struct Connection {
    /// By which interface.
    pub interface: InterfaceId,
    /// Its address there.
    pub to: LinkAddress,
    /// Its key.
    pub key: PublicKey,
    /// What it wants to be shown.
    pub credential: Option<Credential>,
}

/// Why a neighbour cannot be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectError {
    /// There is no such interface.
    Interface,
    /// It is this node's own key, or no node's.
    Key,
    /// Another neighbour is configured with this address.
    Address,
    /// There is no room for one more neighbour.
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
    /// What interfaces have to do with beacons, and when the next one is sent; `None` when an interface was removed.
    interfaces: Vec<Option<Schedule>>,
    /// Our own; made with the first interface that sends it.
    beacon: Option<Beacon>,
    peers: Peers,
    /// The interfaces of the switch behind which somebody is.
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
    /// For what need not be secret for long.
    random: Rng,
    /// When there is something to do at the latest, without the finder.
    wake: Time,
    sweep_at: Time,
}

/// What others can cause, by rate.
struct Rates {
    /// Handshakes of strangers, of each interface: a flood on one keeps nobody out who comes by another.
    gates: Vec<Gate>,
    /// Of those that have proved their address: who forges his keeps them not out.
    proved: Gate,
    inner_handshakes: Limiter,
    dht_messages: Limiter,
    control_answers: Limiter,
    errors: Limiter,
}

/// A ping that was asked for.
#[derive(Clone, Copy)]
struct Ping {
    id: PingId,
    /// By which label a switch was asked; a node's answer is named by the finder.
    label: Option<Label>,
    sent: Time,
    until: Time,
}

impl Node {
    /// A node without interfaces and neighbours.
    ///
    /// # Errors
    ///
    /// [`KeyError::Address`], when the key's address is not a node's.
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

    /// This node's public key.
    #[must_use]
    pub fn key(&self) -> &PublicKey {
        self.local.public()
    }

    /// This node's address.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }

    /// The next change.
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

    /// There is something to do at that time.
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

    /// Removes an interface, and all neighbours that are reached by it.
    pub fn remove_interface(&mut self, now: Time, interface: InterfaceId) {
        if let Some(slot) = self.interfaces.get_mut(usize::from(interface.0)) {
            *slot = None;
        }
        self.remove_peers(now, |peer| peer.endpoint.interface == interface);
    }

    /// Changes what an interface has to do with beacons; `false` when there is no such interface. The first beacon is
    /// sent at once, the next ones soon after it.
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

    /// Lets everybody become a neighbour who knows `password`, with `only` if his key has that address.
    ///
    /// # Errors
    ///
    /// [`DuplicateUser`], when another user has the login or the password.
    pub fn add_user(
        &mut self,
        login: Option<&[u8]>,
        password: &[u8],
        only: Option<Address>,
    ) -> Result<UserId, DuplicateUser> {
        self.local.users.add(login, password, only)
    }

    /// Lets a user in no more, and parts from who came in as him; says whether there was one.
    pub fn remove_user(&mut self, now: Time, user: UserId) -> bool {
        self.remove_peers(now, |peer| peer.is_incoming() && peer.user == Some(user));
        self.local.users.remove(user)
    }

    /// Makes a node a neighbour, whether it can be reached now or not.
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
            // Where it is configured, it is looked for when it is gone from where it is now.
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

    /// Parts from a neighbour, whoever began; says whether there was one. It can come again if it knows a password.
    pub fn disconnect(&mut self, now: Time, key: &PublicKey) -> bool {
        self.remove_peers(now, |peer| peer.key == *key)
    }

    /// Exchanges user data with others from now on. Packets of those that are not permitted any more are dropped at once.
    pub fn admit(&mut self, admission: Admission) {
        self.admission = admission;
        self.waiting
            .retain(|address, _| self.admission.permits(*address));
        self.kept.hasten();
        self.wake_at(Time::ZERO);
    }

    /// With whom user data is exchanged.
    #[must_use]
    pub const fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Asks whatever switch a label leads to, this node's own at [`Label::SELF`]. `None` when too many pings wait for
    /// answers. It ends in an [`Event::Pinged`].
    pub fn ping_switch(&mut self, now: Time, label: Label, question: Question) -> Option<PingId> {
        let token = self.random.u64(..);
        let id = self.add_ping(now, token, Some(label))?;
        self.say_switch_ping(label, token, question);
        Some(id)
    }

    /// Asks a node of which a way is known, in its inner session, by `label` or the best way. `None` when nothing is known of
    /// it, or too many pings wait. It ends in an [`Event::Pinged`].
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

    /// Asks a node for what it knows, in its inner session, by `to.path`. `None` when the way is of no use, or too many
    /// questions wait. It ends in an [`Event::Pinged`].
    pub fn ask_node(&mut self, now: Time, to: Contact, query: Query) -> Option<PingId> {
        if self.pings.len() >= MAX_PINGS {
            return None;
        }
        let token = self.finder.query(now, to, query)?;
        self.add_ping(now, token, None)
    }

    /// What this node itself answers to a query; labels begin here, the lowest or the nearest first.
    #[must_use]
    pub fn consult(&self, query: Query) -> Vec<Contact> {
        self.finder.consult(query)
    }

    /// The neighbours, in no order.
    pub fn peers(&self, now: Time) -> impl Iterator<Item = PeerView> + '_ {
        self.peers.iter().map(move |(_, peer)| peer.view(now))
    }

    /// The inner sessions, in the order of this node's handles.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> + '_ {
        self.sessions.iter().map(|state| SessionView {
            way: self.finder.way(state.address).map(|way| way.path),
            state,
        })
    }

    /// The nodes of which ways are known, and the ways.
    #[must_use]
    pub const fn store(&self) -> &Store {
        self.finder.store()
    }

    /// What was dropped, and what passed.
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

    /// Makes the password of our beacons, and lets in who knows it.
    fn make_beacon<R: CryptoRng + ?Sized>(&mut self, rng: &mut R) {
        if self.beacon.is_some() {
            return;
        }
        // 19 digits and a zero, as other nodes have it.
        let mut password = [0; PASSWORD];
        rng.fill_bytes(&mut password[..PASSWORD - 1]);
        for octet in &mut password[..PASSWORD - 1] {
            *octet = DIGITS[usize::from(*octet & 31)];
        }
        let key = *self.local.public();
        // Only a user of that name could be in the way; then nobody comes in by beacons.
        let _ = self.local.users.add(Some(LOGIN), &password, None);
        self.beacon = Some(Beacon {
            version: PROTOCOL_VERSION,
            key,
            password,
        });
    }

    /// Forgets those neighbours; says whether there were any.
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
