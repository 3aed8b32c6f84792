//! What the link layer knows about neighbours (nl80211): which stations come and go, and how well they are reached.
//!
//! Theory of operation. Every MANET interface is polled; one that is not wireless, rarely. To poll means to dump the
//! interface's stations. A thread, the [`Worker`], does this because a driver may take long. [`Stations`] decides which
//! station is lost (see [`liveness`]) and which metric the link from it has (see [`olsrv2::Airtime`]).
//!
//! The kernel's notices only bring the next poll forward or report a loss at once. None of them is needed, so a failed
//! socket is repaired by a later poll. A kernel without nl80211 is treated as one without stations.

mod liveness;
mod message;
mod socket;
mod stations;
mod worker;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{LinkView, Metric, Time};

use crate::reactor::{Reactor, Token};
use message::Notice;
use socket::Monitor;
use stations::Stations;
use worker::{Order, Report, Survey, Worker};

pub use message::{Mac, Station};
pub use stations::{Change, Entry, News};

/// Time between two polls of an interface that is not wireless, or of a kernel without nl80211, because a module may be
/// loaded later.
const RARE_LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after the kernel did not answer.
const RETRY: Duration = Duration::from_secs(1);
/// Time after which a driver that does not answer causes a warning.
const SLOW: Duration = Duration::from_secs(5);
/// Notices read in a turn.
const BURST: usize = 64;

/// The link layer of all MANET interfaces.
pub struct Radio {
    worker: Worker,
    monitor: Option<Monitor>,
    interfaces: BTreeMap<u32, Interface>,
    stations: Stations,
    /// Time of the order whose report has not arrived.
    ordered: Option<Time>,
    warned: bool,
}

/// Returns the hardware address of the neighbour at the other end of a link. It comes from its HELLOs, else from its
/// link-local address (RFC 4291, appendix A).
pub fn mac_of(link: &LinkView) -> Option<Mac> {
    link.mac.or_else(|| match link.address {
        IpAddr::V6(address) if address.is_unicast_link_local() => match address.octets()[8..] {
            [a, b, c, 0xff, 0xfe, d, e, f] => Some([a ^ 2, b, c, d, e, f]),
            _ => None,
        },
        _ => None,
    })
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    mac: Mac,
    /// `None` until it was polled.
    wireless: Option<bool>,
    due: Time,
}

impl Radio {
    /// Starts the worker thread; `clock` returns the time.
    ///
    /// # Errors
    /// The kernel refuses a thread or a descriptor.
    pub fn start(clock: fn() -> Time, reactor: &Reactor) -> io::Result<Self> {
        let worker = Worker::start(clock)?;
        reactor.add(&worker, Token::Survey)?;
        Ok(Self {
            worker,
            monitor: None,
            interfaces: BTreeMap::new(),
            stations: Stations::default(),
            ordered: None,
            warned: false,
        })
    }

    /// Polls exactly these interfaces from now on. Each has its own hardware address.
    pub fn watch(&mut self, now: Time, wanted: &BTreeMap<u32, Mac>) {
        let Self {
            interfaces,
            stations,
            ..
        } = self;
        interfaces.retain(|index, interface| {
            let stays = wanted.get(index) == Some(&interface.mac);
            if !stays {
                stations.remove_interface(*index);
            }
            stays
        });
        for (index, mac) in wanted {
            interfaces.entry(*index).or_insert(Interface {
                mac: *mac,
                wireless: None,
                due: now,
            });
        }
    }

    /// Returns when to call [`Radio::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.ordered {
            Some(_) if self.warned => None,
            Some(since) => Some(since + SLOW),
            None => self.interfaces.values().map(|known| known.due).min(),
        }
    }

    /// Orders the due polls from the worker.
    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(since) = self.ordered {
            if now >= since + SLOW && !self.warned {
                log::warn!(
                    "nl80211: a driver has not answered for {} s",
                    SLOW.as_secs()
                );
                self.warned = true;
            }
            return;
        }
        let due = self.interfaces.iter().filter(|(_, known)| known.due <= now);
        let interfaces: Vec<u32> = due.map(|(index, _)| *index).collect();
        if interfaces.is_empty() {
            return;
        }
        let probes = self.stations.take_probes(now).into_iter();
        let probes = probes
            .filter_map(|(index, peer)| Some((index, self.interfaces.get(&index)?.mac, peer)));
        let order = Order {
            probes: probes.collect(),
            leftovers: self.stations.take_leftovers(),
            interfaces,
        };
        for known in self.interfaces.values_mut().filter(|it| it.due <= now) {
            // The report may set another time.
            known.due = now + RETRY;
        }
        if self.worker.order(order) {
            self.ordered = Some(now);
            self.warned = false;
        }
    }

    /// Processes the worker's report.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn take_report(&mut self, now: Time, reactor: &Reactor) -> io::Result<Vec<Change>> {
        let Some(report) = self.worker.report()? else {
            return Ok(Vec::new());
        };
        self.ordered = None;
        self.follow_family(&report, reactor);
        if report.family.is_none() && !report.failed {
            self.postpone(now + RARE_LOOK_INTERVAL);
        }
        let surveys = report.surveys.into_iter();
        Ok(surveys
            .flat_map(|survey| self.take_survey(now, survey))
            .collect())
    }

    /// Processes the kernel's notices.
    pub fn take_notices(&mut self, now: Time) -> Vec<Change> {
        let mut changes = Vec::new();
        for _ in 0..BURST {
            let Some(monitor) = &mut self.monitor else {
                break;
            };
            match monitor.receive() {
                Ok(Some(notices)) => {
                    changes.extend(
                        notices
                            .into_iter()
                            .filter_map(|it| self.take_notice(now, it)),
                    );
                }
                Ok(None) => break,
                Err(error) => {
                    // Polling everything makes up for the lost notices. The next report opens a new socket.
                    log::debug!("nl80211: notices: {error}");
                    self.monitor = None;
                    self.postpone(now);
                }
            }
        }
        changes
    }

    /// Returns the measured metric of the link from a station.
    pub fn metric(&self, interface: u32, mac: Mac) -> Option<Metric> {
        self.stations.metric(interface, mac)
    }

    /// Returns our hardware address on each wireless interface.
    pub fn wireless(&self) -> impl Iterator<Item = (u32, Mac)> + '_ {
        let known = self.interfaces.iter();
        let wireless = known.filter(|(_, known)| known.wireless == Some(true));
        wireless.map(|(index, known)| (*index, known.mac))
    }

    /// Returns the interfaces that are known not to be wireless.
    pub fn others(&self) -> impl Iterator<Item = u32> + '_ {
        let known = self.interfaces.iter();
        let others = known.filter(|(_, known)| known.wireless == Some(false));
        others.map(|(index, _)| *index)
    }

    /// Returns all stations with their interfaces.
    pub fn stations(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.stations.iter()
    }

    /// Opens a monitor for the present nl80211 family; closes it if there is no family.
    fn follow_family(&mut self, report: &Report, reactor: &Reactor) {
        if self.monitor.as_ref().map(Monitor::family) == report.family {
            return;
        }
        self.monitor = None;
        let Some(family) = report.family else { return };
        let opened = Monitor::open(family)
            .and_then(|monitor| reactor.add(&monitor, Token::Stations).map(|()| monitor));
        match opened {
            Ok(monitor) => self.monitor = Some(monitor),
            Err(error) => log::debug!("nl80211: notices are not available: {error}"),
        }
    }

    fn take_survey(&mut self, now: Time, survey: Survey) -> Vec<Change> {
        let Some(known) = self.interfaces.get_mut(&survey.interface) else {
            // The interface went down during the poll.
            return Vec::new();
        };
        known.wireless = Some(survey.stations.is_some());
        let Some(stations) = survey.stations else {
            known.due = now + RARE_LOOK_INTERVAL;
            self.stations.remove_interface(survey.interface);
            return Vec::new();
        };
        let changes = self
            .stations
            .observe(survey.at, survey.interface, &stations);
        known.due = now + self.stations.look_interval(survey.interface);
        changes
    }

    fn take_notice(&mut self, now: Time, notice: Notice) -> Option<Change> {
        let (Notice::Come { interface } | Notice::Gone { interface, .. }) = notice;
        self.interfaces.get_mut(&interface)?.due = now;
        match notice {
            Notice::Come { .. } => None,
            Notice::Gone { interface, mac } => self.stations.remove(interface, mac),
        }
    }

    fn postpone(&mut self, due: Time) {
        self.interfaces
            .values_mut()
            .for_each(|known| known.due = due);
    }
}

#[cfg(test)]
mod tests {
    use olsrv2::{InterfaceId, LinkStatus};

    use super::*;

    fn link(address: &str, mac: Option<Mac>) -> LinkView {
        LinkView {
            interface: InterfaceId(3),
            address: address.parse().unwrap(),
            addresses: vec![],
            originator: None,
            status: LinkStatus::Symmetric,
            metric_in: None,
            metric_out: None,
            is_flooding_mpr: false,
            is_flooding_selector: false,
            flooding_willingness: 7,
            mac,
            hello_interval: Duration::ZERO,
            hello_validity: Duration::ZERO,
            heard_until: Time::ZERO,
            symmetric_until: Time::ZERO,
            expires: Time::ZERO,
        }
    }

    #[test]
    fn the_station_of_a_link_is_the_one_that_is_told_or_else_that_of_the_address() {
        let station = [0x42, 0, 0, 0, 2, 0];
        let other = [2; 6];
        let from_address = "fe80::4000:ff:fe00:200";
        assert_eq!(mac_of(&link(from_address, None)), Some(station));
        assert_eq!(mac_of(&link(from_address, Some(other))), Some(other));
        assert_eq!(mac_of(&link("10.0.0.2", Some(station))), Some(station));
        for unrelated in [
            "10.0.0.2",
            "fe80::1234:5678:9abc:def0",
            "fd00::4000:ff:fe00:200",
        ] {
            assert_eq!(mac_of(&link(unrelated, None)), None, "{unrelated}");
        }
    }
}
