//! What is known of one router.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

use nhdp::Time;
use rfc5444::Prefix;

use super::Node;
use crate::signatures::Quote;
use crate::tc::{AttachedNetwork, NeighbourAddress, Tc};
use crate::view::NodeView;
use crate::voice::Voice;

impl Node {
    pub(super) fn new(now: Time, tc: &Tc, source: IpAddr) -> Self {
        Self {
            ansn: tc.ansn,
            expires: now + tc.validity,
            advertises_all: tc.content.all,
            known_since: now,
            predecessor: None,
            advertised: tc.content.len(),
            seq: tc.seq,
            suspect: None,
            refreshed: false,
            voice: Voice::new(now, source, tc.seq, tc.validity),
            proof: tc.proof,
            quotes: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            confirms: BTreeSet::new(),
            neighbours: BTreeMap::new(),
            attached: BTreeMap::new(),
        }
    }

    /// Returns whether its newest TC was signed.
    pub(crate) fn is_signed(&self) -> bool {
        self.proof.is_some()
    }

    /// Takes in what a TC quotes of the neighbours that there is room for.
    pub(super) fn take_quotes(&mut self, tc: &Tc) {
        if tc.complete {
            self.quotes.clear();
        }
        let quotes = tc
            .quotes
            .iter()
            .map(|(neighbour, quote)| (*neighbour, *quote));
        let neighbours = &self.neighbours;
        self.quotes
            .extend(quotes.filter(|(neighbour, _)| neighbours.contains_key(neighbour)));
    }

    /// Returns what it quotes of a neighbour's counter.
    pub(crate) fn quote(&self, neighbour: IpAddr) -> Option<Quote> {
        self.quotes.get(&neighbour).copied()
    }

    /// The addresses of advertised neighbours.
    pub(crate) fn neighbours(&self) -> impl Iterator<Item = (IpAddr, NeighbourAddress)> + '_ {
        self.neighbours
            .iter()
            .map(|(address, tuple)| (*address, tuple.content))
    }

    /// The attached networks.
    pub(crate) fn attached(&self) -> impl Iterator<Item = (Prefix, AttachedNetwork)> + '_ {
        self.attached
            .iter()
            .map(|(prefix, tuple)| (*prefix, tuple.content))
    }

    pub(crate) fn tuples(&self) -> usize {
        self.neighbours.len() + self.attached.len()
    }

    pub(crate) fn is_refreshed(&self) -> bool {
        self.refreshed
    }

    pub(crate) fn expires(&self) -> Time {
        self.expires
    }

    pub(super) fn next_expiry(&self) -> Time {
        let neighbours = self.neighbours.values().map(|tuple| tuple.expires);
        let attached = self.attached.values().map(|tuple| tuple.expires);
        neighbours.chain(attached).fold(self.expires, Time::min)
    }

    pub(super) fn view(&self, originator: IpAddr) -> NodeView {
        NodeView {
            originator,
            ansn: self.ansn,
            signs: self.is_signed(),
            expires: self.expires,
        }
    }
}
