//! Relays to avoid.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use nhdp::Time;

use super::Router;

impl Router {
    /// Avoids neighbours as relays, by originator, until the given times, and no others.
    ///
    /// The link to such a neighbour has the largest metric, and this router announces that. So every other way that
    /// costs less is taken, also to the neighbour itself: somebody between the two may drop. Where there is no other way
    /// the link is still used.
    pub fn avoid(&mut self, now: Time, avoided: &BTreeMap<IpAddr, Time>) {
        self.advance(now);
        for instance in &mut self.instances {
            instance.avoid(avoided);
        }
        self.settle(now);
    }
}
