//! Relays that a reader has avoided.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use olsrv2::Time;

use super::Daemon;

impl Daemon {
    /// Avoids these neighbours for so long, and no others.
    pub(super) fn avoid(&mut self, now: Time, neighbours: &BTreeMap<IpAddr, Duration>) {
        for (address, duration) in neighbours {
            log::info!(
                "{address} is the last resort as a relay for {} s",
                duration.as_secs()
            );
        }
        if neighbours.is_empty() {
            log::info!("no neighbour is avoided as a relay");
        }
        let ends = neighbours
            .iter()
            .map(|(address, duration)| (*address, now + *duration));
        self.router.avoid(now, &ends.collect());
        self.drain(now);
    }
}
