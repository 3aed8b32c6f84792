//! The node: its parts, and what it returns to its caller.

mod beacons;
mod clock;
mod links;
mod management;
mod neighbours;
mod noise;
mod originate;
mod packets;
mod pings;
mod pinned_sessions;
mod switching;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use cryptoauth::noise::Cookies;
use cryptoauth::{Address, KeyError, Local, PublicKey};
use fastrand::Rng;
use overlay::{Finder, SessionLimits, Sessions};
use rand_core::CryptoRng;
use switch::Interfaces;

use crate::beacon::Beacon;
use crate::config::{Admission, Config, Limits, Timing};
use crate::counters::{Cause, Counters};
use crate::event::Event;
use crate::interface::{Destination, InterfaceId, LinkAddress, Schedule};
use crate::limiter::{Gate, Limiter};
use crate::peers::Peers;
use crate::Time;

pub use management::{ConnectError, Connection};
use originate::Outgoing;
use packets::{Flow, Waiting};
use pings::Ping;
use pinned_sessions::Kept;

/// Largest number of messages, and of events, that wait for the caller.
const MAX_QUEUE: usize = 1024;

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
        self.report_kept();
        self.events.pop_front()
    }

    fn report(&mut self, event: Event) {
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
