//! The stations of all watched interfaces, and what follows from their drivers' reports. Does no I/O.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use olsrv2::{Airtime, Measurement, Metric, Time};

use super::liveness::{Liveness, Look, Verdict};
use super::message::{Mac, Station};

/// Time between two polls.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two polls while a station is suspect.
pub const CLOSE_LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two probes to a station that gets no other frames. Rate control learns from frames alone.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Largest number of probes in one poll. Bounds the airtime if there are very many neighbours.
const PROBES_MAX: usize = 16;
/// Consecutive polls without a station after which it is gone: a dump may omit one while another is being removed.
const MISSED_LOOKS: u32 = 2;
/// Time unit of IEEE 802.11.
const TIME_UNIT: Duration = Duration::from_micros(1024);

/// What a poll or a notice says about a station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Interface index.
    pub interface: u32,
    /// The station.
    pub mac: Mac,
    /// What is new.
    pub news: News,
}

/// What changed about a station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It is out of reach, for this reason.
    Lost(String),
    /// It is in reach again.
    Back,
    /// The link from it has this metric.
    Metric(Metric),
}

/// A station and its liveness and metric.
#[derive(Debug)]
pub struct Entry {
    /// The station as its driver reports it.
    pub station: Station,
    liveness: Liveness,
    airtime: Airtime,
    /// Rates of the last frames. Several are kept, so that one frame at an unusual rate does not count.
    rates: [Option<NonZeroU64>; 3],
    /// Time of the last frame sent to it, as far as polls show it.
    sent_at: Time,
    probed_at: Time,
    missed: u32,
    /// Whether its peering was established, so that the kernel may still keep state for it.
    peered: bool,
    /// Whether its peering was ended and made again between two polls.
    repeered: bool,
}

/// All stations, by interface index and hardware address.
#[derive(Debug, Default)]
pub struct Stations {
    entries: BTreeMap<(u32, Mac), Entry>,
}

impl Stations {
    /// Processes the list of all stations of an interface, read at `at`.
    pub fn observe(&mut self, at: Time, interface: u32, stations: &[Station]) -> Vec<Change> {
        let mut changes = Vec::new();
        for station in stations {
            let key = (interface, station.mac);
            let entry = self
                .entries
                .entry(key)
                .or_insert_with(|| Entry::new(at, *station));
            changes.extend(entry.look(at, station).map(|news| change(key, news)));
        }
        for (key, entry) in self.of_mut(interface) {
            let seen = stations.iter().any(|station| station.mac == key.1);
            entry.missed = if seen { 0 } else { entry.missed + 1 };
        }
        let gone = self
            .of_mut(interface)
            .filter(|(_, entry)| entry.missed >= MISSED_LOOKS);
        let gone: Vec<Mac> = gone.map(|(key, _)| key.1).collect();
        changes.extend(
            gone.into_iter()
                .filter_map(|mac| self.remove(interface, mac)),
        );
        changes
    }

    /// Forgets a station that the kernel has removed.
    pub fn remove(&mut self, interface: u32, mac: Mac) -> Option<Change> {
        let entry = self.entries.remove(&(interface, mac))?;
        let was_there = entry.is_there();
        was_there.then(|| change((interface, mac), News::Lost("removed by the kernel".into())))
    }

    /// Forgets an interface.
    pub fn remove_interface(&mut self, interface: u32) {
        self.entries.retain(|(other, _), _| *other != interface);
    }

    /// Returns the metric of the link from a station.
    pub fn metric(&self, interface: u32, mac: Mac) -> Option<Metric> {
        self.entries.get(&(interface, mac))?.airtime.metric()
    }

    /// Returns all stations with their interfaces.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.entries
            .iter()
            .map(|((index, _), entry)| (*index, entry))
    }

    /// Returns the time until the next poll of an interface.
    pub fn look_interval(&self, interface: u32) -> Duration {
        let of_interface = self.iter().filter(|(index, _)| *index == interface);
        let close = of_interface
            .map(|(_, entry)| entry)
            .any(|entry| entry.missed > 0 || entry.is_there() && entry.liveness.is_suspect());
        if close {
            CLOSE_LOOK_INTERVAL
        } else {
            LOOK_INTERVAL
        }
    }

    /// Returns the mesh peers to probe now: suspect ones, and those that get no other frames.
    pub fn take_probes(&mut self, now: Time) -> Vec<(u32, Mac)> {
        let due = self
            .entries
            .iter_mut()
            .filter(|(_, entry)| entry.wants_probe(now));
        let mut due: Vec<_> = due.collect();
        due.sort_by_key(|(_, entry)| entry.probed_at);
        due.truncate(PROBES_MAX);
        let probe = |(key, entry): (&(u32, Mac), &mut Entry)| {
            entry.probed_at = now;
            *key
        };
        due.into_iter().map(probe).collect()
    }

    /// Returns, once each, the stations that the kernel should forget: the peering has ended or is a new one.
    ///
    /// The kernel keeps their block acknowledgement state (IEEE 802.11-2020, section 10.25.6). Because of it, the
    /// kernel drops up to 2048 frames of a station that returns and counts from the beginning.
    pub fn take_leftovers(&mut self) -> Vec<(u32, Mac)> {
        let ended = self
            .entries
            .iter_mut()
            .filter(|(_, entry)| entry.repeered || entry.peered && entry.station.listening);
        let leftover = |(key, entry): (&(u32, Mac), &mut Entry)| {
            entry.peered = false;
            entry.repeered = false;
            // The next peering counts as a new one.
            entry.station.peering = [0, 0];
            *key
        };
        ended.map(leftover).collect()
    }

    fn of_mut(&mut self, interface: u32) -> impl Iterator<Item = (&(u32, Mac), &mut Entry)> {
        let range = (interface, [0; 6])..=(interface, [0xff; 6]);
        self.entries.range_mut(range)
    }
}

impl Entry {
    fn new(at: Time, station: Station) -> Self {
        Self {
            station,
            liveness: Liveness::default(),
            airtime: Airtime::default(),
            rates: [None; 3],
            sent_at: at,
            probed_at: Time::ZERO,
            missed: 0,
            peered: false,
            repeered: false,
        }
    }

    /// Returns the metric of the link from it.
    pub fn metric(&self) -> Option<Metric> {
        self.airtime.metric()
    }

    /// Returns whether it is believed to be in reach.
    pub fn is_there(&self) -> bool {
        self.station.established != Some(false) && !self.liveness.is_lost()
    }

    fn look(&mut self, at: Time, new: &Station) -> Option<News> {
        let was_there = self.is_there();
        let measurement = self.measure(at, new);
        let old = std::mem::replace(&mut self.station, *new);
        self.peered |= new.established == Some(true);
        self.repeered |= old.is_peer() && new.is_peer() && old.peering != new.peering;
        self.watch(at);
        if old.established != new.established {
            // A new peering starts with a new rate control.
            self.rates = [None; 3];
        }
        match (was_there, self.is_there()) {
            (true, false) => return Some(News::Lost(self.reason())),
            (false, true) => return Some(News::Back),
            (false, false) => return None,
            (true, true) => {}
        }
        let before = self.airtime.metric();
        let metric = self.airtime.measure(at, measurement?);
        (before != Some(metric)).then_some(News::Metric(metric))
    }

    fn watch(&mut self, at: Time) {
        if let Some(silent) = self.station.inactive_ms {
            let interval = self.station.beacon_interval_tu.filter(|units| *units > 0);
            // Only the beacons of mesh peers reliably count as activity.
            let interval = interval.filter(|_| self.station.established.is_some());
            let look = Look {
                silent: Duration::from_millis(silent.into()),
                failed: self.station.tx_failed.unwrap_or(0),
                beacon_interval: interval.map(|units| TIME_UNIT * u32::from(units)),
            };
            if self.station.established == Some(false) {
                self.liveness = Liveness::default();
            } else if self.liveness.look(at, look) == Verdict::Back {
                log::debug!("{:02x?} is heard again", self.station.mac);
            }
        }
    }

    fn reason(&self) -> String {
        match self.station.established {
            Some(false) => "the mesh peering has ended".into(),
            _ => format!("silent for {} ms", self.station.inactive_ms.unwrap_or(0)),
        }
    }

    /// Returns what the frames since the last poll show; `None` if there were none.
    fn measure(&mut self, at: Time, new: &Station) -> Option<Measurement> {
        let counted = |count: fn(&Station) -> Option<u32>| {
            let (old, new) = (count(&self.station)?, count(new)?);
            Some(new.wrapping_sub(old))
        };
        let sent = counted(|station| station.tx_packets).unwrap_or(0);
        let failed = counted(|station| station.tx_failed).unwrap_or(0);
        let retries = counted(|station| station.tx_retries).unwrap_or(0);
        if sent > 0 {
            self.sent_at = at;
            self.rates.rotate_right(1);
            self.rates[0] = new.tx_bit_rate;
        } else if self.airtime.metric().is_some() {
            return None;
        }
        let expected = new.expected_throughput.map(|bit_rate| Measurement {
            bit_rate,
            attempts: 0,
            delivered: 0,
        });
        let used = self.usual_rate().map(|bit_rate| Measurement {
            bit_rate,
            attempts: sent.saturating_add(retries),
            delivered: sent.saturating_sub(failed),
        });
        // Rate control does not know which rates are forbidden, and so expects too much.
        let slower = |one: Measurement, other: Measurement| {
            if other.bit_rate < one.bit_rate {
                other
            } else {
                one
            }
        };
        match (expected, used) {
            (Some(expected), Some(used)) => Some(slower(expected, used)),
            (expected, used) => expected.or(used),
        }
    }

    /// Returns the median of the last rates; `None` until enough are known.
    fn usual_rate(&self) -> Option<NonZeroU64> {
        let [Some(a), Some(b), Some(c)] = self.rates else {
            return None;
        };
        let mut rates = [a, b, c];
        rates.sort_unstable();
        Some(rates[1])
    }

    fn wants_probe(&self, now: Time) -> bool {
        let is_peer = self.station.established == Some(true) && self.missed == 0;
        let idle = now >= self.sent_at + PROBE_INTERVAL && now >= self.probed_at + PROBE_INTERVAL;
        is_peer && self.is_there() && (self.liveness.is_suspect() || idle)
    }
}

fn change((interface, mac): (u32, Mac), news: News) -> Change {
    Change {
        interface,
        mac,
        news,
    }
}

#[cfg(test)]
mod tests;
