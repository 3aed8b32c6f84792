//! `SearchRunner_search`: asks one node after the other, each nearer to an address, until that node itself answers.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use cryptoauth::Address;
use overlay::{distance, Contact, Query};

use crate::answer::Answer;

/// The questions of a search that does not say how many, as in cjdns.
const DEFAULT_REQUESTS: u32 = 8;
/// The most questions of a search: at two seconds for each, it ends after about two minutes.
const MAX_REQUESTS: u32 = 64;
/// The nodes that a search remembers to ask; the farthest from the address are forgotten.
const MAX_CANDIDATES: usize = 64;

/// A search that runs.
#[derive(Debug)]
pub(crate) struct Search {
    target: Address,
    own: Address,
    /// Questions that may still be asked.
    left: u32,
    /// Nodes that were told of and not asked yet, the nearest last.
    candidates: Vec<Contact>,
    /// Nodes that were told of, or asked.
    known: BTreeSet<Address>,
}

/// The answer that ends a search.
pub(crate) fn complete() -> Answer {
    Answer::error("none").with("complete", 1_u32)
}

impl Search {
    /// A search from the nodes that are known, with so many questions at most.
    pub(crate) fn new(
        own: Address,
        target: Address,
        asked: Option<u32>,
        known: &[Contact],
    ) -> Self {
        let mut search = Self {
            target,
            own,
            left: asked.unwrap_or(DEFAULT_REQUESTS).min(MAX_REQUESTS),
            candidates: Vec::new(),
            known: BTreeSet::new(),
        };
        search.learn(known.iter().copied());
        search
    }

    /// Returns whom to ask next, and what; `None` when the search has come to its end.
    pub(crate) fn next(&mut self) -> Option<(Contact, Query)> {
        self.left = self.left.checked_sub(1)?;
        let to = self.candidates.pop()?;
        if to.key.address() == self.target {
            self.left = 0;
            return Some((to, Query::Found(self.target)));
        }
        Some((to, Query::Find(self.target)))
    }

    /// Takes the nodes that an answer tells of, relative to who was asked by `via`.
    pub(crate) fn hear(&mut self, via: Contact, nodes: &[Contact]) {
        let seen = |node: &Contact| {
            let path = node.path.after(via.path)?;
            Some(Contact { path, ..*node })
        };
        self.learn(nodes.iter().filter_map(seen));
    }

    fn learn(&mut self, nodes: impl Iterator<Item = Contact>) {
        for node in nodes {
            let address = node.key.node_address().ok();
            let other = address.filter(|address| *address != self.own);
            if other.is_some_and(|address| self.known.insert(address)) {
                self.candidates.push(node);
            }
        }
        let target = self.target;
        self.candidates
            .sort_by_key(|node| core::cmp::Reverse(distance(node.key.address(), target)));
        let surplus = self.candidates.len().saturating_sub(MAX_CANDIDATES);
        self.candidates.drain(..surplus);
    }
}
