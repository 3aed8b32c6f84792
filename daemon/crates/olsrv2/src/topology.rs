//! The topology information base (RFC 7181, section 10) and the processing of TCs (section 16.3).

mod age;
mod confirmed;
mod node;
mod succession;
mod views;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

use nhdp::Time;
use rfc5444::Prefix;

use crate::address::is_destination;
use crate::config::Limits;
use crate::event::Event;
use crate::seqnum::newer;
use crate::signatures::{Proof, Quote};
use crate::tc::{AttachedNetwork, NeighbourAddress, Tc};
use crate::voice::Voice;

pub(crate) use succession::Predecessor;
use views::{attached_view, edge_view};

/// The advertising remote router set and, by router, what each advertises.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    nodes: BTreeMap<IpAddr, Node>,
    /// Advertised addresses and networks of all routers.
    advertised: usize,
    /// Time before which no tuple expires.
    expiry: Option<Time>,
    changed: bool,
    events: Vec<Event>,
    over_limit: u64,
}

/// An advertising remote router tuple with its router topology, routable
/// address topology and attached network tuples.
#[derive(Debug)]
pub(crate) struct Node {
    /// AR_seq_number.
    ansn: u16,
    /// AR_time.
    expires: Time,
    /// Whether its TCs list all its symmetric neighbours.
    advertises_all: bool,
    /// Time of its first TC.
    known_since: Time,
    /// Who announced it as a host of his until then.
    predecessor: Option<Predecessor>,
    /// Number of addresses and networks in its last TC.
    advertised: usize,
    /// The newest message sequence number.
    seq: u16,
    /// The sequence number and arrival of a stale TC that may come from a restarted router.
    suspect: Option<(u16, Time)>,
    /// Whether it has sent more than one TC.
    refreshed: bool,
    /// The neighbour through which it is heard.
    voice: Voice,
    /// What the signature of its newest TC says.
    proof: Option<Proof>,
    /// What it quotes of its neighbours' counters, by originator.
    quotes: BTreeMap<IpAddr, Quote>,
    /// The neighbours to which its link was confirmed when the last message of either end was taken in.
    confirmed: BTreeSet<IpAddr>,
    /// The neighbours whose link to it was confirmed then, which are in their sets too.
    confirms: BTreeSet<IpAddr>,
    neighbours: BTreeMap<IpAddr, Tuple<NeighbourAddress>>,
    attached: BTreeMap<Prefix, Tuple<AttachedNetwork>>,
}

/// A tuple of the router topology, routable address topology or attached network set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tuple<T> {
    content: T,
    /// Time of the last TC that advertised it.
    heard: Time,
    ansn: u16,
    expires: Time,
}

/// Result of processing a TC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Processed,
    /// Its ANSN is older than the recorded one.
    Stale,
    /// Another neighbour than the one through whom the originator is heard contradicts it.
    Disbelieved,
    /// The topology is full.
    OverLimit,
}

impl Topology {
    /// Processes a TC of another router that the neighbour with the address `source` has passed on, or has originated:
    /// then it is `first_hand`.
    pub(crate) fn process(
        &mut self,
        now: Time,
        tc: &Tc,
        source: IpAddr,
        first_hand: bool,
        limits: &Limits,
    ) -> Outcome {
        if !self.nodes.contains_key(&tc.originator) && self.nodes.len() >= limits.nodes {
            return Outcome::OverLimit;
        }
        if first_hand && tc.proof.is_none() {
            let node = self.nodes.get_mut(&tc.originator);
            node.into_iter()
                .for_each(|node| node.voice.take_over(source, tc.seq));
        }
        if tc.proof.is_none() && self.is_rewritten(now, tc, source) {
            return Outcome::Disbelieved;
        }
        let stale = match tc.proof {
            Some(proof) => self.is_overtaken(tc, proof),
            None => self.is_stale(now, tc, source),
        };
        if stale {
            return Outcome::Stale;
        }
        let expires = now + tc.validity;
        self.expiry = Some(self.expiry.map_or(expires, |expiry| expiry.min(expires)));
        self.refresh_node(now, tc, source, expires);
        self.remove_lost(now, tc);
        self.add_content(now, tc, expires, limits);
        if let Some(node) = self.nodes.get_mut(&tc.originator) {
            node.take_quotes(tc);
        }
        if tc.complete {
            self.remove_where(tc.originator, |ansn, _| ansn != tc.ansn);
        }
        Outcome::Processed
    }

    /// Removes the tuples that have expired at `now`.
    pub(crate) fn expire(&mut self, now: Time) {
        if self.expiry.is_none_or(|expiry| expiry > now) {
            return;
        }
        for originator in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.remove_where(originator, |_, expires| expires <= now);
            if self.nodes[&originator].expires <= now {
                self.remove_node(originator);
            }
        }
        self.expiry = self.nodes.values().map(Node::next_expiry).min();
    }

    /// Returns whether a path may have changed, and resets this.
    pub(crate) fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.events)
    }

    pub(crate) fn take_over_limit(&mut self) -> u64 {
        core::mem::take(&mut self.over_limit)
    }

    /// Records another copy of a TC.
    pub(crate) fn heard_again(&mut self, now: Time, originator: IpAddr, seq: u16, source: IpAddr) {
        if let Some(node) = self.nodes.get_mut(&originator) {
            node.voice.heard_again(now, source, seq);
        }
    }

    /// Returns whether a router's TCs from `source` are not believed, because others contradict them.
    pub(crate) fn is_contested(&self, now: Time, originator: IpAddr, source: IpAddr) -> bool {
        let node = self.nodes.get(&originator);
        node.is_some_and(|node| node.voice.is_contested(now, source))
    }

    fn refresh_node(&mut self, now: Time, tc: &Tc, source: IpAddr, expires: Time) {
        let known = self.nodes.get(&tc.originator).map(|node| node.ansn);
        self.changed |= known.is_none();
        let node = self
            .nodes
            .entry(tc.originator)
            .or_insert_with(|| Node::new(now, tc, source));
        node.voice.believed(now, source, tc.seq, tc.validity);
        if newer(tc.seq, node.seq) || newer(tc.ansn, node.ansn) {
            node.seq = tc.seq;
        }
        node.ansn = tc.ansn;
        node.expires = expires;
        let resigned = node.proof.is_some() != tc.proof.is_some();
        self.changed |= resigned;
        node.proof = tc.proof;
        self.changed |= node.advertises_all != tc.content.all;
        node.advertises_all = tc.content.all;
        node.advertised = tc.content.len();
        node.suspect = None;
        node.refreshed = known.is_some();
        if resigned || known != Some(tc.ansn) {
            self.events.push(Event::NodeSet(node.view(tc.originator)));
        }
    }

    /// Removes what is advertised without a metric (RFC 7181, sections 16.3.3.2 to 16.3.3.4).
    fn remove_lost(&mut self, now: Time, tc: &Tc) {
        if tc.lost_neighbours.is_empty() && tc.lost_networks.is_empty() {
            return;
        }
        if let Some(node) = self.nodes.get_mut(&tc.originator) {
            for address in &tc.lost_neighbours {
                let tuple = node.neighbours.get_mut(address);
                tuple.into_iter().for_each(|tuple| tuple.expires = now);
            }
            for prefix in &tc.lost_networks {
                let tuple = node.attached.get_mut(prefix);
                tuple.into_iter().for_each(|tuple| tuple.expires = now);
            }
        }
        self.remove_where(tc.originator, |_, expires| expires <= now);
    }

    fn add_content(&mut self, now: Time, tc: &Tc, expires: Time, limits: &Limits) {
        for (address, content) in &tc.content.neighbours {
            let tuple = Tuple {
                content: *content,
                heard: now,
                ansn: tc.ansn,
                expires,
            };
            if self.has_room(tc.originator, limits, |node| {
                node.neighbours.contains_key(address)
            }) {
                self.set_neighbour(tc.originator, *address, tuple);
            }
        }
        for (prefix, content) in &tc.content.attached {
            let tuple = Tuple {
                content: *content,
                heard: now,
                ansn: tc.ansn,
                expires,
            };
            if is_destination(*prefix)
                && self.has_room(tc.originator, limits, |node| {
                    node.attached.contains_key(prefix)
                })
            {
                self.set_attached(tc.originator, *prefix, tuple);
            }
        }
    }

    /// Whether a tuple exists already or there is room for one more.
    fn has_room(
        &mut self,
        originator: IpAddr,
        limits: &Limits,
        exists: impl Fn(&Node) -> bool,
    ) -> bool {
        let Some(node) = self.nodes.get(&originator) else {
            return false;
        };
        let of_node = node.neighbours.len() + node.attached.len();
        let room = exists(node) || (of_node < limits.advertised && self.advertised < limits.edges);
        self.over_limit += u64::from(!room);
        room
    }

    fn set_neighbour(&mut self, from: IpAddr, to: IpAddr, tuple: Tuple<NeighbourAddress>) {
        let Some(node) = self.nodes.get_mut(&from) else {
            return;
        };
        let old = node.neighbours.insert(to, tuple);
        self.advertised += usize::from(old.is_none());
        if old.map(|old| old.content) != Some(tuple.content) {
            self.changed = true;
            self.events
                .push(Event::EdgeSet(edge_view(from, to, &tuple, &node.confirmed)));
        }
    }

    fn set_attached(&mut self, originator: IpAddr, prefix: Prefix, tuple: Tuple<AttachedNetwork>) {
        let predecessor = self.predecessor(originator, prefix);
        let Some(node) = self.nodes.get_mut(&originator) else {
            return;
        };
        let old = node.attached.insert(prefix, tuple);
        self.advertised += usize::from(old.is_none());
        self.changed |= predecessor != self.predecessor(originator, prefix);
        if old.map(|old| old.content) != Some(tuple.content) {
            self.changed = true;
            self.events.push(Event::AttachedSet(attached_view(
                originator, prefix, &tuple,
            )));
        }
    }

    /// Removes the tuples of a router that `outdated(ansn, expires)` picks.
    fn remove_where(&mut self, originator: IpAddr, outdated: impl Fn(u16, Time) -> bool) {
        let Some(node) = self.nodes.get_mut(&originator) else {
            return;
        };
        let before = self.events.len();
        let events = &mut self.events;
        let confirmed = &node.confirmed;
        node.neighbours.retain(|to, tuple| {
            let keep = !outdated(tuple.ansn, tuple.expires);
            if !keep {
                events.push(Event::EdgeRemoved(edge_view(
                    originator, *to, tuple, confirmed,
                )));
            }
            keep
        });
        node.attached.retain(|prefix, tuple| {
            let keep = !outdated(tuple.ansn, tuple.expires);
            if !keep {
                events.push(Event::AttachedRemoved(attached_view(
                    originator, *prefix, tuple,
                )));
            }
            keep
        });
        let removed = self.events.len() - before;
        self.advertised -= removed;
        self.changed |= removed > 0;
    }

    /// Removes a router because others need the space.
    pub(crate) fn evict(&mut self, originator: IpAddr) {
        self.over_limit += 1;
        self.remove_node(originator);
    }

    /// Removes everything that a router has announced.
    pub(crate) fn remove_node(&mut self, originator: IpAddr) {
        self.remove_where(originator, |_, _| true);
        if let Some(node) = self.nodes.remove(&originator) {
            self.events.push(Event::NodeRemoved(node.view(originator)));
        }
    }
}
