//! Finding ways and keeping them.
//!
//! # Theory of operation
//!
//! [`Finder::want`] tells that a node is to be written to. If no way to it is
//! proved, a search runs: the nodes that are known, nearest to the target
//! first, are asked for what they know near it (`fn`), and what they tell joins
//! the store with labels spliced to theirs. When nobody is left to ask, the same
//! nodes are asked for their neighbours (`gp`), so that within its number of
//! questions a search finds whatever the network connects. As soon as the target
//! itself is told of, it is asked (`pn`) by that way; its answer proves the way.
//! The search then asks some more, because several ways are wanted.
//!
//! While a node is wanted its best way is asked every [`PROBE_INTERVAL`] and one
//! other way now and then. A way that misses an answer ranks behind the
//! others at once and is asked again; a second miss forgets it. Anybody can write a
//! switch's ERROR: one makes the way be asked, and only those that come back for
//! what was asked then count as misses. What the link layer says about a neighbour
//! is believed.
//!
//! Queries of others are answered from the store, without state.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use cryptoauth::{Address, PublicKey};
use fastrand::Rng;
use switch::{is_compatible, label_for, Form, Label, Scheme, PROTOCOL_VERSION};

use crate::message::{Body, Contact, Message, MessageError, Query, Txid, NODES_PER_REPLY};
use crate::store::{distance, Limits, Store};
use crate::Time;

/// How often the best way to a node that is wanted is asked.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// How long a node stays wanted when nobody says so again; cjdns ends a session after 120 s without traffic.
pub const WANTED_FOR: Duration = Duration::from_secs(120);

/// How long an answer is waited for at least: enough for some hops of a busy radio.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long an answer is waited for at most.
const LONGEST_PATIENCE: Duration = Duration::from_secs(4);

/// How many answers in a row a way may miss before it is forgotten.
const MISSES: u8 = 2;

/// Questions of one search that wait for an answer at a time.
const PARALLEL: usize = 3;

/// Questions that a search asks before it gives up.
const QUESTIONS: usize = 96;

/// Questions that a search still asks for other ways when one is proved.
const QUESTIONS_AFTER: usize = 8;

/// How long a target is not searched again when a search did not find it; each time twice as long.
const PAUSE: Duration = Duration::from_millis(500);

/// How long at most: so late may the healing of a distant partition be noticed, and so often is everybody asked.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// How many nodes can be wanted at a time.
const MAX_WANTED: usize = 1024;

/// How many questions may wait for answers at a time, of all searches and probes.
const MAX_PENDING: usize = 4096;

/// Every so many probes, one goes by the second best way.
const PROBES_PER_ALTERNATIVE: u32 = 4;

/// How often what is old is forgotten.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(30);

/// A DHT message to be sent in an inner session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// To whom, and by which way.
    pub to: Contact,
    /// The payload of a data frame with the content type 256.
    pub payload: Vec<u8>,
}

/// What changed for a node that is wanted, and what came of what the caller asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This is the best way from now on.
    Way(Contact),
    /// There is no proved way any more; a search runs.
    Lost(Address),
    /// A search found nothing.
    NotFound(Address),
    /// A question got no answer in time, by that way: if there is a session with that node, it may have lost its keys.
    Missed(Contact),
    /// What [`Finder::ping`] asked was answered, so long after.
    Answered(u64, Contact, Duration),
    /// What [`Finder::query`] asked was answered.
    Replied(u64, Reply),
    /// What [`Finder::ping`] or [`Finder::query`] asked got no answer.
    Unanswered(u64),
}

/// An answer that the caller waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Who answers, and by which way.
    pub from: Contact,
    /// Its encoding scheme.
    pub scheme: Scheme,
    /// The nodes that it tells of, relative to itself.
    pub contacts: Vec<Contact>,
    /// The time from the question to the answer.
    pub time: Duration,
}

/// What was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that do not decode.
    pub malformed: u64,
    /// Messages of nodes that cannot be spoken with.
    pub incompatible: u64,
    /// Answers to nothing that was asked, or that came too late.
    pub unexpected: u64,
    /// Nodes that somebody told of, and that are of no use.
    pub useless: u64,
    /// Wishes for which there was no room.
    pub overflow: u64,
}

/// Why a message had no effect; it is counted already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It does not decode.
    Malformed(MessageError),
    /// Its sender cannot be spoken with; his protocol version.
    Incompatible(u32),
    /// It answers nothing that was asked of its sender, or came too late.
    Unexpected,
    /// Its sender, or the way back to him, is of no use.
    Useless,
}

/// A question that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Pending {
    address: Address,
    label: Label,
    sent: Time,
    until: Time,
    /// The target of the search that asks.
    search: Option<Address>,
    /// Whether the caller waits for the answer, and whether for what is in it.
    told: bool,
    replied: bool,
}

/// A node that is wanted.
#[derive(Debug)]
struct Wanted {
    until: Time,
    probe_at: Time,
    probes: u32,
    search: Option<Search>,
    search_at: Time,
    pause: Duration,
    /// The way that was last told in an event.
    told: Option<Label>,
}

#[derive(Debug, Default)]
struct Search {
    /// Who was asked for nodes near the target.
    asked: BTreeSet<Address>,
    /// Who was asked for his neighbours.
    walked: BTreeSet<Address>,
    /// Labels of the target that were asked.
    tried: BTreeSet<Label>,
    pending: usize,
    left: usize,
}

/// Finds ways for one node.
#[derive(Debug)]
pub struct Finder {
    own: PublicKey,
    own_address: Address,
    store: Store,
    peers: BTreeMap<Label, Contact>,
    wanted: BTreeMap<Address, Wanted>,
    pending: BTreeMap<u64, Pending>,
    timers: BTreeSet<(Time, u64)>,
    /// Nodes that are wanted and of which something changed.
    touched: BTreeSet<Address>,
    expire_at: Time,
    random: Rng,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    counters: Counters,
}

impl Finder {
    /// A finder for the node with that public key. The seed has to be unpredictable: whoever knows it can guess
    /// which answers are waited for.
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

    /// The link layer has a neighbour, by a label of one hop.
    pub fn peer_up(&mut self, now: Time, peer: Contact) {
        if let Some(address) = self.store.tell(now, peer) {
            self.store.prove(now, address, peer.path, Duration::ZERO);
            self.peers.insert(peer.path, peer);
            self.ask(now, address, peer.path, Query::Peers(Label::SELF), None);
            // Who was not found may be reached through it.
            for wanted in self.wanted.values_mut() {
                (wanted.search_at, wanted.pause) = (now, PAUSE);
            }
            self.touched.extend(self.wanted.keys());
            self.settle(now);
        }
    }

    /// The link layer has lost a neighbour, and with it all ways that begin there.
    pub fn peer_down(&mut self, now: Time, label: Label) {
        self.peers.remove(&label);
        self.store.cut(label);
        self.touched.extend(self.wanted.keys());
        self.settle(now);
    }

    /// A DHT message came in the inner session with `from.key`, by `from.path` as the way back.
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

    /// A switch could not forward a frame that was sent by `label`, which is the reversed label of its ERROR.
    ///
    /// The way is asked; an ERROR while it is being asked is an answer that was missed.
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

    /// This node wants to write to `target`, or does so. To be called again while that is so.
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

    /// Nothing comes any more from a node that is written to: its best way is asked at once, unless it is being asked.
    pub fn suspect(&mut self, now: Time, target: Address) {
        let Some(way) = self.way(target) else {
            return;
        };
        if !self.is_asked(target, way.path) {
            self.ask(now, target, way.path, Query::Ping, None);
        }
    }

    /// Asks a node by the way by which something came from it, unless it is being asked: it waits for a message, and its answer
    /// proves the way.
    pub fn ask_back(&mut self, now: Time, from: Contact) {
        let address = self.store.tell(now, from);
        if let Some(address) = address.filter(|address| !self.is_asked(*address, from.path)) {
            self.ask(now, address, from.path, Query::Ping, None);
        }
    }

    /// Asks a node that is known, by `label` or the best way, and tells in an event what came of it: the number in it.
    /// `None` when nothing is known of the node, or too much is being asked.
    pub fn ping(&mut self, now: Time, target: Address, label: Option<Label>) -> Option<u64> {
        let best = self.store.get(target)?.ways()[0].label;
        let txid = self.ask(now, target, label.unwrap_or(best), Query::Ping, None)?;
        self.pending.get_mut(&txid)?.told = true;
        Some(txid)
    }

    /// Asks a node for what it knows, by `to.path`, and tells in an event what came of it: the number in it. `None` when the
    /// way is of no use, or too much is being asked.
    pub fn query(&mut self, now: Time, to: Contact, query: Query) -> Option<u64> {
        let address = self.store.tell(now, to)?;
        let txid = self.ask(now, address, to.path, query, None)?;
        let pending = self.pending.get_mut(&txid)?;
        (pending.told, pending.replied) = (true, true);
        Some(txid)
    }

    /// The best proved way to a node.
    #[must_use]
    pub fn way(&self, target: Address) -> Option<Contact> {
        self.store.get(target)?.proved()
    }

    /// What is known.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// What was dropped.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// The next message to be sent.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next change.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Finder::handle_timeout`] is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let answers = self.timers.first().map(|(due, _)| *due);
        let wanted = self.wanted.values().map(Wanted::due).min();
        [answers, wanted, Some(self.expire_at)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due.
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

    /// Forgets what is old, but for the neighbours, after whom the link layer looks.
    fn expire(&mut self, now: Time) {
        self.expire_at = now + EXPIRE_INTERVAL;
        for peer in self.peers.values() {
            self.store.tell(now, *peer);
        }
        self.store.expire(now);
        self.touched.extend(self.wanted.keys());
    }
}

/// Asking.
impl Finder {
    /// Asks the best way to a node that is wanted, and now and then the next one too, when it is time.
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

    /// The answer to a question did not come in time. A neighbour's way is the link layer's to judge.
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

    /// Whether it is an answer to something.
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

/// Answering.
impl Finder {
    /// What this node knows about a query, with labels that begin here; the lowest or the nearest first.
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

    /// The neighbours with the lowest labels that are not below `start`, this node before all; highest first.
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

    /// The proved nodes nearest to an address, the nearest last. Not the asker, nor what is behind him.
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

/// A node as it is told to an asker, in whose frames there has to be room for the way back.
fn told_to(asker: Contact, contact: Contact) -> Option<Contact> {
    let path = label_for(contact.path, asker.path)?;
    Some(Contact { path, ..contact })
}

/// Drawing the consequences.
impl Finder {
    fn touch(&mut self, address: Address) {
        if self.wanted.contains_key(&address) {
            self.touched.insert(address);
        }
    }

    /// For each node of which something changed.
    fn settle(&mut self, now: Time) {
        while let Some(target) = self.touched.pop_first() {
            self.tell_changes(target);
            self.advance_search(now, target);
        }
    }

    /// An event, when the best way of a node that is wanted is another than before.
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

    /// Asks the next question of a search; `false` when it has to wait for answers, or there is none left.
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

    /// The target by ways not yet tried; then who is nearest to it for what he knows; then for his neighbours.
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
    /// When it needs attention: to be asked, searched again, or forgotten.
    fn due(&self) -> Time {
        let search = match (self.told, &self.search) {
            (None, None) => self.search_at,
            _ => self.probe_at,
        };
        self.probe_at.min(self.until).min(search)
    }
}
