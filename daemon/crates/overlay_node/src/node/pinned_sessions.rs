//! Nodes to which a way and a session are kept, whether packets are sent to them or not.
//!
//! The finder is told again and again that they are wanted: it looks for a way, and asks it in the inner session, which
//! makes the session, shows that both still stand, and keeps them from being forgotten.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use cryptoauth::Address;

use super::Node;
use crate::event::Event;
use crate::Time;

/// Nodes that can be kept at a time; as many as the finder looks for.
pub(super) const MAX_KEPT: usize = 1024;
/// So often the finder is told that they are wanted, well before it forgets ([`overlay::WANTED_FOR`]).
const WANT_INTERVAL: Duration = Duration::from_secs(20);
/// So often while packets would not pass: a node to which a way is known is asked, which makes the session.
const ASK_INTERVAL: Duration = Duration::from_millis(500);

/// The nodes, and what was told of them.
#[derive(Default)]
pub(super) struct Kept {
    /// Whether the caller was told that packets pass.
    nodes: BTreeMap<Address, bool>,
    /// Something happened that may have changed it.
    is_stale: bool,
    due: Time,
}

impl Kept {
    /// Something happened after which packets may pass that did not, or the other way round.
    pub(super) const fn touch(&mut self) {
        self.is_stale = true;
    }

    /// Others are permitted than before: what is to be done for them is due.
    pub(super) const fn hasten(&mut self) {
        self.is_stale = true;
        self.due = Time::ZERO;
    }
}

impl Node {
    /// Keeps ways and sessions to these nodes from now on, and to no others, as far as they are permitted
    /// ([`Node::admit`]): [`Event::KeptUp`] tells when packets to one pass at once, [`Event::KeptDown`] when they do no more.
    /// A node that was kept before stays as it is. What is beyond 1024 nodes is left out.
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

    /// The nodes that are kept, and whether packets to them pass at once, as it was told last.
    pub fn kept(&self) -> impl Iterator<Item = (Address, bool)> + '_ {
        self.kept.nodes.iter().map(|(address, up)| (*address, *up))
    }

    /// Tells the finder what is wanted, when it is time.
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

    /// Tells what has changed, if anything can have.
    pub(super) fn tell_kept(&mut self) {
        if !core::mem::take(&mut self.kept.is_stale) {
            return;
        }
        let mut nodes = core::mem::take(&mut self.kept.nodes);
        for (address, told) in &mut nodes {
            let passes = self.passes(*address);
            if passes != *told {
                *told = passes;
                self.tell(if passes {
                    Event::KeptUp(*address)
                } else {
                    Event::KeptDown(*address)
                });
            }
        }
        self.kept.nodes = nodes;
    }

    /// Whether a packet to that node is sent at once.
    fn passes(&self, address: Address) -> bool {
        let way = self.finder.way(address);
        self.admission.permits(address) && way.is_some_and(|way| self.sessions.is_ready(&way.key))
    }
}
