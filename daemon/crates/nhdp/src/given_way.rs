//! Remembers whose links were removed recently because the link set was full. Such a router that is heard again is
//! worth more than a new one.

use alloc::collections::{BTreeSet, VecDeque};
use core::net::IpAddr;

use crate::types::InterfaceId;

/// The first address of each link that was removed recently.
#[derive(Debug, Default)]
pub(crate) struct GivenWay {
    order: VecDeque<(InterfaceId, IpAddr)>,
    known: BTreeSet<(InterfaceId, IpAddr)>,
}

impl GivenWay {
    /// Remembers an address, and forgets the oldest beyond `limit`.
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

    /// Returns whether a link with this first address was removed recently.
    pub(crate) fn contains(&self, address: &(InterfaceId, IpAddr)) -> bool {
        self.known.contains(address)
    }
}
