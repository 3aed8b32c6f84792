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
    assert_eq!(watch.look(Some(ended)), [], "reported once");
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
        "a driver that reports no numbers"
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
    let reported = watch.stations.remove(MESH, PEER).map(|change| change.news);
    assert!(is_lost(&Vec::from_iter(reported)));
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
