//! `SearchRunner_search` asks one node after the other, each nearer to an address, until that node itself answers.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use cryptoauth::Address;
use overlay::{distance, Contact, Query};

use crate::answer::Answer;

/// Default number of questions in a search, as in cjdns.
const DEFAULT_REQUESTS: u32 = 8;
/// Largest number of questions in a search. At two seconds each, it ends after about two minutes.
const MAX_REQUESTS: u32 = 64;
/// Largest number of nodes that a search plans to ask. The farthest from the address are dropped.
const MAX_CANDIDATES: usize = 64;

/// A running search.
#[derive(Debug)]
pub(crate) struct Search {
    target: Address,
    own: Address,
    /// Number of questions that may still be asked.
    left: u32,
    /// Known nodes that have not been asked, the nearest last.
    candidates: Vec<Contact>,
    /// All nodes that have been reported or asked.
    known: BTreeSet<Address>,
}

/// Returns the answer that ends a search.
pub(crate) fn complete() -> Answer {
    Answer::error("none").with("complete", 1_u32)
}

impl Search {
    /// Starts a search from the known nodes, with a limit on the questions.
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

    /// Returns the next node to ask, and the query; `None` when the search is over.
    pub(crate) fn next(&mut self) -> Option<(Contact, Query)> {
        self.left = self.left.checked_sub(1)?;
        let to = self.candidates.pop()?;
        if to.key.address() == self.target {
            self.left = 0;
            return Some((to, Query::Found(self.target)));
        }
        Some((to, Query::Find(self.target)))
    }

    /// Adds the nodes of an answer, relative to the node `via` that was asked.
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
