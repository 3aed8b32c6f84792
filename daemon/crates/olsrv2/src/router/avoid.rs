//! Relays to avoid.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use nhdp::Time;

use super::Router;

impl Router {
    /// Avoids neighbours as relays, by originator, until the given times, and no others.
    ///
    /// What goes beyond such a neighbour has the largest metric on the link to it, and this router announces that. So
    /// every other way that costs less is taken, and where there is none the neighbour is still used. Traffic to the
    /// neighbour itself keeps its metric.
    pub fn avoid(&mut self, now: Time, avoided: &BTreeMap<IpAddr, Time>) {
        self.advance(now);
        for instance in &mut self.instances {
            instance.avoid(avoided);
        }
        self.settle(now);
    }
}
