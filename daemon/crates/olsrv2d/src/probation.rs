//! Links on probation. A link that has just become symmetric gets a slightly larger metric until it has lasted for
//! [`PROBATION`], so that the proven one of two equal paths is taken.
//!
//! The change of the metric at the end of probation also serves olsrd2. Version 0.15.1 calculates routes when a
//! neighbour announces another metric, but not when its own measurement of the link becomes available. Without the
//! change it may ignore this router forever.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{InterfaceId, LinkStatus, LinkView, Metric, Time};

/// Duration of the probation. The first measurement of olsrd2 takes a second and the HELLO after it.
const PROBATION: Duration = Duration::from_secs(3);

/// Ends of the probation periods, by interface and neighbour address.
#[derive(Debug, Default)]
pub struct Probation {
    ends: BTreeMap<(InterfaceId, IpAddr), Time>,
}

impl Probation {
    /// Returns the metric of a link on probation; `metric` is that of a proven link.
    pub fn metric(metric: Metric) -> Metric {
        metric.next_larger()
    }

    /// Processes a link that was added or has changed; `metric` is that of a proven link.
    pub fn observe(&mut self, now: Time, link: &LinkView, metric: Metric) {
        let proven = link.metric_in != Some(Self::metric(metric));
        if link.status == LinkStatus::Symmetric && !proven {
            let key = (link.interface, link.address);
            self.ends.entry(key).or_insert(now + PROBATION);
        } else {
            self.forget(link);
        }
    }

    /// Forgets a link that is gone.
    pub fn forget(&mut self, link: &LinkView) {
        self.ends.remove(&(link.interface, link.address));
    }

    /// Returns when the next probation ends.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.ends.values().min().copied()
    }

    /// Returns the links whose probation has ended.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<(InterfaceId, IpAddr)> {
        let due = |(_, end): &(_, &Time)| **end <= now;
        let proven: Vec<_> = self.ends.iter().filter(due).map(|(key, _)| *key).collect();
        self.ends.retain(|_, end| *end > now);
        proven
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROVEN: Metric = Metric::MIN;

    fn link(status: LinkStatus, metric: Metric) -> LinkView {
        LinkView {
            interface: InterfaceId(1),
            address: "10.0.0.2".parse().unwrap(),
            addresses: vec![],
            originator: None,
            status,
            metric_in: Some(metric),
            metric_out: None,
            is_flooding_mpr: false,
            is_flooding_selector: false,
            flooding_willingness: 7,
            mac: None,
            hello_interval: Duration::ZERO,
            hello_validity: Duration::ZERO,
            heard_until: Time::ZERO,
            symmetric_until: Time::ZERO,
            expires: Time::ZERO,
        }
    }

    fn seconds(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    #[test]
    fn a_link_is_proven_once_it_has_lasted() {
        let mut probation = Probation::default();
        let young = link(LinkStatus::Symmetric, Probation::metric(PROVEN));
        probation.observe(seconds(1), &young, PROVEN);
        probation.observe(seconds(2), &young, PROVEN);
        assert_eq!(probation.poll_timeout(), Some(seconds(4)));
        assert_eq!(probation.handle_timeout(seconds(3)), []);
        let key = (young.interface, young.address);
        assert_eq!(probation.handle_timeout(seconds(4)), [key]);
        assert_eq!(probation.poll_timeout(), None);
    }

    #[test]
    fn only_symmetric_links_without_a_metric_of_their_own_are_on_probation() {
        let young = Probation::metric(PROVEN);
        let others = [
            link(LinkStatus::Heard, young),
            link(LinkStatus::Lost, young),
            link(LinkStatus::Symmetric, PROVEN),
        ];
        for other in others {
            let mut probation = Probation::default();
            probation.observe(seconds(1), &link(LinkStatus::Symmetric, young), PROVEN);
            probation.observe(seconds(2), &other, PROVEN);
            assert_eq!(probation.poll_timeout(), None, "{other:?}");
        }
    }

    #[test]
    fn a_link_that_is_gone_is_forgotten() {
        let mut probation = Probation::default();
        let young = link(LinkStatus::Symmetric, Probation::metric(PROVEN));
        probation.observe(seconds(1), &young, PROVEN);
        probation.forget(&young);
        assert_eq!(probation.handle_timeout(seconds(9)), []);
    }
}
