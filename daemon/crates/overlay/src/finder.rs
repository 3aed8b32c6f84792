//! Finds paths to nodes and keeps them working.
//!
//! # Theory of operation
//!
//! [`Finder::want`] declares that this node wants to send to a node. If no path to it is proved, a search starts. It
//! asks the known nodes, nearest to the target first, which nodes they know near it (`fn`). The nodes in the answers
//! join the store, with their labels appended to those of the answering nodes. When nobody is left to ask, the search
//! asks the same nodes for their neighbours (`gp`), so that within its number of queries it finds every connected node.
//! As soon as an answer names the target, the search pings it (`pn`) over that path, and the target's answer proves the
//! path. The search then sends some more queries, to find alternative paths, and does so again from time to time while
//! the node is reached through others: a link may have come that shortens the path.
//!
//! While a node is wanted, its best path is probed every [`PROBE_INTERVAL`], and another path from time to time. A path
//! on which an answer is missed ranks behind the others at once, and is probed again. A second miss removes it. Anybody
//! can forge a switch's ERROR, so an ERROR only causes a probe; ERRORs for that probe then count as misses. Information
//! from the link layer about a neighbour is trusted.
//!
//! Queries of other nodes are answered from the store, without state.

mod answers;
mod event;
mod queries;
mod search;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use cryptoauth::{Address, PublicKey};
use fastrand::Rng;
use switch::{is_compatible, Label};

pub use self::event::{Counters, Dropped, Event, Reply, Transmit};
use self::queries::Pending;
use self::search::{Wanted, PAUSE};
use crate::message::{Body, Contact, Message, Query};
use crate::store::{Limits, Store};
use crate::Time;

/// Interval at which the best path to a wanted node is probed.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// How long a node stays wanted after the last [`Finder::want`]. cjdns ends a session after 120 s without traffic.
pub const WANTED_FOR: Duration = Duration::from_secs(120);

/// Largest number of nodes wanted at a time.
const MAX_WANTED: usize = 1024;

/// Interval at which old nodes and paths are removed.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(30);

/// Finds paths for one node.
#[derive(Debug)]
pub struct Finder {
    own: PublicKey,
    own_address: Address,
    store: Store,
    peers: BTreeMap<Label, Contact>,
    wanted: BTreeMap<Address, Wanted>,
    pending: BTreeMap<u64, Pending>,
    timers: BTreeSet<(Time, u64)>,
    /// Wanted nodes that changed since they were last processed.
    touched: BTreeSet<Address>,
    expire_at: Time,
    random: Rng,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    counters: Counters,
}

impl Finder {
    /// Returns a finder for the node with this public key. The seed must be unpredictable: whoever knows it can guess
    /// transaction identifiers, and so forge answers.
    #[must_use]
    pub fn new(own: PublicKey, limits: Limits, now: Time, seed: u64) -> Self {
        let own_address = own.address();
        Self {
            own,
            own_address,
            store: Store::new(own_address, limits),
            peers: BTreeMap::new(),
            wanted: BTreeMap::new(),
            pending: BTreeMap::new(),
            timers: BTreeSet::new(),
            touched: BTreeSet::new(),
            expire_at: now + EXPIRE_INTERVAL,
            random: Rng::with_seed(seed),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Adds a neighbour that the link layer has found. Its label has one hop.
    pub fn peer_up(&mut self, now: Time, peer: Contact) {
        if let Some(address) = self.store.learn(now, peer) {
            self.store.prove(now, address, peer.path, Duration::ZERO);
            self.peers.insert(peer.path, peer);
            self.ask(now, address, peer.path, Query::Peers(Label::SELF), None);
            // Nodes that were not found may be reachable through it.
            for wanted in self.wanted.values_mut() {
                (wanted.search_at, wanted.pause) = (now, PAUSE);
            }
            self.touched.extend(self.wanted.keys());
            self.settle(now);
        }
    }

    /// Removes a neighbour that the link layer has lost, and all paths that start there.
    pub fn peer_down(&mut self, now: Time, label: Label) {
        self.peers.remove(&label);
        self.store.cut(label);
        self.touched.extend(self.wanted.keys());
        self.settle(now);
    }

    /// Handles a DHT message from the inner session with `from.key`. The path back is `from.path`.
    ///
    /// # Errors
    ///
    /// [`Dropped`].
    pub fn handle_message(
        &mut self,
        now: Time,
        from: Contact,
        payload: &[u8],
    ) -> Result<(), Dropped> {
        let message = Message::decode(payload).map_err(|error| {
            self.counters.malformed += 1;
            Dropped::Malformed(error)
        })?;
        if !is_compatible(message.version) {
            self.counters.incompatible += 1;
            return Err(Dropped::Incompatible(message.version));
        }
        let from = Contact {
            version: message.version,
            ..from
        };
        let Some(address) = self.store.learn(now, from) else {
            self.counters.useless += 1;
            return Err(Dropped::Useless);
        };
        self.touch(address);
        let taken = match message.body {
            Body::Query(query) => {
                self.answer(from, message.txid, query);
                true
            }
            Body::Reply(contacts) => {
                self.take_answer(now, from, message.txid, message.scheme, &contacts)
            }
        };
        self.settle(now);
        taken.then_some(()).ok_or(Dropped::Unexpected)
    }

    /// Handles an ERROR: a switch could not forward a frame sent over `label`, the reversed label of the ERROR.
    ///
    /// The path is probed. An ERROR during the probe counts as a missed answer.
    pub fn handle_error(&mut self, now: Time, label: Label) {
        let uses = |address: &&Address| {
            self.store
                .get(**address)
                .is_some_and(|node| node.way(label).is_some())
        };
        let affected: Vec<_> = self.wanted.keys().filter(uses).copied().collect();
        for address in affected {
            let by_it = |pending: &Pending| (pending.address, pending.label) == (address, label);
            let asked = self
                .pending
                .iter()
                .find(|(_, pending)| by_it(pending))
                .map(|(txid, _)| *txid);
            match asked {
                Some(txid) => self.miss(now, txid),
                None => {
                    self.ask(now, address, label, Query::Ping, None);
                }
            }
        }
        self.settle(now);
    }

    /// Declares that this node sends, or wants to send, to `target`. Call it again as long as this holds.
    pub fn want(&mut self, now: Time, target: Address) {
        if target == self.own_address || target.octets()[0] != 0xfc {
            return;
        }
        if self.wanted.len() >= MAX_WANTED && !self.wanted.contains_key(&target) {
            self.counters.overflow += 1;
            return;
        }
        let fresh = || Wanted {
            until: now,
            probe_at: now + PROBE_INTERVAL,
            probes: 0,
            search: None,
            search_at: now,
            pause: PAUSE,
            review_at: now,
            reported: None,
        };
        let is_new = !self.wanted.contains_key(&target);
        self.wanted.entry(target).or_insert_with(fresh).until = now + WANTED_FOR;
        if is_new {
            self.touch(target);
            self.settle(now);
        }
    }

    /// Probes the best path to a node at once, unless a probe is in progress. For a node that this node sends to, and
    /// from which nothing arrives any more.
    pub fn suspect(&mut self, now: Time, target: Address) {
        let Some(way) = self.way(target) else {
            return;
        };
        if !self.is_asked(target, way.path) {
            self.ask(now, target, way.path, Query::Ping, None);
        }
    }

    /// Pings a node over the path on which a frame from it arrived, unless a ping is in progress. The node waits for a
    /// message, and its answer proves the path.
    pub fn ask_back(&mut self, now: Time, from: Contact) {
        let address = self.store.learn(now, from);
        if let Some(address) = address.filter(|address| !self.is_asked(*address, from.path)) {
            self.ask(now, address, from.path, Query::Ping, None);
        }
    }

    /// Pings a known node over `label` or the best path. Returns the number with which an event reports the result, or
    /// `None` if the node is unknown or too many queries wait.
    pub fn ping(&mut self, now: Time, target: Address, label: Option<Label>) -> Option<u64> {
        let best = self.store.get(target)?.ways()[0].label;
        let txid = self.ask(now, target, label.unwrap_or(best), Query::Ping, None)?;
        self.pending.get_mut(&txid)?.awaited = true;
        Some(txid)
    }

    /// Sends a query to a node over `to.path`. Returns the number with which an event reports the result, or `None` if
    /// the path is unusable or too many queries wait.
    pub fn query(&mut self, now: Time, to: Contact, query: Query) -> Option<u64> {
        let address = self.store.learn(now, to)?;
        let txid = self.ask(now, address, to.path, query, None)?;
        let pending = self.pending.get_mut(&txid)?;
        (pending.awaited, pending.replied) = (true, true);
        Some(txid)
    }

    /// Returns the best proved path to a node.
    #[must_use]
    pub fn way(&self, target: Address) -> Option<Contact> {
        self.store.get(target)?.proved()
    }

    /// Returns the known nodes.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the counters of what was dropped.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// Returns the next change.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Finder::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let answers = self.timers.first().map(|(due, _)| *due);
        let wanted = self.wanted.values().map(Wanted::due).min();
        [answers, wanted, Some(self.expire_at)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Runs the due timers.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((_, txid)) = self.timers.first().copied().filter(|(due, _)| *due <= now) {
            self.miss(now, txid);
        }
        if self.expire_at <= now {
            self.expire(now);
        }
        self.wanted.retain(|_, wanted| wanted.until > now);
        let due =
            |(address, wanted): (&Address, &Wanted)| (wanted.due() <= now).then_some(*address);
        self.touched.extend(self.wanted.iter().filter_map(due));
        for address in self.touched.clone() {
            self.probe(now, address);
        }
        self.settle(now);
    }

    /// Removes old nodes and paths. The link layer decides about neighbours.
    fn expire(&mut self, now: Time) {
        self.expire_at = now + EXPIRE_INTERVAL;
        for peer in self.peers.values() {
            self.store.learn(now, *peer);
        }
        self.store.expire(now);
        self.touched.extend(self.wanted.keys());
    }
}
