//! Sends queries, and handles their answers.

use alloc::vec::Vec;
use core::time::Duration;

use cryptoauth::Address;
use switch::{Form, Label, Scheme, PROTOCOL_VERSION};

use super::event::{Event, Reply, Transmit};
use super::search::Search;
use super::{Finder, PROBE_INTERVAL};
use crate::message::{Body, Contact, Message, Query, Txid};
use crate::Time;

/// Shortest time to wait for an answer, enough for a few hops of a busy radio.
const PATIENCE: Duration = Duration::from_millis(500);

/// Longest time to wait for an answer.
const LONGEST_PATIENCE: Duration = Duration::from_secs(4);

/// Number of consecutive answers that may be missed on a path before it is removed.
const MISSES: u8 = 2;

/// Largest number of queries of all searches and probes that wait for answers at a time.
const MAX_PENDING: usize = 4096;

/// One probe of this number uses the second best path.
const PROBES_PER_ALTERNATIVE: u32 = 4;

/// A query that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) address: Address,
    pub(super) label: Label,
    pub(super) sent: Time,
    pub(super) until: Time,
    /// The target of the search that sent the query.
    pub(super) search: Option<Address>,
    /// Whether the caller waits for the answer, and whether for its content.
    pub(super) awaited: bool,
    pub(super) replied: bool,
}

impl Finder {
    /// Probes the best path to a wanted node if it is due, and from time to time the second best.
    pub(super) fn probe(&mut self, now: Time, address: Address) {
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

    pub(super) fn is_asked(&self, address: Address, label: Label) -> bool {
        let mut pending = self.pending.values();
        pending.any(|pending| (pending.address, pending.label) == (address, label))
    }

    pub(super) fn ask(
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
                awaited: false,
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

    pub(super) fn send(&mut self, to: Contact, txid: Option<Txid>, body: Body) {
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

    pub(super) fn search_of(&mut self, target: Option<Address>) -> Option<&mut Search> {
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
    pub(super) fn miss(&mut self, now: Time, txid: u64) {
        let Some(pending) = self.finish(txid) else {
            return;
        };
        let Pending { address, label, .. } = pending;
        if pending.awaited {
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
    pub(super) fn take_answer(
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
        } else if pending.awaited {
            self.events
                .push_back(Event::Answered(number, from, latency));
        }
        let others = contacts
            .iter()
            .filter(|contact| contact.path != Label::SELF && contact.key != self.own);
        let (mut reported, mut useless) = (Vec::new(), 0);
        for contact in others {
            let spliced = contact.path.after(pending.label);
            match spliced.and_then(|path| self.store.learn(now, Contact { path, ..*contact })) {
                Some(address) => reported.push(address),
                None => useless += 1,
            }
        }
        self.counters.useless += useless;
        reported.into_iter().for_each(|address| self.touch(address));
        true
    }
}
