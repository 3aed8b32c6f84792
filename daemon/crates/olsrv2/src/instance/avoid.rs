//! Neighbours that are avoided as relays for a while (docs/development/adr/0095).

use alloc::collections::BTreeMap;
use core::mem::replace;
use core::net::IpAddr;

use nhdp::Time;

use super::Instance;

impl Instance {
    /// Avoids these neighbours, by originator, until the given times, and no others.
    pub(crate) fn avoid(&mut self, avoided: &BTreeMap<IpAddr, Time>) {
        self.avoided.clone_from(avoided);
        self.dirty = true;
    }

    pub(super) fn expire_avoided(&mut self, now: Time) {
        let before = self.avoided.len();
        self.avoided.retain(|_, until| *until > now);
        self.dirty |= self.avoided.len() != before;
    }

    /// Marks the neighbours that are avoided. All HELLOs announce the metric of one whose mark changes.
    pub(super) fn mark_avoided(&mut self) {
        for (_, neighbour) in self.nhdp.neighbours_mut() {
            let originator = neighbour.ext.originator;
            let avoided = originator.is_some_and(|address| self.avoided.contains_key(&address));
            self.metrics_changed |= replace(&mut neighbour.ext.avoided, avoided) != avoided;
        }
    }
}
