//! Finds paths to nodes and keeps them working.
//!
//! # Theory of operation
//!
//! [`Finder::want`] declares that this node wants to send to a node. If no path to it is proved, a search starts. It
//! asks the known nodes, nearest to the target first, which nodes they know near it (`fn`). The nodes in the answers
//! join the store, with their labels appended to those of the answering nodes. When nobody is left to ask, the search
//! asks the same nodes for their neighbours (`gp`), so that within its number of queries it finds every connected node.
//! As soon as an answer names the target, the search pings it (`pn`) over that path, and the target's answer proves the
//! path. The search then sends some more queries, to find alternative paths.
//!
//! While a node is wanted, its best path is probed every [`PROBE_INTERVAL`], and another path from time to time. A path
//! on which an answer is missed ranks behind the others at once, and is probed again. A second miss removes it. Anybody
//! can forge a switch's ERROR, so an ERROR only causes a probe; ERRORs for that probe then count as misses. Information
//! from the link layer about a neighbour is trusted.
//!
//! Queries of other nodes are answered from the store, without state.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use cryptoauth::{Address, PublicKey};
use fastrand::Rng;
use switch::{is_compatible, label_for, Form, Label, Scheme, PROTOCOL_VERSION};

use crate::message::{Body, Contact, Message, MessageError, Query, Txid, NODES_PER_REPLY};
use crate::store::{distance, Limits, Store};
use crate::Time;

/// Interval at which the best path to a wanted node is probed.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// How long a node stays wanted after the last [`Finder::want`]. cjdns ends a session after 120 s without traffic.
pub const WANTED_FOR: Duration = Duration::from_secs(120);

/// Shortest time to wait for an answer, enough for a few hops of a busy radio.
const PATIENCE: Duration = Duration::from_millis(500);

/// Longest time to wait for an answer.
const LONGEST_PATIENCE: Duration = Duration::from_secs(4);

/// Number of consecutive answers that may be missed on a path before it is removed.
const MISSES: u8 = 2;

/// Number of queries of one search that wait for an answer at a time.
const PARALLEL: usize = 3;

/// Number of queries that a search sends before it gives up.
const QUESTIONS: usize = 96;

/// Number of queries that a search still sends for alternative paths after one is proved.
const QUESTIONS_AFTER: usize = 8;

/// Pause before another search after one that did not find the target. It doubles each time.
const PAUSE: Duration = Duration::from_millis(500);

/// Longest pause. It bounds how late the end of a distant partition is noticed, and how often all nodes are asked.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Largest number of nodes wanted at a time.
const MAX_WANTED: usize = 1024;

/// Largest number of queries of all searches and probes that wait for answers at a time.
const MAX_PENDING: usize = 4096;

/// One probe of this number uses the second best path.
const PROBES_PER_ALTERNATIVE: u32 = 4;

/// Interval at which old nodes and paths are removed.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(30);

/// A DHT message to be sent in an inner session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The receiver and the path.
    pub to: Contact,
    /// The payload of a data frame with content type 256.
    pub payload: Vec<u8>,
}

/// A change for a wanted node, or the result of a query of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This is the best path from now on.
    Way(Contact),
    /// There is no proved path any more. A search has started.
    Lost(Address),
    /// A search did not find the node.
    NotFound(Address),
    /// A query over this path got no answer in time. If there is a session with the node, it may have lost its keys.
    Missed(Contact),
    /// The node answered the [`Finder::ping`] with this number, after this time.
    Answered(u64, Contact, Duration),
    /// The node answered the [`Finder::query`] with this number.
    Replied(u64, Reply),
    /// The [`Finder::ping`] or [`Finder::query`] with this number got no answer.
    Unanswered(u64),
}

/// An answer to a query of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The node that answered, and the path to it.
    pub from: Contact,
    /// Its encoding scheme.
    pub scheme: Scheme,
    /// The nodes in the answer. Their labels are relative to the answering node.
    pub contacts: Vec<Contact>,
    /// The time from the query to the answer.
    pub time: Duration,
}

/// Counters of what was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that could not be decoded.
    pub malformed: u64,
    /// Messages from nodes with an incompatible protocol version.
    pub incompatible: u64,
    /// Answers without a query, or after its time.
    pub unexpected: u64,
    /// Unusable nodes in answers.
    pub useless: u64,
    /// Calls of [`Finder::want`] for which there was no space.
    pub overflow: u64,
}

/// Why a message had no effect. It is already counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It could not be decoded.
    Malformed(MessageError),
    /// Its sender has this incompatible protocol version.
    Incompatible(u32),
    /// Its sender was not asked for it, or it arrived too late.
    Unexpected,
    /// Its sender, or the path back to it, is unusable.
    Useless,
}

/// A query that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Pending {
    address: Address,
    label: Label,
    sent: Time,
    until: Time,
    /// The target of the search that sent the query.
    search: Option<Address>,
    /// Whether the caller waits for the answer, and whether for its content.
    told: bool,
    replied: bool,
}

/// A wanted node.
#[derive(Debug)]
struct Wanted {
    until: Time,
    probe_at: Time,
    probes: u32,
    search: Option<Search>,
    search_at: Time,
    pause: Duration,
    /// The path that was last reported in an event.
    told: Option<Label>,
}

#[derive(Debug, Default)]
struct Search {
    /// The nodes that were asked for nodes near the target.
    asked: BTreeSet<Address>,
    /// The nodes that were asked for their neighbours.
    walked: BTreeSet<Address>,
    /// The labels over which the target was pinged.
    tried: BTreeSet<Label>,
    pending: usize,
    left: usize,
}

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
        if let Some(address) = self.store.tell(now, peer) {
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
        let Some(address) = self.store.tell(now, from) else {
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
            told: None,
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
        let address = self.store.tell(now, from);
        if let Some(address) = address.filter(|address| !self.is_asked(*address, from.path)) {
            self.ask(now, address, from.path, Query::Ping, None);
        }
    }

    /// Pings a known node over `label` or the best path. Returns the number with which an event reports the result, or
    /// `None` if the node is unknown or too many queries wait.
    pub fn ping(&mut self, now: Time, target: Address, label: Option<Label>) -> Option<u64> {
        let best = self.store.get(target)?.ways()[0].label;
        let txid = self.ask(now, target, label.unwrap_or(best), Query::Ping, None)?;
        self.pending.get_mut(&txid)?.told = true;
        Some(txid)
    }

    /// Sends a query to a node over `to.path`. Returns the number with which an event reports the result, or `None` if
    /// the path is unusable or too many queries wait.
    pub fn query(&mut self, now: Time, to: Contact, query: Query) -> Option<u64> {
        let address = self.store.tell(now, to)?;
        let txid = self.ask(now, address, to.path, query, None)?;
        let pending = self.pending.get_mut(&txid)?;
        (pending.told, pending.replied) = (true, true);
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
            self.store.tell(now, *peer);
        }
        self.store.expire(now);
        self.touched.extend(self.wanted.keys());
    }
}

/// Sends queries and handles answers.
impl Finder {
    /// Probes the best path to a wanted node if it is due, and from time to time the second best.
    fn probe(&mut self, now: Time, address: Address) {
        let Some(wanted) = self
            .wanted
            .get_mut(&address)
            .filter(|wanted| wanted.probe_at <= now)
        else {
            return;
        };
        wanted.probe_at = now + PROBE_INTERVAL;
        wanted.probes = wanted.probes.wrapping_add(1);
        let both = wanted.probes % PROBES_PER_ALTERNATIVE == 1;
        let ways = self
            .store
            .get(address)
            .map(|node| node.ways())
            .unwrap_or_default();
        let labels: Vec<_> = ways
            .iter()
            .take(1 + usize::from(both))
            .map(|way| way.label)
            .collect();
        for label in labels {
            self.ask(now, address, label, Query::Ping, None);
        }
    }

    fn is_asked(&self, address: Address, label: Label) -> bool {
        let mut pending = self.pending.values();
        pending.any(|pending| (pending.address, pending.label) == (address, label))
    }

    fn ask(
        &mut self,
        now: Time,
        address: Address,
        label: Label,
        query: Query,
        search: Option<Address>,
    ) -> Option<u64> {
        let Some(node) = self
            .store
            .get(address)
            .filter(|_| self.pending.len() < MAX_PENDING)
        else {
            self.counters.overflow += 1;
            return None;
        };
        let latency = node.way(label).and_then(|way| way.latency);
        let patience = latency
            .map_or(PATIENCE * 2, |latency| latency * 4)
            .clamp(PATIENCE, LONGEST_PATIENCE);
        let to = node.by(label);
        let until = now + patience;
        let txid = self.random.u64(..);
        self.timers.insert((until, txid));
        self.pending.insert(
            txid,
            Pending {
                address,
                label,
                sent: now,
                until,
                search,
                told: false,
                replied: false,
            },
        );
        if let Some(search) = self.search_of(search) {
            search.pending += 1;
            search.left = search.left.saturating_sub(1);
        }
        self.send(to, Txid::new(&txid.to_be_bytes()), Body::Query(query));
        Some(txid)
    }

    fn send(&mut self, to: Contact, txid: Option<Txid>, body: Body) {
        let Some(txid) = txid else {
            return;
        };
        let form = Form::of_label(to.path).index();
        let message = Message {
            version: PROTOCOL_VERSION,
            scheme: Scheme::V3X5X8,
            form,
            txid,
            body,
        };
        self.transmits.push_back(Transmit {
            to,
            payload: message.encode(),
        });
    }

    fn search_of(&mut self, target: Option<Address>) -> Option<&mut Search> {
        self.wanted.get_mut(&target?)?.search.as_mut()
    }

    fn finish(&mut self, txid: u64) -> Option<Pending> {
        let pending = self.pending.remove(&txid)?;
        self.timers.remove(&(pending.until, txid));
        if let Some(search) = self.search_of(pending.search) {
            search.pending = search.pending.saturating_sub(1);
        }
        self.touched.extend(
            pending
                .search
                .filter(|target| self.wanted.contains_key(target)),
        );
        Some(pending)
    }

    /// Handles an answer that did not arrive in time. The link layer decides about the path to a neighbour.
    fn miss(&mut self, now: Time, txid: u64) {
        let Some(pending) = self.finish(txid) else {
            return;
        };
        let Pending { address, label, .. } = pending;
        if pending.told {
            self.events.push_back(Event::Unanswered(txid));
        }
        if let Some(node) = self.store.get(address) {
            self.events.push_back(Event::Missed(node.by(label)));
        }
        self.touch(address);
        if self.peers.contains_key(&label) {
            return;
        }
        self.store.miss(address, label, MISSES);
        let remains = self
            .store
            .get(address)
            .is_some_and(|node| node.way(label).is_some());
        if remains && self.wanted.contains_key(&address) {
            self.ask(now, address, label, Query::Ping, None);
        }
    }

    /// Handles an answer: proves the path and stores the nodes in it. Returns whether a query waited for it.
    fn take_answer(
        &mut self,
        now: Time,
        from: Contact,
        txid: Txid,
        scheme: Scheme,
        contacts: &[Contact],
    ) -> bool {
        let number = txid.octets().try_into().map(u64::from_be_bytes).ok();
        let address = from.key.address();
        let expected = |number: &u64| {
            self.pending
                .get(number)
                .is_some_and(|asked| asked.address == address)
        };
        let expected = number.filter(expected);
        let finished = expected.and_then(|number| Some((number, self.finish(number)?)));
        let Some((number, pending)) = finished else {
            self.counters.unexpected += 1;
            return false;
        };
        let latency = now.saturating_sub(pending.sent);
        self.store.prove(now, address, pending.label, latency);
        if pending.replied {
            let reply = Reply {
                from,
                scheme,
                contacts: contacts.to_vec(),
                time: latency,
            };
            self.events.push_back(Event::Replied(number, reply));
        } else if pending.told {
            self.events
                .push_back(Event::Answered(number, from, latency));
        }
        let others = contacts
            .iter()
            .filter(|contact| contact.path != Label::SELF && contact.key != self.own);
        let (mut told, mut useless) = (Vec::new(), 0);
        for contact in others {
            let spliced = contact.path.after(pending.label);
            match spliced.and_then(|path| self.store.tell(now, Contact { path, ..*contact })) {
                Some(address) => told.push(address),
                None => useless += 1,
            }
        }
        self.counters.useless += useless;
        told.into_iter().for_each(|address| self.touch(address));
        true
    }
}

/// Answers queries of other nodes.
impl Finder {
    /// Returns this node's answer to a query, with labels that start here, the lowest or the nearest first.
    #[must_use]
    pub fn consult(&self, query: Query) -> Vec<Contact> {
        let mut contacts = self.contacts(query, self.itself());
        contacts.reverse();
        contacts
    }

    const fn itself(&self) -> Contact {
        Contact {
            key: self.own,
            path: Label::SELF,
            version: PROTOCOL_VERSION,
        }
    }

    fn answer(&mut self, from: Contact, txid: Txid, query: Query) {
        let contacts = self.contacts(query, from);
        self.send(from, Some(txid), Body::Reply(contacts));
    }

    fn contacts(&self, query: Query, from: Contact) -> Vec<Contact> {
        match query {
            Query::Ping | Query::Found(_) => Vec::new(),
            Query::Peers(start) => self.peers_from(start, from),
            Query::Find(target) => self.near(target, from, NODES_PER_REPLY),
            Query::NextHop(target) => self.near(target, from, 1),
        }
    }

    /// Returns this node and the neighbours with the lowest labels not below `start`, the highest label first.
    fn peers_from(&self, start: Label, from: Contact) -> Vec<Contact> {
        let start = start.first_hop();
        let peers = self.peers.values().filter(|peer| peer.path >= start);
        let own = (start <= Label::SELF).then_some(self.itself());
        let all = own
            .into_iter()
            .chain(peers.filter_map(|peer| told_to(from, *peer)));
        let mut contacts: Vec<_> = all.take(NODES_PER_REPLY).collect();
        contacts.reverse();
        contacts
    }

    /// Returns the proved nodes nearest to an address, the nearest last, without the asker and the nodes behind it.
    fn near(&self, target: Address, from: Contact, limit: usize) -> Vec<Contact> {
        let is_behind = |path: Label| from.path != Label::SELF && path.leads_through(from.path);
        let useful = |contact: &Contact| contact.key != from.key && !is_behind(contact.path);
        let nearest = self.store.nearest(target, limit, useful);
        let mut contacts: Vec<_> = nearest
            .into_iter()
            .filter_map(|contact| told_to(from, contact))
            .collect();
        contacts.reverse();
        contacts
    }
}

/// Returns a node as `asker` may use it, or `None` if the asker's frames would have no space for the path back.
fn told_to(asker: Contact, contact: Contact) -> Option<Contact> {
    let path = label_for(contact.path, asker.path)?;
    Some(Contact { path, ..contact })
}

/// Processes changes.
impl Finder {
    fn touch(&mut self, address: Address) {
        if self.wanted.contains_key(&address) {
            self.touched.insert(address);
        }
    }

    /// Processes each node that changed.
    fn settle(&mut self, now: Time) {
        while let Some(target) = self.touched.pop_first() {
            self.tell_changes(target);
            self.advance_search(now, target);
        }
    }

    /// Reports an event if the best path of a wanted node has changed.
    fn tell_changes(&mut self, target: Address) {
        let way = self.way(target);
        let Some(wanted) = self.wanted.get_mut(&target) else {
            return;
        };
        if wanted.told == way.map(|way| way.path) {
            return;
        }
        wanted.told = way.map(|way| way.path);
        self.events
            .push_back(way.map_or(Event::Lost(target), Event::Way));
    }

    fn advance_search(&mut self, now: Time, target: Address) {
        let node = self.store.get(target);
        let sound = node.is_some_and(|node| node.ways()[0].is_sound());
        let is_known = node.is_some();
        let Some(wanted) = self.wanted.get_mut(&target) else {
            return;
        };
        match &mut wanted.search {
            None if sound || !is_known && wanted.search_at > now => return,
            None => {
                wanted.search = Some(Search {
                    left: QUESTIONS,
                    ..Search::default()
                })
            }
            Some(search) if sound => search.left = search.left.min(QUESTIONS_AFTER),
            Some(_) => {}
        }
        while self.ask_next(now, target) {}
        let Some(wanted) = self.wanted.get_mut(&target) else {
            return;
        };
        if wanted
            .search
            .as_ref()
            .is_some_and(|search| search.pending == 0)
        {
            wanted.search = None;
            if sound {
                (wanted.search_at, wanted.pause) = (now, PAUSE);
            } else {
                wanted.search_at = now + wanted.pause;
                wanted.pause = LONGEST_PAUSE.min(wanted.pause * 2);
                self.events.push_back(Event::NotFound(target));
            }
        }
    }

    /// Sends the next query of a search. Returns `false` if it must wait for answers, or if nobody is left to ask.
    fn ask_next(&mut self, now: Time, target: Address) -> bool {
        let Some(search) = self
            .wanted
            .get(&target)
            .and_then(|wanted| wanted.search.as_ref())
        else {
            return false;
        };
        if search.left == 0 || search.pending >= PARALLEL {
            return false;
        }
        let Some((address, label, query)) = self.next_question(target, search) else {
            return false;
        };
        if let Some(search) = self.search_of(Some(target)) {
            match query {
                Query::Ping => search.tried.insert(label),
                Query::Find(_) => search.asked.insert(address),
                _ => search.walked.insert(address),
            };
        }
        let before = self.pending.len();
        self.ask(now, address, label, query, Some(target));
        self.pending.len() > before
    }

    /// Returns the next query: the target over paths not yet tried, then the nodes nearest to it for what they know,
    /// then for their neighbours.
    fn next_question(&self, target: Address, search: &Search) -> Option<(Address, Label, Query)> {
        if let Some(node) = self.store.get(target) {
            let untried = |label: &Label| !search.tried.contains(label);
            let mut told = node
                .ways()
                .iter()
                .filter(|way| !way.is_sound())
                .map(|way| way.label);
            if let Some(label) = told.find(untried) {
                return Some((target, label, Query::Ping));
            }
        }
        let nearest = |passed: &BTreeSet<Address>| {
            let others = self
                .store
                .iter()
                .filter(|(address, _)| *address != target && !passed.contains(address));
            let (address, node) = others.min_by_key(|(address, _)| distance(*address, target))?;
            Some((address, node.ways()[0].label))
        };
        if let Some((address, label)) = nearest(&search.asked) {
            return Some((address, label, Query::Find(target)));
        }
        let (address, label) = nearest(&search.walked)?;
        Some((address, label, Query::Peers(Label::SELF)))
    }
}

impl Wanted {
    /// Returns when the node must be probed, searched again, or removed.
    fn due(&self) -> Time {
        let search = match (self.told, &self.search) {
            (None, None) => self.search_at,
            _ => self.probe_at,
        };
        self.probe_at.min(self.until).min(search)
    }
}
