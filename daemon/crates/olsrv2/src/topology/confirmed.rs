//! Which links both ends have signed, so that routes are calculated again when that changes.

use alloc::collections::BTreeSet;
use core::mem;
use core::net::IpAddr;

use super::views::edge_view;
use super::Topology;
use crate::event::Event;
use crate::signatures::is_recent;
use crate::speakers::Speakers;

impl Topology {
    /// Returns whether both ends of a link have signed it in TCs, and `to` has heard `from` lately.
    pub(crate) fn is_confirmed(&self, speakers: &Speakers, from: IpAddr, to: IpAddr) -> bool {
        let signed = |originator: IpAddr| self.node(originator).filter(|node| node.is_signed());
        let floor = speakers.floor(from).filter(|_| signed(from).is_some());
        let quote = signed(to).and_then(|to| to.quote(from));
        floor
            .zip(quote)
            .is_some_and(|(floor, quote)| is_recent(quote, floor))
    }

    /// Notes which links of a router are confirmed now that a message of it was taken in.
    pub(crate) fn note_confirmed(&mut self, speakers: &Speakers, originator: IpAddr) {
        let Some(node) = self.node(originator) else {
            return;
        };
        let both = |other: &IpAddr| {
            self.is_confirmed(speakers, originator, *other)
                || self.is_confirmed(speakers, *other, originator)
        };
        let neighbours = node.neighbours().map(|(address, _)| address);
        let confirmed: BTreeSet<IpAddr> = neighbours.filter(both).collect();
        if let Some(node) = self.nodes.get_mut(&originator) {
            let before = mem::replace(&mut node.confirmed, confirmed);
            for changed in before.symmetric_difference(&node.confirmed) {
                self.changed = true;
                if let Some(tuple) = node.neighbours.get(changed) {
                    let view = edge_view(originator, *changed, tuple, &node.confirmed);
                    self.events.push(Event::EdgeSet(view));
                }
            }
        }
    }
}
