//! Measures the recent data rate.

use core::time::Duration;

use crate::Time;

/// Time over which a rate is measured, as long as a person waits between two views.
const WINDOW: Duration = Duration::from_secs(4);

/// The octets of this window of time and of the window before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    /// When this window started.
    since: Time,
    octets: u64,
    before: u64,
}

impl Meter {
    pub(crate) fn add(&mut self, now: Time, octets: usize) {
        self.turn(now);
        self.octets += octets as u64;
    }

    /// Returns the kilobits per second over the length of a window up to now. Of the window before, the part within
    /// that time counts.
    pub(crate) fn kbps(&self, now: Time) -> u32 {
        let mut meter = *self;
        meter.turn(now);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (window, passed) = (millis(WINDOW), millis(now.saturating_sub(meter.since)));
        let earlier = meter.before * window.saturating_sub(passed) / window;
        u32::try_from((earlier + meter.octets) * 8 / window).unwrap_or(u32::MAX)
    }

    fn turn(&mut self, now: Time) {
        let passed = now.saturating_sub(self.since);
        if passed < WINDOW {
            return;
        }
        let is_next = passed < WINDOW * 2;
        self.before = if is_next { self.octets } else { 0 };
        self.octets = 0;
        self.since = if is_next { self.since + WINDOW } else { now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds one octet per millisecond, which is 8 kbit/s.
    fn fed(meter: &mut Meter, from: u64, to: u64) {
        (from..to).for_each(|at| meter.add(Duration::from_millis(at), 1));
    }

    fn kbps(meter: &Meter, at: u64) -> u32 {
        meter.kbps(Duration::from_millis(at))
    }

    #[test]
    fn the_rate_follows_what_passes() {
        let mut meter = Meter::default();
        assert_eq!(kbps(&meter, 5000), 0);
        fed(&mut meter, 10_000, 30_000);
        for at in (30_000..31_000).step_by(100) {
            assert!((5..=8).contains(&kbps(&meter, at)), "{at}");
        }
        assert_eq!(kbps(&meter, 38_000), 0, "nothing passes any more");
        fed(&mut meter, 40_000, 60_000);
        for at in 60_000..60_002 {
            assert!((7..=8).contains(&kbps(&meter, at)), "{at}");
        }
    }

    #[test]
    fn time_and_octets_without_bound_are_borne() {
        let mut meter = Meter::default();
        for _ in 0..3 {
            meter.add(Duration::MAX / 4, 1 << 42);
            assert_eq!(meter.kbps(Duration::MAX / 4), u32::MAX);
        }
        assert_eq!(meter.kbps(Duration::MAX), 0);
    }
}
