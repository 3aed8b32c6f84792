//! Which links both ends have signed, so that routes are calculated again when that changes.

use alloc::collections::BTreeSet;
use core::net::IpAddr;

use super::views::edge_view;
use super::Topology;
use crate::event::Event;
use crate::signatures::is_recent;
use crate::speakers::Speakers;

impl Topology {
    /// Returns whether both ends of a link that `from` lists have signed it in TCs, and `to` has heard `from` lately.
    pub(crate) fn is_confirmed(&self, speakers: &Speakers, from: IpAddr, to: IpAddr) -> bool {
        let signed = |originator: IpAddr| self.node(originator).filter(|node| node.is_signed());
        let floor = speakers.floor(from).filter(|_| signed(from).is_some());
        let quote = signed(to).and_then(|to| to.quote(from));
        floor
            .zip(quote)
            .is_some_and(|(floor, quote)| is_recent(quote, floor))
    }

    /// Notes which links from and to a router are confirmed now that a message of it was taken in.
    pub(crate) fn note_confirmed(&mut self, speakers: &Speakers, originator: IpAddr) {
        let Some(node) = self.node(originator) else {
            return;
        };
        let listed = node.neighbours.keys();
        let noted = node.confirmed.union(&node.confirms);
        let others: BTreeSet<IpAddr> = listed.chain(noted).copied().collect();
        for other in others {
            for (from, to) in [(originator, other), (other, originator)] {
                self.set_confirmed(from, to, self.is_confirmed(speakers, from, to));
            }
        }
    }

    /// Notes whether the link in this direction is confirmed. Routes use each direction by itself.
    fn set_confirmed(&mut self, from: IpAddr, to: IpAddr, confirmed: bool) {
        if let Some(node) = self.nodes.get_mut(&to) {
            set(&mut node.confirms, from, confirmed);
        }
        let Some(node) = self.nodes.get_mut(&from) else {
            return;
        };
        if set(&mut node.confirmed, to, confirmed) {
            self.changed = true;
            let tuple = node.neighbours.get(&to);
            let view = tuple.map(|tuple| edge_view(from, to, tuple, &node.confirmed));
            self.events.extend(view.map(Event::EdgeSet));
        }
    }
}

/// Adds or removes an address, and returns whether that changed the set.
fn set(addresses: &mut BTreeSet<IpAddr>, address: IpAddr, wanted: bool) -> bool {
    match wanted {
        true => addresses.insert(address),
        false => addresses.remove(&address),
    }
}
