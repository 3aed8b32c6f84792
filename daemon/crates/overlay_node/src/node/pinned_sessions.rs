//! Nodes to which a path and a session are kept even if no packets are sent to them.
//!
//! The finder learns regularly that these nodes are wanted. It finds a path and probes it in the inner session. The
//! probes start the session, prove that path and session still work, and keep both from expiring.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use cryptoauth::Address;

use super::Node;
use crate::event::Event;
use crate::Time;

/// Largest number of kept nodes, the same as in the finder.
pub(super) const MAX_KEPT: usize = 1024;
/// Interval at which the finder learns that they are wanted, well before it forgets ([`overlay::WANTED_FOR`]).
const WANT_INTERVAL: Duration = Duration::from_secs(20);
/// The same while packets would not be sent at once. A node with a known path is probed, which starts the session.
const ASK_INTERVAL: Duration = Duration::from_millis(500);

/// The kept nodes, and what was reported about them.
#[derive(Default)]
pub(super) struct Kept {
    /// Whether the last event said that packets are sent at once.
    nodes: BTreeMap<Address, bool>,
    /// Whether something happened that may have changed this.
    is_stale: bool,
    due: Time,
}

impl Kept {
    /// Records that something happened that may change whether packets are sent at once.
    pub(super) const fn touch(&mut self) {
        self.is_stale = true;
    }

    /// Makes the next check due, because other nodes are permitted than before.
    pub(super) const fn hasten(&mut self) {
        self.is_stale = true;
        self.due = Time::ZERO;
    }
}

impl Node {
    /// Keeps paths and sessions to these nodes from now on, and to no others, if they are permitted ([`Node::admit`]).
    /// [`Event::KeptUp`] reports that packets to a node are sent at once, [`Event::KeptDown`] that they no longer are.
    /// A node that was kept before is unchanged. Nodes beyond 1024 are ignored.
    pub fn keep(&mut self, now: Time, addresses: &BTreeSet<Address>) {
        let before = core::mem::take(&mut self.kept.nodes);
        let state = |address: &Address| (*address, before.get(address).is_some_and(|up| *up));
        let own = self.address;
        let others = addresses.iter().filter(|address| **address != own);
        self.kept.nodes = others.take(MAX_KEPT).map(state).collect();
        self.kept.touch();
        self.kept.due = now;
        self.check_kept(now);
        self.draw_finder(now);
    }

    /// Returns the kept nodes, and whether the last event said that packets to them are sent at once.
    pub fn kept(&self) -> impl Iterator<Item = (Address, bool)> + '_ {
        self.kept.nodes.iter().map(|(address, up)| (*address, *up))
    }

    /// Tells the finder that the nodes are wanted, if that is due.
    pub(super) fn check_kept(&mut self, now: Time) {
        if self.kept.nodes.is_empty() {
            return;
        }
        if self.kept.due <= now {
            self.kept.touch();
            let mut all_up = true;
            for (address, up) in &self.kept.nodes {
                if self.admission.permits(*address) {
                    self.finder.want(now, *address);
                    all_up &= *up;
                    if !up {
                        self.finder.suspect(now, *address);
                    }
                }
            }
            self.kept.due = now + if all_up { WANT_INTERVAL } else { ASK_INTERVAL };
        }
        let due = self.kept.due;
        self.wake_at(due);
    }

    /// Reports changes, if anything may have changed.
    pub(super) fn report_kept(&mut self) {
        if !core::mem::take(&mut self.kept.is_stale) {
            return;
        }
        let mut nodes = core::mem::take(&mut self.kept.nodes);
        for (address, reported) in &mut nodes {
            let passes = self.passes(*address);
            if passes != *reported {
                *reported = passes;
                self.report(if passes {
                    Event::KeptUp(*address)
                } else {
                    Event::KeptDown(*address)
                });
            }
        }
        self.kept.nodes = nodes;
    }

    /// Returns whether a packet to a node is sent at once.
    fn passes(&self, address: Address) -> bool {
        let way = self.finder.way(address);
        self.admission.permits(address) && way.is_some_and(|way| self.sessions.is_ready(&way.key))
    }
}
