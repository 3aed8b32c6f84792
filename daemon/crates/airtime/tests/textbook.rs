//! The model gives what is known of 802.11: closed forms, Bianchi's model, the hidden station, and the line of relays.

use std::time::Duration;

use airtime::scenario::{run, Flow, Load, Outcome};
use airtime::{Attempt, Frame, Medium, Phy, Rate, Reach, Receiver, Sent, Settings, Time, What};

const SPAN: Duration = Duration::from_secs(20);
const OCTETS: usize = 1500;
const SNR_DB: f64 = 40.0;

fn rate(kbps: u32) -> Rate {
    Rate::legacy(kbps, false).unwrap()
}

fn settings(phy: Phy, seed: u64) -> Settings {
    Settings {
        phy,
        seed,
        ..Settings::default()
    }
}

fn outcomes(settings: Settings, reach: Reach, flows: &[Flow]) -> Vec<Outcome> {
    let mut medium = Medium::new(settings, reach, Time::ZERO);
    run(&mut medium, flows, Time::ZERO, SPAN)
}

fn sum(flows: &[Flow], outcomes: &[Outcome]) -> f64 {
    let both = flows.iter().zip(outcomes);
    both.map(|(flow, outcome)| outcome.mbit_s(flow, SPAN)).sum()
}

/// Stations 1..=n send to station 0, and all hear each other.
fn contention(phy: Phy, senders: usize, kbps: u32, seed: u64) -> f64 {
    let flows: Vec<Flow> = (1..=senders)
        .map(|id| Flow::saturated(&[id, 0], OCTETS, rate(kbps)))
        .collect();
    let reach = Reach::all(senders + 1, SNR_DB);
    sum(&flows, &outcomes(settings(phy, seed), reach, &flows))
}

/// One exchange without collisions: DIFS, frame, SIFS, acknowledgement.
fn success(phy: &Phy, kbps: u32) -> f64 {
    let ack = phy.duration(phy.response_rate(rate(kbps)), 14);
    (phy.difs() + phy.duration(rate(kbps), OCTETS) + phy.sifs + ack).as_secs_f64()
}

#[test]
fn one_station_reaches_the_closed_form() {
    for (phy, kbps) in [
        (Phy::b(), 1000),
        (Phy::b(), 11_000),
        (Phy::g(), 6000),
        (Phy::g(), 54_000),
        (Phy::a(), 54_000),
    ] {
        let slots = phy.slot.as_secs_f64() * f64::from(phy.cw_min) / 2.0;
        let expected = OCTETS as f64 * 8.0 / (success(&phy, kbps) + slots) / 1e6;
        let found = contention(phy, 1, kbps, 1);
        assert!(
            (found / expected - 1.0).abs() < 0.005,
            "{kbps} kbit/s: {found} Mbit/s, expected {expected}"
        );
    }
}

/// Bianchi's model of saturated stations (IEEE JSAC 18(3), 2000, equations 7, 9 and 13), with the duration of a
/// collision that this model has.
fn bianchi(phy: &Phy, stations: f64, kbps: u32) -> f64 {
    let window = f64::from(phy.cw_min + 1);
    let stages = (f64::from(phy.cw_max + 1) / window).log2();
    let tau = |p: f64| {
        let doubled = (0..stages as i32).map(|k| (2.0 * p).powi(k)).sum::<f64>();
        2.0 / (1.0 + window + p * window * doubled)
    };
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..60 {
        let p = (low + high) / 2.0;
        if 1.0 - (1.0 - tau(p)).powf(stations - 1.0) > p {
            low = p;
        } else {
            high = p;
        }
    }
    let tau = tau((low + high) / 2.0);
    let some = 1.0 - (1.0 - tau).powf(stations);
    let alone = stations * tau * (1.0 - tau).powf(stations - 1.0);
    let collision =
        phy.duration(rate(kbps), OCTETS) + phy.sifs + phy.slot + Duration::from_micros(25);
    let mean = (1.0 - some) * phy.slot.as_secs_f64()
        + alone * success(phy, kbps)
        + (some - alone) * collision.as_secs_f64();
    alone * OCTETS as f64 * 8.0 / mean / 1e6
}

#[test]
fn several_stations_reach_bianchis_model_within_a_few_per_cent() {
    for stations in [2, 3, 5, 10, 20] {
        let expected = bianchi(&Phy::a(), f64::from(stations), 24_000);
        let found = contention(Phy::a(), stations as usize, 24_000, 1);
        assert!(
            (found / expected - 1.0).abs() < 0.03,
            "{stations} stations: {found} Mbit/s, expected {expected}"
        );
    }
}

#[test]
fn stations_that_hear_each_other_get_equal_shares() {
    let flows: Vec<Flow> = (1..=4)
        .map(|id| Flow::saturated(&[id, 0], OCTETS, rate(24_000)))
        .collect();
    let found = outcomes(settings(Phy::g(), 1), Reach::all(5, SNR_DB), &flows);
    let delivered = found.iter().map(|outcome| outcome.delivered);
    let (least, most) = (delivered.clone().min().unwrap(), delivered.max().unwrap());
    assert!(most as f64 / (least as f64) < 1.1, "{least} to {most}");
}

/// Stations 1 and 2 send to station 0; `hidden`: they do not hear each other.
fn pair(hidden: bool, octets: usize, threshold: Option<usize>) -> f64 {
    let mut reach = Reach::all(3, SNR_DB);
    if hidden {
        reach = Reach::none(3);
        reach.link(0, 1, SNR_DB);
        reach.link(0, 2, SNR_DB);
    }
    let flows = [1, 2].map(|id| Flow::saturated(&[id, 0], octets, rate(6000)));
    let mut medium = Medium::new(settings(Phy::g(), 1), reach, Time::ZERO);
    for id in [1, 2] {
        medium.set_rts_threshold(id, threshold);
    }
    let found = run(&mut medium, &flows, Time::ZERO, SPAN);
    sum(&flows, &found)
}

#[test]
fn hidden_stations_destroy_each_others_long_frames_and_rts_saves_them() {
    let heard = pair(false, OCTETS, None);
    let hidden = pair(true, OCTETS, None);
    let saved = pair(true, OCTETS, Some(0));
    assert!(hidden < heard / 4.0, "{hidden} of {heard} Mbit/s");
    assert!(saved > 4.0 * hidden, "{saved} after {hidden} Mbit/s");
    assert!(saved < heard, "{saved} of {heard} Mbit/s");
}

#[test]
fn rts_costs_throughput_where_nobody_is_hidden_and_where_frames_are_short() {
    assert!(pair(false, OCTETS, Some(0)) < pair(false, OCTETS, None));
    let (short, long) = (pair(true, 100, Some(0)), pair(true, OCTETS, Some(0)));
    let gain = short / pair(true, 100, None);
    assert!(gain < 1.1, "gain {gain} with 100 octets");
    assert!(long / pair(true, OCTETS, None) > 4.0);
}

#[test]
fn a_frame_up_to_the_threshold_goes_without_rts() {
    assert_eq!(pair(true, 500, Some(500)), pair(true, 500, None));
    assert_ne!(pair(true, 501, Some(500)), pair(true, 501, None));
}

/// Throughput of one flow along a line.
fn line(hops: usize, senses: usize) -> f64 {
    let path: Vec<usize> = (0..=hops).collect();
    let flows = [Flow::saturated(&path, OCTETS, rate(24_000))];
    let reach = Reach::line(hops + 1, SNR_DB, senses);
    sum(&flows, &outcomes(settings(Phy::g(), 1), reach, &flows))
}

#[test]
fn throughput_falls_with_the_number_of_hops_that_share_the_air() {
    let one = line(1, 9);
    for hops in 2..=4 {
        let share = one / line(hops, 9);
        assert!(
            (share / hops as f64 - 1.0).abs() < 0.05,
            "{hops} hops: 1/{share}"
        );
    }
}

#[test]
fn a_long_line_reuses_the_air_where_carrier_sense_ends() {
    let (one, six) = (line(1, 2), line(6, 2));
    assert!(six > 1.3 * one / 6.0, "{six} of {one} Mbit/s");
    assert!(six < one / 3.0, "{six} of {one} Mbit/s");
}

#[test]
fn a_light_load_arrives_whole_and_at_once() {
    let flow = Flow {
        load: Load::Every(Duration::from_millis(10)),
        ..Flow::saturated(&[0, 1, 2], OCTETS, rate(24_000))
    };
    let found = outcomes(settings(Phy::g(), 1), Reach::line(3, SNR_DB, 2), &[flow]);
    assert_eq!((found[0].offered, found[0].lost), (2001, 0));
    assert!(found[0].delivered >= 2000);
    assert!(found[0].delay_max < Duration::from_millis(3));
}

#[test]
fn aggregates_send_more_at_the_same_rate() {
    let of = |aggregate| {
        let flow = Flow {
            aggregated: true,
            ..Flow::saturated(&[1, 0], OCTETS, Rate::ht(7, false, false).unwrap())
        };
        let settings = Settings {
            aggregate,
            ..Settings::default()
        };
        let flows = [flow];
        sum(&flows, &outcomes(settings, Reach::all(2, SNR_DB), &flows))
    };
    let (single, many) = (of(1), of(32));
    assert!(single < 40.0, "{single} Mbit/s");
    assert!(many > 58.0 && many < 65.0, "{many} Mbit/s");
}

#[test]
fn with_capture_the_nearer_of_two_hidden_stations_wins() {
    let of = |capture_db| {
        let mut reach = Reach::none(3);
        reach.link(0, 1, 45.0);
        reach.link(0, 2, 25.0);
        let flows = [1, 2].map(|id| Flow::saturated(&[id, 0], OCTETS, rate(6000)));
        let settings = Settings {
            capture_db,
            ..Settings::default()
        };
        let found = outcomes(settings, reach, &flows);
        (found[0].delivered, found[1].delivered)
    };
    let (near, far) = of(None);
    assert!(near < 2 * far + 1000, "{near} and {far}");
    let (near, far) = of(Some(10.0));
    assert!(near > 10 * far, "{near} and {far}");
}

/// What is on the air when station 0 has so many frames for somebody, each of them tried twice.
fn watched(to: Receiver, frames: u64, rts: bool) -> Vec<Sent> {
    let rate = Rate::ht(4, false, false).unwrap();
    let settings = Settings {
        aggregate: 8,
        ..settings(Phy::g(), 1)
    };
    let mut medium = Medium::new(settings, Reach::all(2, SNR_DB), Time::ZERO);
    medium.watch();
    for id in 0..frames {
        let attempts = vec![Attempt {
            rate,
            count: 2,
            rts,
        }];
        let frame = Frame {
            id,
            to,
            octets: OCTETS,
            attempts,
            acknowledged: true,
            aggregated: true,
            channel: 1,
        };
        medium.handle_frame(Time::ZERO, 0, frame);
    }
    medium.handle_timeout(SPAN);
    let sent = std::iter::from_fn(|| medium.poll_sent()).collect();
    assert_eq!(medium.poll_sent(), None);
    sent
}

#[test]
fn who_watches_sees_an_exchange_with_a_sifs_between_its_frames() {
    let sent = watched(Receiver::Station(1), 3, true);
    let kinds: Vec<_> = sent.iter().map(|one| (one.from, one.what)).collect();
    let expected = [
        (0, What::Rts),
        (1, What::Cts),
        (0, What::Data),
        (1, What::BlockAck),
    ];
    assert_eq!(kinds, expected);
    let carried: Vec<_> = sent[2]
        .carried
        .iter()
        .map(|one| (one.id, one.octets, one.retry))
        .collect();
    assert_eq!(
        carried,
        [(0, OCTETS, false), (1, OCTETS, false), (2, OCTETS, false)]
    );
    let phy = Phy::g();
    for (pair, octets) in sent.windows(2).zip([20, 14, 3 * 1504]) {
        let gap = pair[1].at - pair[0].at - phy.duration(pair[0].rate, octets);
        assert_eq!(gap, Duration::from_micros(10), "{pair:?}");
    }
}

#[test]
fn a_single_frame_has_an_ack_and_what_was_on_the_air_before_is_marked() {
    let sent = watched(Receiver::Station(1), 1, false);
    let kinds: Vec<_> = sent.iter().map(|one| one.what).collect();
    assert_eq!(kinds, [What::Data, What::Ack]);
    let again = watched(Receiver::Nobody, 1, false);
    let marks: Vec<_> = again.iter().map(|one| one.carried[0].retry).collect();
    assert_eq!(marks, [false, true]);
    let asked = watched(Receiver::Nobody, 1, true);
    assert!(asked.iter().all(|one| one.what == What::Rts), "{asked:?}");
}

#[test]
fn nothing_is_kept_while_nobody_watches() {
    let flows = [Flow::saturated(&[0, 1], OCTETS, rate(24_000))];
    let mut medium = Medium::new(settings(Phy::g(), 1), Reach::all(2, SNR_DB), Time::ZERO);
    run(&mut medium, &flows, Time::ZERO, SPAN);
    assert_eq!(medium.poll_sent(), None);
}
