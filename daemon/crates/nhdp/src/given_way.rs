//! Which links gave way lately: a router whose link did and who speaks again is worth more than one that is new.

use alloc::collections::{BTreeSet, VecDeque};
use core::net::IpAddr;

use crate::types::InterfaceId;

/// The first addresses of links that gave way lately.
#[derive(Debug, Default)]
pub(crate) struct GivenWay {
    order: VecDeque<(InterfaceId, IpAddr)>,
    known: BTreeSet<(InterfaceId, IpAddr)>,
}

impl GivenWay {
    /// Remembers one more, and forgets the oldest beyond `limit`.
    pub(crate) fn remember(&mut self, address: (InterfaceId, IpAddr), limit: usize) {
        if !self.known.insert(address) {
            return;
        }
        self.order.push_back(address);
        if self.order.len() > limit {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.known.remove(&oldest));
        }
    }

    /// Whether a link with this first address gave way lately.
    pub(crate) fn contains(&self, address: &(InterfaceId, IpAddr)) -> bool {
        self.known.contains(address)
    }
}
