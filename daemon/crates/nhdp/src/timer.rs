//! Decides when a periodic message is sent: intervals, triggers and jitter (RFC 5148).

use core::time::Duration;

use crate::types::Time;

/// Timing of a message that is sent periodically and after changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Longest time between two messages.
    pub interval: Duration,
    /// Shortest time between two messages, before jitter.
    pub min_interval: Duration,
    /// MAXJITTER of periodic messages: how much the time between two may be shorter than `interval` and `min_interval`
    /// (RFC 5148, sections 5.1 and 5.2).
    pub periodic_jitter: Duration,
    /// MAXJITTER of triggered messages (RFC 5148, section 5.2).
    pub triggered_jitter: Duration,
}

impl Pace {
    /// Returns how many messages fit into the shortest interval between two periodic ones, at least 1.
    pub fn messages_per_interval(&self) -> usize {
        let shortest = self.interval.saturating_sub(self.periodic_jitter);
        let share = self.min_interval.as_nanos().max(1);
        usize::try_from(shortest.as_nanos() / share)
            .unwrap_or(usize::MAX)
            .max(1)
    }
}

/// The time of the next message.
#[derive(Clone, Debug)]
pub struct MessageTimer {
    next: Time,
    /// No message is sent before this time.
    allowed: Time,
    /// A message is sent at this time even if others were sent before.
    planned: Option<Time>,
}

impl MessageTimer {
    /// Returns a timer whose first message is due as if triggered now.
    pub fn start(now: Time, pace: &Pace, rng: &mut fastrand::Rng) -> Self {
        Self {
            next: now + jitter(pace.triggered_jitter, rng),
            allowed: now,
            planned: None,
        }
    }

    /// Returns when the next message is due.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Requests a message as soon as jitter and the minimum interval allow.
    pub fn trigger(&mut self, now: Time, pace: &Pace, rng: &mut fastrand::Rng) {
        self.bring_forward(now + jitter(pace.triggered_jitter, rng));
    }

    /// Requests a message at `at`, in addition to any that is sent before. A later call replaces the time.
    pub fn plan(&mut self, at: Time) {
        self.planned = self.planned.max(Some(at));
        self.bring_forward(at);
    }

    /// Records that a message was sent.
    pub fn sent(&mut self, now: Time, pace: &Pace, rng: &mut fastrand::Rng) {
        let reduced = jitter(pace.periodic_jitter.min(pace.min_interval), rng);
        self.allowed = now + (pace.min_interval - reduced);
        self.skip(now, pace, rng);
    }

    /// Waits for the next interval although no message was sent.
    pub fn skip(&mut self, now: Time, pace: &Pace, rng: &mut fastrand::Rng) {
        self.next = now + (pace.interval - jitter(pace.periodic_jitter.min(pace.interval), rng));
        self.planned = self.planned.filter(|at| *at > now);
        if let Some(at) = self.planned {
            self.bring_forward(at);
        }
    }

    fn bring_forward(&mut self, wanted: Time) {
        self.next = self.next.min(wanted.max(self.allowed));
    }
}

/// Returns a random time from 0 to `max`, inclusive.
pub fn jitter(max: Duration, rng: &mut fastrand::Rng) -> Duration {
    let max = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(rng.u64(0..=max))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        interval: Duration::from_secs(2),
        min_interval: Duration::from_millis(200),
        periodic_jitter: Duration::from_millis(100),
        triggered_jitter: Duration::from_millis(30),
    };

    fn sent_at(now: Time, rng: &mut fastrand::Rng) -> MessageTimer {
        let mut timer = MessageTimer::start(now, &PACE, rng);
        timer.sent(now, &PACE, rng);
        timer
    }

    #[test]
    fn the_shortest_interval_has_room_for_whole_messages_and_at_least_one() {
        let paced = |min_interval| {
            Pace {
                min_interval,
                ..PACE
            }
            .messages_per_interval()
        };
        assert_eq!(PACE.messages_per_interval(), 9, "1.9 s, one each 0.2 s");
        assert_eq!(paced(Duration::from_secs(2)), 1);
        assert_eq!(paced(Duration::ZERO), 1_900_000_000);
    }

    #[test]
    fn the_first_message_goes_out_within_the_jitter_of_a_trigger() {
        let mut rng = fastrand::Rng::with_seed(7);
        let now = Time::from_secs(10);
        for _ in 0..100 {
            let first = MessageTimer::start(now, &PACE, &mut rng).next();
            assert!(first >= now && first <= now + PACE.triggered_jitter);
        }
    }

    #[test]
    fn periodic_jitter_only_shortens_the_interval() {
        let mut rng = fastrand::Rng::with_seed(1);
        let now = Time::from_secs(10);
        let delays: alloc::vec::Vec<_> = (0..1000)
            .map(|_| sent_at(now, &mut rng).next() - now)
            .collect();
        assert!(delays.iter().all(|d| *d <= PACE.interval));
        assert!(delays
            .iter()
            .all(|d| *d >= PACE.interval - PACE.periodic_jitter));
        assert!(delays.iter().max().unwrap().as_millis() > 1995);
        assert!(delays.iter().min().unwrap().as_millis() < 1905);
    }

    #[test]
    fn a_trigger_waits_for_the_minimum_interval() {
        let mut rng = fastrand::Rng::with_seed(2);
        let now = Time::from_secs(10);
        let mut timer = sent_at(now, &mut rng);
        timer.trigger(now + Duration::from_millis(5), &PACE, &mut rng);
        assert!(timer.next() >= now + PACE.min_interval - PACE.periodic_jitter);
        assert!(timer.next() <= now + PACE.min_interval);
    }

    #[test]
    fn the_minimum_interval_is_jittered() {
        let mut rng = fastrand::Rng::with_seed(6);
        let now = Time::from_secs(10);
        let waits: alloc::collections::BTreeSet<_> = (0..100)
            .map(|_| {
                let mut timer = sent_at(now, &mut rng);
                timer.trigger(now, &PACE, &mut rng);
                timer.next()
            })
            .collect();
        let spread = *waits.last().unwrap() - *waits.first().unwrap();
        assert!(spread > PACE.periodic_jitter / 2, "{spread:?}");
    }

    #[test]
    fn a_trigger_after_the_minimum_interval_waits_for_jitter_alone() {
        let mut rng = fastrand::Rng::with_seed(3);
        let now = Time::from_secs(10);
        let mut timer = sent_at(now, &mut rng);
        let later = now + Duration::from_secs(1);
        timer.trigger(later, &PACE, &mut rng);
        assert!(timer.next() >= later && timer.next() <= later + PACE.triggered_jitter);
    }

    #[test]
    fn a_plan_never_delays_a_message() {
        let mut rng = fastrand::Rng::with_seed(4);
        let now = Time::from_secs(10);
        let mut timer = sent_at(now, &mut rng);
        let next = timer.next();
        timer.plan(now + Duration::from_secs(60));
        assert_eq!(timer.next(), next);
    }

    #[test]
    fn a_plan_outlives_messages_that_go_out_before() {
        let mut rng = fastrand::Rng::with_seed(5);
        let now = Time::from_secs(10);
        let mut timer = sent_at(now, &mut rng);
        let planned = now + Duration::from_millis(700);
        timer.plan(planned);
        timer.sent(now + Duration::from_millis(100), &PACE, &mut rng);
        assert_eq!(timer.next(), planned);
        timer.sent(planned, &PACE, &mut rng);
        assert!(timer.next() >= planned + PACE.interval - PACE.periodic_jitter);
    }
}
