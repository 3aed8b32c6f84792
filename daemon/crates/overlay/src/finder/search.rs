//! Searches for paths to wanted nodes, and reports what changed.

use alloc::collections::BTreeSet;
use core::time::Duration;

use cryptoauth::Address;
use switch::Label;

use super::event::Event;
use super::Finder;
use crate::message::Query;
use crate::store::distance;
use crate::Time;

/// Number of queries of one search that wait for an answer at a time.
const PARALLEL: usize = 3;

/// Number of queries that a search sends before it gives up.
const QUESTIONS: usize = 96;

/// Number of queries that a search still sends for alternative paths after one is proved.
const QUESTIONS_AFTER: usize = 8;

/// Interval at which better paths are looked for to a node that is reached through others: nobody tells of a link that
/// came far away.
const REVIEW_INTERVAL: Duration = Duration::from_secs(20);

/// Pause before another search after one that did not find the target. It doubles each time.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Longest pause. It bounds how late the end of a distant partition is noticed, and how often all nodes are asked.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// A wanted node.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) until: Time,
    pub(super) probe_at: Time,
    pub(super) probes: u32,
    pub(super) search: Option<Search>,
    pub(super) search_at: Time,
    pub(super) pause: Duration,
    pub(super) review_at: Time,
    /// The path that was last reported in an event.
    pub(super) reported: Option<Label>,
}

#[derive(Debug, Default)]
pub(super) struct Search {
    /// The nodes that were asked for nodes near the target.
    pub(super) asked: BTreeSet<Address>,
    /// The nodes that were asked for their neighbours.
    pub(super) walked: BTreeSet<Address>,
    /// The labels over which the target was pinged.
    pub(super) tried: BTreeSet<Label>,
    pub(super) pending: usize,
    pub(super) left: usize,
    /// A number of its own if it looks for a better path than that which is sound.
    pub(super) review: Option<u32>,
}

impl Finder {
    pub(super) fn touch(&mut self, address: Address) {
        if self.wanted.contains_key(&address) {
            self.touched.insert(address);
        }
    }

    /// Processes each node that changed.
    pub(super) fn settle(&mut self, now: Time) {
        while let Some(target) = self.touched.pop_first() {
            self.report_changes(target);
            self.advance_search(now, target);
        }
    }

    /// Reports an event if the best path of a wanted node has changed.
    fn report_changes(&mut self, target: Address) {
        let way = self.way(target);
        let Some(wanted) = self.wanted.get_mut(&target) else {
            return;
        };
        if wanted.reported == way.map(|way| way.path) {
            return;
        }
        wanted.reported = way.map(|way| way.path);
        self.events
            .push_back(way.map_or(Event::Lost(target), Event::Way));
    }

    fn advance_search(&mut self, now: Time, target: Address) {
        let node = self.store.get(target);
        let sound = node.is_some_and(|node| node.ways()[0].is_sound());
        let is_near = node.is_some_and(|node| self.peers.contains_key(&node.ways()[0].label));
        let is_known = node.is_some();
        let Some(wanted) = self.wanted.get_mut(&target) else {
            return;
        };
        match &mut wanted.search {
            None if sound && (is_near || wanted.review_at > now) => return,
            None if !is_known && wanted.search_at > now => return,
            None => {
                wanted.review_at = now + REVIEW_INTERVAL;
                wanted.search = Some(Search {
                    left: if sound { QUESTIONS_AFTER } else { QUESTIONS },
                    review: sound.then_some(wanted.probes),
                    ..Search::default()
                });
            }
            Some(search) if sound => search.left = search.left.min(QUESTIONS_AFTER),
            Some(search) if search.review.is_some() => {
                // What was to be bettered is gone.
                *search = Search {
                    left: QUESTIONS,
                    pending: search.pending,
                    ..Search::default()
                };
            }
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
    /// then for their neighbours. A review asks those at the shortest paths first, and then others each time.
    fn next_question(&self, target: Address, search: &Search) -> Option<(Address, Label, Query)> {
        if let Some(node) = self.store.get(target) {
            let untried = |label: &Label| !search.tried.contains(label);
            let mut reported = node
                .ways()
                .iter()
                .filter(|way| !way.is_sound())
                .map(|way| way.label);
            if let Some(label) = reported.find(untried) {
                return Some((target, label, Query::Ping));
            }
        }
        let nearest = |passed: &BTreeSet<Address>| {
            let others = self
                .store
                .iter()
                .filter(|(address, _)| *address != target && !passed.contains(address));
            let (address, node) = others.min_by_key(|(address, node)| {
                let apart = distance(*address, target);
                match search.review {
                    None => apart,
                    Some(_) if search.left > QUESTIONS_AFTER / 2 => {
                        node.ways()[0].label.bits().into()
                    }
                    Some(number) => apart.rotate_left(number),
                }
            })?;
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
    pub(super) fn due(&self) -> Time {
        let search = match (self.reported, &self.search) {
            (None, None) => self.search_at,
            _ => self.probe_at,
        };
        self.probe_at.min(self.until).min(search)
    }
}
