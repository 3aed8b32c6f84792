//! Limits how often something is done: an expensive calculation, or a reaction to others.

use core::time::Duration;

use nhdp::Time;

/// Longest pause before a calculation that is urgent.
const URGENT: Duration = Duration::from_millis(100);

/// A calculation that is asked for more often than it should run. After a quiet time it runs at once; while requests
/// continue, the pauses grow.
#[derive(Debug, Default)]
pub(crate) struct Paused {
    due: Option<Time>,
    last: Option<Time>,
    pause: Duration,
}

impl Paused {
    /// Asks for the calculation.
    pub(crate) fn request(&mut self, now: Time) {
        let allowed = self.last.map_or(now, |last| last + self.pause);
        self.due.get_or_insert(allowed.max(now));
    }

    /// Asks for the calculation [`URGENT`] after the last one at the latest, however long the pauses are.
    pub(crate) fn hasten(&mut self, now: Time) {
        let allowed = self.last.map_or(now, |last| last + URGENT).max(now);
        self.due = Some(self.due.map_or(allowed, |due| due.min(allowed)));
    }

    /// When the calculation is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Whether it is due at `now`; then it counts as done and the next pause doubles, from `min` up to `max`.
    pub(crate) fn start(&mut self, now: Time, min: Duration, max: Duration) -> bool {
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        let quiet = self
            .last
            .is_none_or(|last| now.saturating_sub(last) >= 2 * max);
        self.pause = if quiet {
            min
        } else {
            (2 * self.pause).clamp(min, max.max(min))
        };
        self.last = Some(now);
        self.due = None;
        true
    }
}

/// An action that is done at most once in an interval. A request that comes too soon is dropped.
#[derive(Debug)]
pub(crate) struct Spacing {
    interval: Duration,
    last: Option<Time>,
}

impl Spacing {
    pub(crate) const fn new(interval: Duration) -> Self {
        Self {
            interval,
            last: None,
        }
    }

    /// Returns whether the action is allowed at `now`; if so, it counts as done.
    pub(crate) fn start(&mut self, now: Time) -> bool {
        let allowed = self
            .last
            .is_none_or(|last| now.saturating_sub(last) >= self.interval);
        if allowed {
            self.last = Some(now);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(10);
    const MAX: Duration = Duration::from_millis(500);

    #[test]
    fn the_first_runs_at_once_and_the_next_wait_longer_and_longer() {
        let mut paused = Paused::default();
        let start = Time::from_secs(7);
        let mut times = alloc::vec::Vec::new();
        let mut now = start;
        while times.len() < 9 {
            paused.request(now);
            now = now.max(paused.due().unwrap());
            assert!(paused.start(now, MIN, MAX));
            times.push((now - start).as_millis());
        }
        assert_eq!(times, [0, 10, 30, 70, 150, 310, 630, 1130, 1630]);
    }

    #[test]
    fn what_is_urgent_waits_for_its_own_pause_alone_and_puts_nothing_off() {
        let (mut paused, mut now) = (Paused::default(), Time::from_secs(7));
        paused.hasten(now);
        assert_eq!(paused.due(), Some(now));
        for _ in 0..9 {
            paused.request(now);
            now = paused.due().unwrap();
            assert!(paused.start(now, MIN, MAX));
        }
        let later = now + MIN;
        paused.request(later);
        assert_eq!(paused.due(), Some(now + MAX));
        paused.hasten(later);
        assert_eq!(paused.due(), Some(now + URGENT));
        paused.hasten(now + MAX);
        assert_eq!(paused.due(), Some(now + URGENT));
    }

    #[test]
    fn quiet_resets_the_pause() {
        let mut paused = Paused::default();
        for now in [0, 1, 2, 3].map(Time::from_secs) {
            paused.request(now);
            assert_eq!(paused.due(), Some(now));
            assert!(paused.start(now, MIN, MAX));
            assert!(!paused.start(now, MIN, MAX));
        }
    }
}
