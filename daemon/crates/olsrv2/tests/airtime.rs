//! The directional airtime metric: its scale (RFC 7779), and that a jittering link does not move routes.

use core::num::NonZeroU64;
use core::time::Duration;

use olsrv2::{Airtime, Measurement, Metric, Time, ACCESS, BAND, MAXIMUM_LOSS, PAUSE, SMOOTHING};
use proptest::prelude::*;

/// How often the daemon looks.
const LOOK: Duration = Duration::from_millis(200);

fn rate(bit_rate: u64) -> Measurement {
    Measurement {
        bit_rate: NonZeroU64::new(bit_rate).unwrap(),
        attempts: 0,
        delivered: 0,
    }
}

fn lossy(bit_rate: u64, attempts: u32, delivered: u32) -> Measurement {
    Measurement {
        attempts,
        delivered,
        ..rate(bit_rate)
    }
}

fn first(measurement: Measurement) -> u32 {
    Airtime::default().measure(Time::ZERO, measurement).get()
}

/// The metrics advertised when measurements are taken one after the other, `every` so often.
fn advertised(measurements: impl IntoIterator<Item = Measurement>, every: Duration) -> Vec<Metric> {
    let mut airtime = Airtime::default();
    let looks = (0..).map(|look| look * every);
    let measured = looks.zip(measurements);
    measured
        .map(|(now, measurement)| airtime.measure(now, measurement))
        .collect()
}

fn changes(advertised: &[Metric]) -> usize {
    advertised
        .windows(2)
        .filter(|pair| pair[0] != pair[1])
        .count()
}

#[test]
fn the_scale_is_that_of_rfc_7779() {
    assert_eq!(first(rate(1_000)), (1 << 21) + ACCESS);
    assert_eq!(first(rate(1_000_000)), 2097 + ACCESS);
    assert_eq!(first(rate(54_000_000)), 39 + ACCESS);
    assert_eq!(
        first(rate(1)),
        Metric::MAX.get(),
        "slower than can be advertised"
    );
    assert_eq!(
        first(rate(u64::MAX)),
        ACCESS,
        "nothing is faster than the access to the channel"
    );
}

#[test]
fn two_fast_hops_are_no_better_than_one_of_half_the_rate_but_than_one_of_a_tenth() {
    let path = |hops, bit_rate| hops * first(rate(bit_rate));
    assert!(path(2, 36_000_000) > path(1, 18_000_000));
    assert!(path(2, 36_000_000) < path(1, 3_600_000));
}

#[test]
fn loss_multiplies_airtime_up_to_the_maximum() {
    let lossless = first(rate(1_000_000));
    assert_eq!(first(lossy(1_000_000, 10, 10)), lossless);
    assert_eq!(first(lossy(1_000_000, 20, 10)), 2 * lossless);
    for (attempts, delivered) in [(100, 1), (1, 0), (u32::MAX, 1)] {
        let worst = first(lossy(1_000_000, attempts, delivered));
        assert_eq!(worst, 16_985, "{attempts} for {delivered}");
        assert_eq!((worst + 4) / lossless, MAXIMUM_LOSS);
    }
    assert_eq!(
        first(lossy(1_000_000, 3, 9)),
        lossless,
        "never better than the bit rate"
    );
}

#[test]
fn a_link_that_breaks_down_is_told_at_once_and_then_in_steps() {
    let mut airtime = Airtime::default();
    let good = airtime.measure(Time::ZERO, rate(54_000_000));
    airtime.measure(PAUSE, rate(54_000_000));
    let now = PAUSE + LOOK;
    assert!(airtime.measure(now, rate(1_000_000)) > good);
    let end = now + 10 * SMOOTHING;
    let mut last = Metric::MIN;
    for look in 1..=100 {
        last = airtime.measure(now + look * LOOK, rate(1_000_000));
    }
    assert_eq!(now + 100 * LOOK, end);
    assert!((1698..=2123).contains(&last.get()), "{last:?} is near 2123");
}

#[test]
fn a_rate_that_swings_between_extremes_comes_to_rest() {
    let swing = (0..1000).map(|look| rate(if look % 2 == 0 { 6_000_000 } else { 54_000_000 }));
    let advertised = advertised(swing, LOOK);
    assert_eq!(changes(&advertised[100..]), 0, "{advertised:?}");
}

fn any_measurement() -> impl Strategy<Value = Measurement> {
    let bit_rate = prop_oneof![1..=u64::MAX, 1_000_000..1_000_000_000_u64];
    (bit_rate, any::<u32>(), any::<u32>())
        .prop_map(|(bit_rate, attempts, delivered)| lossy(bit_rate, attempts, delivered))
}

proptest! {
    #[test]
    fn a_steady_link_has_one_metric(measurement in any_measurement(), looks in 2..100_usize) {
        let advertised = advertised(std::iter::repeat_n(measurement, looks), LOOK);
        prop_assert_eq!(changes(&advertised), 0);
    }

    #[test]
    fn jitter_of_a_tenth_changes_nothing(
        centre in 1_000_000..40_000_000_u64,
        jitter in prop::collection::vec(900..=1100_u64, 2..200),
        every in 1..2000_u64,
    ) {
        // Whatever came first: all the others are within 11/9 of it, which is less than the band.
        let measurements = jitter.into_iter().map(|permille| rate(centre * permille / 1000));
        let advertised = advertised(measurements, Duration::from_millis(every));
        // Metrics below 40 are so coarse that rounding takes the rest of the band.
        prop_assume!(advertised[0].get() >= 40);
        prop_assert_eq!(changes(&advertised), 0, "{:?}", advertised);
    }

    #[test]
    fn nothing_changes_the_metric_more_often_than_once_in_a_pause(
        measurements in prop::collection::vec(any_measurement(), 2..200),
        every in 1..500_u64,
    ) {
        let every = Duration::from_millis(every);
        let span = every * measurements.len() as u32;
        let advertised = advertised(measurements, every);
        let most = span.as_millis() / PAUSE.as_millis() + 1;
        prop_assert!(changes(&advertised) as u128 <= most);
    }

    #[test]
    fn a_change_of_the_link_arrives(
        before in 1_000_000..200_000_000_u64,
        after in 1_000_000..100_000_000_u64,
        every in 10..1000_u64,
    ) {
        let every = Duration::from_millis(every);
        let settled = (10 * SMOOTHING).as_millis() / every.as_millis();
        let measurements = std::iter::once(rate(before))
            .chain(std::iter::repeat_n(rate(after), settled as usize));
        let (more, less) = BAND;
        let last = u64::from(advertised(measurements, every).last().unwrap().get());
        let right = u64::from(first(rate(after)));
        // Off by the band, and by one for rounding.
        prop_assert!((last - 1) * less <= right * more && right * less <= (last + 1) * more,
            "{} is not {}", last, right);
    }

    #[test]
    fn a_better_link_never_weighs_more(slow in 1_000..u64::MAX / 2, faster in 1..u64::MAX / 2) {
        prop_assert!(first(rate(slow + faster)) <= first(rate(slow)));
    }
}
