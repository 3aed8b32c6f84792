//! Links to wireless stations: their metrics, and their loss.

use olsrv2::{InterfaceEvent, InterfaceId, LinkStatus, LinkView, Metric, Time};

use super::Daemon;
use crate::config::Weight;
use crate::manet::name;
use crate::nl80211::{self, Change, News};
use crate::probation::Probation;

impl Daemon {
    /// Sets the metric of a link that was added or has changed.
    pub(super) fn weigh(&mut self, now: Time, link: &LinkView) {
        let metric = match self.weight(link.interface) {
            Weight::Auto => self.measured(link),
            Weight::Hop => None,
            Weight::Constant(metric) => Some(metric),
        };
        match metric {
            None => self.probation.observe(now, link, self.config.metric),
            Some(metric) => {
                self.probation.forget(link);
                // A lost link has no metric. It gets one when it is heard again.
                if link.metric_in.is_some_and(|known| known != metric) {
                    self.router
                        .set_link_metric(now, link.interface, link.address, Some(metric));
                }
            }
        }
    }

    pub(super) fn weight(&self, interface: InterfaceId) -> Weight {
        let name = self.manet.names().get(&interface.0);
        let weight = name.and_then(|name| self.config.weights.get(name));
        weight.copied().unwrap_or(Weight::Hop)
    }

    /// Returns the metric that the link layer has measured.
    pub(super) fn measured(&self, link: &LinkView) -> Option<Metric> {
        let radio = self.radio.as_ref()?;
        radio.metric(link.interface.0, nl80211::mac_of(link)?)
    }

    pub(super) fn take_station_notices(&mut self, now: Time) {
        if let Some(radio) = &mut self.radio {
            let changes = radio.take_notices(now);
            self.follow_stations(now, &changes);
        }
    }

    pub(super) fn take_survey(&mut self, now: Time) {
        let Some(radio) = &mut self.radio else { return };
        match radio.take_report(now, &self.reactor) {
            Ok(changes) => {
                self.announce_hardware_addresses();
                self.warn_of_scale();
                self.follow_stations(now, &changes);
            }
            Err(error) => {
                log::error!("nl80211: {error}; stations are not watched: restart olsrv2d");
                self.radio = None;
            }
        }
    }

    pub(super) fn follow_stations(&mut self, now: Time, changes: &[Change]) {
        for change in changes {
            let interface = InterfaceId(change.interface);
            let mut links = self.router.links();
            links.retain(|link| {
                link.interface == interface && nl80211::mac_of(link) == Some(change.mac)
            });
            for link in links {
                match &change.news {
                    News::Lost(reason) => self.lose(now, &link, reason),
                    News::Metric(_) => self.weigh(now, &link),
                    News::Back => {}
                }
            }
            self.drain(now);
        }
    }

    /// Ends a link whose station is out of reach. The neighbour's next HELLO starts a new link.
    pub(super) fn lose(&mut self, now: Time, link: &LinkView, reason: &str) {
        if link.status < LinkStatus::Heard {
            return;
        }
        let interface = link.interface;
        let event = InterfaceEvent::NeighbourLost {
            interface,
            address: link.address,
        };
        log::info!("{}: {reason}", self.manet.describe(&event));
        self.router.handle_interface(now, event);
    }

    /// Warns once if a wired interface has a default metric that cannot be compared with measured ones.
    pub(super) fn warn_of_scale(&mut self) {
        let Some(radio) = &self.radio else { return };
        if self.warned_of_scale || radio.wireless().next().is_none() {
            return;
        }
        let mut others = radio.others().map(InterfaceId);
        if let Some(other) = others.find(|index| self.weight(*index) == Weight::Auto) {
            log::warn!(
                "{}: not wireless, so its links have metric {}, far more than measured ones: set `metric` in its [[interface]]",
                name(self.manet.names(), other),
                self.config.metric.get()
            );
            self.warned_of_scale = true;
        }
    }

    /// Watches the stations of all interfaces that are up.
    pub(super) fn watch_stations(&mut self, now: Time) {
        let interfaces = self.manet.interfaces().into_iter();
        let wanted = interfaces.filter_map(|interface| Some((interface.index, interface.mac?)));
        if let Some(radio) = &mut self.radio {
            radio.watch(now, &wanted.collect());
        }
    }

    /// Puts all links on probation again, because the configured metric changed.
    pub(super) fn restart_probation(&mut self, now: Time) {
        self.probation = Probation::default();
        for link in self.router.links() {
            self.router
                .set_link_metric(now, link.interface, link.address, None);
        }
    }
}
