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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MESH: u32 = 3;
    const PEER: Mac = [0x42, 0, 0, 0, 2, 0];

    fn peer() -> Station {
        Station {
            mac: PEER,
            inactive_ms: Some(40),
            established: Some(true),
            tx_bit_rate: NonZeroU64::new(13_000_000),
            tx_packets: Some(3),
            tx_retries: Some(0),
            tx_failed: Some(0),
            beacon_interval_tu: Some(100),
            ..Station::default()
        }
    }

    /// Looks at one station, one after the other, as often as the stations themselves want it.
    struct Watch {
        stations: Stations,
        now: Time,
    }

    impl Watch {
        fn new() -> Self {
            Self {
                stations: Stations::default(),
                now: Time::from_secs(100),
            }
        }

        fn look(&mut self, station: Option<Station>) -> Vec<News> {
            self.now += self.stations.look_interval(MESH);
            let seen: Vec<Station> = station.into_iter().collect();
            let changes = self.stations.observe(self.now, MESH, &seen);
            assert!(changes
                .iter()
                .all(|change| (change.interface, change.mac) == (MESH, PEER)));
            changes.into_iter().map(|change| change.news).collect()
        }

        /// Lets the station be silent until something is new; gives that and the silence.
        fn fall_silent(&mut self, mut station: Station, fails: bool) -> (News, Duration) {
            let since = self.now;
            for _ in 0..100 {
                let probes = self.stations.take_probes(self.now).len() as u32;
                station.tx_packets = station.tx_packets.map(|count| count + probes);
                if fails {
                    station.tx_failed = station.tx_failed.map(|count| count + probes);
                }
                let silent = self.now + self.stations.look_interval(MESH) - since;
                station.inactive_ms = Some(silent.as_millis() as u32);
                let news = self.look(Some(station));
                if let Some(News::Lost(reason)) = news.last() {
                    return (News::Lost(reason.clone()), silent);
                }
            }
            panic!("never found lost");
        }
    }

    fn is_lost(news: &[News]) -> bool {
        matches!(news, [News::Lost(_)])
    }

    #[test]
    fn a_peer_that_falls_silent_is_probed_and_lost_within_half_a_second() {
        for (units, fails) in [(100, true), (100, false), (1000, true)] {
            let mut watch = Watch::new();
            let station = Station {
                beacon_interval_tu: Some(units),
                ..peer()
            };
            assert_eq!(watch.look(Some(station)), []);
            let (_, silence) = watch.fall_silent(station, fails);
            assert!(
                silence <= Duration::from_millis(500),
                "{units}: {silence:?}"
            );
            assert!(watch.look(Some(station)).contains(&News::Back));
        }
    }

    #[test]
    fn a_peer_that_acknowledges_probes_is_kept_between_rare_beacons() {
        let mut watch = Watch::new();
        let mut station = Station {
            beacon_interval_tu: Some(1000),
            ..peer()
        };
        watch.look(Some(station));
        let mut heard = watch.now;
        let mut probes = 0;
        for _ in 0..300 {
            let probed = watch.stations.take_probes(watch.now).len() as u32;
            probes += probed;
            station.tx_packets = station.tx_packets.map(|count| count + probed);
            if probed > 0 {
                heard = watch.now;
            }
            let next = watch.now + watch.stations.look_interval(MESH);
            station.inactive_ms = Some((next - heard).as_millis() as u32);
            assert!(!is_lost(&watch.look(Some(station))));
        }
        assert!(probes > 50, "only {probes} probes");
    }

    #[test]
    fn a_peering_that_ends_is_a_loss_at_once_and_its_return_is_told() {
        let mut watch = Watch::new();
        let ended = Station {
            established: Some(false),
            ..peer()
        };
        assert_eq!(watch.look(Some(ended)), [], "it was never there");
        assert_eq!(watch.look(Some(peer())), [News::Back]);
        assert!(is_lost(&watch.look(Some(ended))));
        assert_eq!(watch.look(Some(ended)), [], "told once");
        assert_eq!(watch.look(Some(peer())), [News::Back]);
    }

    #[test]
    fn a_station_whose_peering_has_ended_is_to_be_forgotten_once() {
        let mut watch = Watch::new();
        let listening = Station {
            established: Some(false),
            listening: true,
            ..peer()
        };
        let closing = Station {
            listening: false,
            ..listening
        };
        let mut leftovers = |station| {
            watch.look(Some(station));
            watch.stations.take_leftovers()
        };
        assert_eq!(leftovers(listening), [], "it was no peer");
        assert_eq!(leftovers(peer()), []);
        assert_eq!(leftovers(closing), [], "its peering is being ended");
        assert_eq!(leftovers(listening), [(MESH, PEER)]);
        assert_eq!(leftovers(listening), []);
        assert_eq!(leftovers(peer()), []);
        assert_eq!(leftovers(listening), [(MESH, PEER)]);
    }

    #[test]
    fn a_station_that_was_peered_anew_between_two_looks_is_to_be_forgotten_once() {
        let mut watch = Watch::new();
        let numbered = |peering| Station { peering, ..peer() };
        let mut leftovers = |station| {
            watch.look(Some(station));
            watch.stations.take_leftovers()
        };
        assert_eq!(leftovers(numbered([7, 8])), []);
        assert_eq!(leftovers(numbered([7, 8])), []);
        assert_eq!(leftovers(numbered([9, 10])), [(MESH, PEER)]);
        assert_eq!(
            leftovers(numbered([9, 10])),
            [],
            "the kernel has not removed it yet"
        );
        assert_eq!(leftovers(numbered([11, 12])), [(MESH, PEER)]);
        assert_eq!(
            leftovers(numbered([13, 14])),
            [],
            "what was removed has come again"
        );
        assert_eq!(
            leftovers(numbered([0, 0])),
            [],
            "a driver that tells no numbers"
        );
        assert_eq!(leftovers(numbered([15, 16])), []);
    }

    #[test]
    fn a_station_that_the_kernel_removes_is_lost_but_not_one_that_a_dump_skips() {
        let mut watch = Watch::new();
        watch.look(Some(peer()));
        assert_eq!(watch.look(None), []);
        assert_eq!(watch.stations.look_interval(MESH), CLOSE_LOOK_INTERVAL);
        assert_eq!(watch.look(Some(peer())), []);
        assert_eq!(watch.look(None), []);
        assert!(is_lost(&watch.look(None)));
        watch.look(Some(peer()));
        let told = watch.stations.remove(MESH, PEER).map(|change| change.news);
        assert!(is_lost(&Vec::from_iter(told)));
        assert_eq!(watch.stations.remove(MESH, PEER), None);
    }

    #[test]
    fn a_station_without_transmissions_has_no_metric() {
        let mut watch = Watch::new();
        for _ in 0..50 {
            assert_eq!(watch.look(Some(peer())), []);
        }
        assert_eq!(watch.stations.metric(MESH, PEER), None);
    }

    /// Sends `count` frames between two looks.
    fn after(mut station: Station, count: u32) -> Station {
        station.tx_packets = station.tx_packets.map(|sent| sent + count);
        station
    }

    #[test]
    fn what_rate_control_expects_counts_and_a_lower_rate_in_use_counts_more() {
        let expecting = Station {
            expected_throughput: NonZeroU64::new(36_468_000),
            tx_bit_rate: NonZeroU64::new(78_000_000),
            ..peer()
        };
        let mut watch = Watch::new();
        let metric = |watch: &Watch| watch.stations.metric(MESH, PEER).map(Metric::get);
        watch.look(Some(expecting));
        assert_eq!(
            metric(&watch),
            Some(84),
            "57.5 and the access to the channel"
        );
        let mut slow = Station {
            tx_bit_rate: NonZeroU64::new(1_000_000),
            ..expecting
        };
        for look in 0..100 {
            slow = after(slow, 1);
            watch.look(Some(slow));
            assert!(
                look > 0 || metric(&watch) == Some(84),
                "one frame is no rate"
            );
        }
        assert!(metric(&watch) > Some(1600), "{:?}", metric(&watch));
    }

    #[test]
    fn frames_that_fail_weigh_where_rate_control_tells_nothing() {
        let metric = |failed_of_four| {
            let mut watch = Watch::new();
            let mut station = peer();
            for _ in 0..100 {
                station = after(station, 4);
                station.tx_failed = station.tx_failed.map(|failed| failed + failed_of_four);
                watch.look(Some(station));
            }
            watch.stations.metric(MESH, PEER).unwrap().get()
        };
        assert_eq!((metric(0), metric(2), metric(3)), (187, 375, 749));
    }

    #[test]
    fn probes_are_bounded_and_take_turns() {
        let mut stations = Stations::default();
        let peers: Vec<Station> = (0..40)
            .map(|last| Station {
                mac: [0x42, 0, 0, 0, 0, last],
                ..peer()
            })
            .collect();
        stations.observe(Time::from_secs(100), MESH, &peers);
        let now = Time::from_secs(102);
        let mut probed = Vec::new();
        for _ in 0..3 {
            let round = stations.take_probes(now);
            assert!(round.len() <= PROBES_MAX);
            probed.extend(round);
        }
        probed.sort_unstable();
        probed.dedup();
        assert_eq!(probed.len(), 40, "each once");
        assert_eq!(stations.take_probes(now), []);
    }

    fn any_station() -> impl Strategy<Value = Station> {
        let state = (
            any::<Option<u32>>(),
            any::<Option<bool>>(),
            any::<Option<u16>>(),
        );
        let rates = (any::<Option<u64>>(), any::<Option<u64>>());
        let counts = (
            any::<Option<u32>>(),
            any::<Option<u32>>(),
            any::<Option<u32>>(),
        );
        let mac = (0..3_u8).prop_map(|last| [2, 0, 0, 0, 0, last]);
        (mac, state, rates, counts).prop_map(|(mac, state, rates, counts)| Station {
            mac,
            inactive_ms: state.0,
            established: state.1,
            beacon_interval_tu: state.2,
            tx_bit_rate: rates.0.and_then(NonZeroU64::new),
            expected_throughput: rates.1.and_then(NonZeroU64::new),
            tx_packets: counts.0,
            tx_retries: counts.1,
            tx_failed: counts.2,
            ..Station::default()
        })
    }

    proptest! {
        #[test]
        fn whatever_drivers_tell_losses_and_returns_alternate(
            looks in prop::collection::vec(prop::collection::vec(any_station(), 0..4), 1..60),
        ) {
            let mut stations = Stations::default();
            let mut lost = std::collections::BTreeSet::new();
            for (look, seen) in looks.iter().enumerate() {
                let now = Time::from_millis(200) * look as u32;
                for change in stations.observe(now, MESH, seen) {
                    match change.news {
                        News::Lost(_) => prop_assert!(lost.insert(change.mac)),
                        News::Back => { lost.remove(&change.mac); }
                        News::Metric(_) => prop_assert!(!lost.contains(&change.mac)),
                    }
                }
                lost.retain(|mac| stations.entries.contains_key(&(MESH, *mac)));
                prop_assert!(stations.entries.len() <= 3);
                stations.take_probes(now);
            }
        }
    }
}
