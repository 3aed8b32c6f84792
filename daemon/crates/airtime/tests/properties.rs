//! Whatever is sent, in whatever place: every frame ends exactly once, time goes forward, and nothing is invented.

use std::collections::BTreeMap;
use std::time::Duration;

use airtime::{Attempt, Event, Frame, Medium, Phy, Rate, Reach, Receiver, Settings, Time};
use proptest::prelude::*;

const STATIONS: usize = 5;
const CHANNEL: u32 = 2412;

fn rates() -> impl Strategy<Value = Rate> {
    prop_oneof![
        prop::sample::select(vec![1000, 5500, 11_000, 6000, 24_000, 54_000])
            .prop_map(|kbps| Rate::legacy(kbps, false).unwrap()),
        (0_u8..16, any::<bool>(), any::<bool>())
            .prop_map(|(mcs, wide, short)| Rate::ht(mcs, wide, short).unwrap()),
    ]
}

fn frames() -> impl Strategy<Value = Vec<(u64, usize, Frame)>> {
    let to = prop_oneof![
        Just(Receiver::All),
        Just(Receiver::Nobody),
        (0..STATIONS).prop_map(Receiver::Station),
        Just(Receiver::Station(99)),
    ];
    let rows = prop::collection::vec((rates(), 0_u8..4, any::<bool>()), 0..4);
    let frame = (to, 0_usize..3000, rows, any::<bool>(), any::<bool>());
    let one = (0_u64..20_000, 0..STATIONS + 1, frame).prop_map(
        |(micros, from, (to, octets, rows, acknowledged, aggregated))| {
            let attempts = rows
                .into_iter()
                .map(|(rate, count, rts)| Attempt { rate, count, rts })
                .collect();
            let frame = Frame {
                id: 0,
                to,
                octets,
                attempts,
                acknowledged,
                aggregated,
                channel: CHANNEL,
            };
            (micros, from, frame)
        },
    );
    prop::collection::vec(one, 1..60)
}

fn reaches() -> impl Strategy<Value = Reach> {
    let paths = prop::collection::vec((0..STATIONS, 0..STATIONS, -10.0..45.0_f64), 0..20);
    paths.prop_map(|paths| {
        let mut reach = Reach::none(STATIONS);
        for (from, to, snr_db) in paths {
            reach.path(from, to, snr_db);
        }
        reach
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let phys = prop::sample::select(vec![Phy::a(), Phy::b(), Phy::g()]);
    let capture = prop::option::of(3.0..15.0_f64);
    (
        phys,
        capture,
        1_usize..12,
        0_usize..8,
        any::<bool>(),
        any::<u64>(),
    )
        .prop_map(
            |(phy, capture_db, queue, aggregate, overhear, seed)| Settings {
                phy,
                capture_db,
                queue,
                aggregate,
                overhear,
                seed,
                ..Settings::default()
            },
        )
}

/// Gives the frames at their times and runs until nothing is left to do.
fn history(
    settings: &Settings,
    reach: &Reach,
    frames: &[(u64, usize, Frame)],
    thresholds: &[Option<usize>],
) -> Vec<(Time, Event)> {
    let mut medium = Medium::new(settings.clone(), reach.clone(), Time::ZERO);
    for (id, threshold) in thresholds.iter().enumerate() {
        medium.set_rts_threshold(id, *threshold);
    }
    let mut given: Vec<_> = frames.to_vec();
    given.sort_by_key(|(micros, ..)| *micros);
    let mut found = Vec::new();
    let (mut now, mut next) = (Time::ZERO, 0);
    loop {
        let due = given
            .get(next)
            .map(|(micros, ..)| Duration::from_micros(*micros));
        let Some(at) = due.into_iter().chain(medium.poll_timeout()).min() else {
            return found;
        };
        assert!(at >= now, "time went back from {now:?} to {at:?}");
        now = at;
        assert!(now < Duration::from_secs(100), "it never ends");
        if due == Some(at) {
            let (_, from, frame) = given[next].clone();
            let id = next as u64;
            medium.handle_frame(now, from, Frame { id, ..frame });
            next += 1;
        }
        medium.handle_timeout(now);
        while let Some(event) = medium.poll_event() {
            found.push((now, event));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_frame_ends_once_and_only_what_was_sent_is_received(
        settings in settings(), reach in reaches(), frames in frames(),
        thresholds in prop::collection::vec(prop::option::of(0_usize..3000), STATIONS),
    ) {
        let mut given = frames.clone();
        given.sort_by_key(|(micros, ..)| *micros);
        let mut ends: BTreeMap<u64, (bool, u32)> = BTreeMap::new();
        let mut arrived: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, event) in history(&settings, &reach, &frames, &thresholds) {
            match event {
                Event::Done { id, acknowledged, attempts, station, .. } => {
                    let (_, from, frame) = &given[id as usize];
                    prop_assert_eq!(station, *from);
                    let allowed: u32 = frame.attempts.iter().map(|row| u32::from(row.count)).sum();
                    prop_assert!(attempts <= allowed.max(1));
                    prop_assert!(ends.insert(id, (acknowledged, attempts)).is_none(), "{} ended twice", id);
                }
                Event::Received { id, from, to, addressed, duplicate, snr_db, .. } => {
                    let (_, sender, frame) = &given[id as usize];
                    prop_assert_eq!(from, *sender);
                    prop_assert!(to != from && snr_db > f64::NEG_INFINITY);
                    prop_assert!(!ends.contains_key(&id), "{} was received after its end", id);
                    let mine = frame.to == Receiver::Station(to);
                    prop_assert_eq!(addressed, mine || frame.to == Receiver::All);
                    prop_assert!(addressed || settings.overhear);
                    let before = arrived.get(&id).copied().unwrap_or(0);
                    prop_assert_eq!(duplicate, mine && before > 0);
                    *arrived.entry(id).or_default() += usize::from(mine);
                }
            }
        }
        for (id, (_, from, frame)) in given.iter().enumerate() {
            let id = id as u64;
            if *from == STATIONS {
                prop_assert!(!ends.contains_key(&id), "an unknown station sent");
                continue;
            }
            let (acknowledged, attempts) = ends[&id];
            let unicast = frame.acknowledged && frame.to != Receiver::All;
            if unicast && acknowledged {
                prop_assert!(arrived.contains_key(&id), "{} was acknowledged by nobody", id);
            }
            prop_assert!(unicast || acknowledged == (attempts > 0));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run(
        settings in settings(), reach in reaches(), frames in frames(),
    ) {
        prop_assert_eq!(
            history(&settings, &reach, &frames, &[]),
            history(&settings, &reach, &frames, &[])
        );
    }
}

#[test]
fn another_seed_gives_another_run() {
    let frame = Frame {
        id: 0,
        to: Receiver::Station(0),
        octets: 1000,
        attempts: vec![Attempt {
            rate: Rate::legacy(6000, false).unwrap(),
            count: 7,
            rts: false,
        }],
        acknowledged: true,
        aggregated: false,
        channel: CHANNEL,
    };
    let frames: Vec<_> = (0..20)
        .map(|number| (0, 1 + number % 2, frame.clone()))
        .collect();
    let of = |seed| {
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        history(&settings, &Reach::all(3, 40.0), &frames, &[])
    };
    assert_ne!(of(1), of(2));
}

#[test]
fn a_full_queue_refuses_and_says_so() {
    let frame = Frame {
        id: 7,
        to: Receiver::Nobody,
        octets: 100,
        attempts: vec![],
        acknowledged: true,
        aggregated: false,
        channel: CHANNEL,
    };
    let settings = Settings {
        queue: 2,
        ..Settings::default()
    };
    let mut medium = Medium::new(settings, Reach::none(1), Time::ZERO);
    for _ in 0..1000 {
        medium.handle_frame(Time::ZERO, 0, frame.clone());
    }
    assert_eq!(medium.queued(0), 2);
    assert_eq!(medium.counters(0).refused, 998);
    let refused = std::iter::from_fn(|| medium.poll_event());
    assert_eq!(
        refused
            .filter(|event| matches!(
                event,
                Event::Done {
                    attempts: 0,
                    acknowledged: false,
                    ..
                }
            ))
            .count(),
        998
    );
}

#[test]
fn stations_on_different_channels_do_not_hear_each_other() {
    let on = |micros, from, channel| {
        let frame = Frame {
            id: 0,
            to: Receiver::All,
            octets: 500,
            attempts: vec![],
            acknowledged: false,
            aggregated: false,
            channel,
        };
        (micros, from, frame)
    };
    // A station's channel is that of its last frame.
    let last_received = |other| {
        let frames = [on(0, 1, other), on(5000, 0, CHANNEL)];
        let events = history(&Settings::default(), &Reach::all(2, 40.0), &frames, &[]);
        events
            .iter()
            .any(|(_, event)| matches!(event, Event::Received { from: 0, .. }))
    };
    assert!(last_received(CHANNEL));
    assert!(!last_received(CHANNEL + 25));
}

#[test]
fn a_reservation_that_nothing_follows_is_void_and_one_that_is_used_holds() {
    let rate = Rate::legacy(6000, false).unwrap();
    let frame = |to, rts| Frame {
        id: 0,
        to,
        octets: 1500,
        attempts: vec![Attempt {
            rate,
            count: 1,
            rts,
        }],
        acknowledged: true,
        aggregated: false,
        channel: CHANNEL,
    };
    // Station 1 has a frame while the RTS of station 0 is on the air. It does not hear station 2, which answers or is not there.
    let end_of_other = |to| {
        let mut reach = Reach::none(3);
        reach.link(0, 1, 40.0);
        reach.link(0, 2, 40.0);
        let frames = [
            (0, 0, frame(to, true)),
            (150, 1, frame(Receiver::Station(0), false)),
        ];
        let events = history(&Settings::default(), &reach, &frames, &[]);
        let other = |event: &Event| matches!(event, Event::Done { station: 1, .. });
        let found = events.iter().find(|(_, event)| other(event));
        found.unwrap().0
    };
    let data = Duration::from_micros(2000);
    assert!(end_of_other(Receiver::Nobody) < data + Duration::from_micros(600));
    assert!(end_of_other(Receiver::Station(2)) > 2 * data);
}
