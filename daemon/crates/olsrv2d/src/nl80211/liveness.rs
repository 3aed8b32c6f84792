//! Decides whether a station is still in reach, from how long it has been silent and whether it acknowledges frames.
//!
//! A mesh point that leaves does not say so, and the kernel keeps its station for half an hour (`mesh_plink_timeout`).
//! The inactive time shows it: beacons, frames and acknowledgements reset it to zero. A station is lost if it has been
//! silent for [`PATIENCE`] and has not acknowledged [`FAILED_FRAMES`] frames during this time, user data or our probes.
//! It is also lost if it has missed [`BEACONS_MISSED`] beacons. One poll is not enough, because a machine that stalls
//! neither sends beacons nor receives ours.
//!
//! A station that is heard again right afterwards was never gone. Each such mistake doubles the patience, up to 8
//! times, until the station has been well for [`FORGIVEN_AFTER`].

use std::time::Duration;

use olsrv2::Time;

/// Silence after which a station is suspect, about two beacons where they are frequent. From then on it is probed at
/// each poll.
pub const SUSPICION: Duration = Duration::from_millis(200);
/// Silence after which unacknowledged frames prove the loss.
pub const PATIENCE: Duration = Duration::from_millis(300);
/// Frames during [`PATIENCE`] that were repeated to the end and never acknowledged.
pub const FAILED_FRAMES: u32 = 3;
/// Number of consecutive missed beacons that proves the loss if nothing is transmitted.
pub const BEACONS_MISSED: u32 = 4;
/// Polls of a silent station before it can be called lost.
pub const SILENT_LOOKS: u32 = 3;
/// Time within which a station that is heard again counts as never having been gone.
const MISTAKEN_WITHIN: Duration = Duration::from_millis(1500);
/// Number of mistakes that double the patience; further ones do not.
const MISTAKES_MAX: u32 = 3;
/// Time without a mistake after which the mistakes are forgotten.
pub const FORGIVEN_AFTER: Duration = Duration::from_secs(60);

/// What a poll shows about a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// How long it has been silent.
    pub silent: Duration,
    /// Counter of failed frames to it; it may wrap.
    pub failed: u32,
    /// Interval of its beacons; `None` if they do not count as activity.
    pub beacon_interval: Option<Duration>,
}

/// What a poll changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Same,
    /// The station is gone.
    Lost,
    /// A station that was lost is heard again.
    Back,
}

/// Liveness of one station.
#[derive(Clone, Copy, Debug, Default)]
pub struct Liveness {
    last: Option<Time>,
    silent_looks: u32,
    failed_when_heard: u32,
    suspect: bool,
    lost_since: Option<Time>,
    mistakes: u32,
    last_loss: Time,
}

impl Liveness {
    /// Processes a poll made at `now`.
    pub fn look(&mut self, now: Time, look: Look) -> Verdict {
        let heard = self
            .last
            .replace(now)
            .map_or(look.silent < PATIENCE, |last| {
                look.silent < now.saturating_sub(last)
            });
        if heard {
            self.silent_looks = 0;
            self.failed_when_heard = look.failed;
            self.suspect = false;
            return self.heard(now);
        }
        self.silent_looks += 1;
        self.suspect = look.silent >= SUSPICION;
        if self.lost_since.is_some() || !self.proves_loss(look) {
            return Verdict::Same;
        }
        self.lost_since = Some(now);
        self.last_loss = now;
        Verdict::Lost
    }

    /// Returns whether the station is lost.
    pub fn is_lost(&self) -> bool {
        self.lost_since.is_some()
    }

    /// Returns whether it has been silent for so long that it must be polled more often.
    pub fn is_suspect(&self) -> bool {
        self.suspect && !self.is_lost()
    }

    fn heard(&mut self, now: Time) -> Verdict {
        let Some(since) = self.lost_since.take() else {
            if now > self.last_loss + FORGIVEN_AFTER {
                self.mistakes = 0;
            }
            return Verdict::Same;
        };
        if now <= since + MISTAKEN_WITHIN {
            self.mistakes = (self.mistakes + 1).min(MISTAKES_MAX);
        }
        Verdict::Back
    }

    fn proves_loss(&self, look: Look) -> bool {
        let patient = |time: Duration| look.silent >= time * (1 << self.mistakes);
        let failed = look.failed.wrapping_sub(self.failed_when_heard);
        let missed = look
            .beacon_interval
            .is_some_and(|interval| patient((interval * BEACONS_MISSED).max(PATIENCE)));
        self.silent_looks >= SILENT_LOOKS
            && (missed || patient(PATIENCE) && failed >= FAILED_FRAMES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FREQUENT: Option<Duration> = Some(Duration::from_micros(102_400));
    const RARE: Option<Duration> = Some(Duration::from_micros(1_024_000));
    const STEP: Duration = Duration::from_millis(50);

    /// Looks every 50 ms at a station that falls silent; gives the silence after which it is found lost.
    fn silence_until_lost(
        liveness: &mut Liveness,
        beacon_interval: Option<Duration>,
        failed_in_a_look: u32,
        start: Time,
    ) -> Option<Duration> {
        let (mut silent, mut failed) = (Duration::ZERO, 7);
        for look in 0..200 {
            let now = start + look * STEP;
            let seen = Look {
                silent,
                failed,
                beacon_interval,
            };
            if liveness.look(now, seen) == Verdict::Lost {
                return Some(silent);
            }
            silent += STEP;
            failed += failed_in_a_look;
        }
        None
    }

    fn heard(failed: u32) -> Look {
        Look {
            silent: Duration::ZERO,
            failed,
            beacon_interval: RARE,
        }
    }

    #[test]
    fn who_does_not_acknowledge_is_lost_after_the_patience() {
        for interval in [None, FREQUENT, RARE] {
            let silence = silence_until_lost(&mut Liveness::default(), interval, 1, Time::ZERO);
            assert_eq!(silence, Some(PATIENCE), "{interval:?}");
        }
    }

    #[test]
    fn who_sends_no_beacons_is_lost_without_any_transmission() {
        let silence =
            |interval| silence_until_lost(&mut Liveness::default(), interval, 0, Time::ZERO);
        assert_eq!(silence(FREQUENT), Some(Duration::from_millis(450)));
        assert_eq!(silence(RARE), Some(Duration::from_millis(4100)));
        assert_eq!(silence(None), None, "nothing proves that it is gone");
    }

    #[test]
    fn a_stall_of_the_machine_is_no_loss() {
        let mut liveness = Liveness::default();
        liveness.look(Time::ZERO, heard(0));
        // Two seconds later nothing was heard, and then everybody is.
        let stalled = Look {
            silent: Duration::from_secs(2),
            failed: 9,
            beacon_interval: FREQUENT,
        };
        assert_eq!(liveness.look(Time::from_secs(2), stalled), Verdict::Same);
        assert!(liveness.is_suspect());
        assert_eq!(
            liveness.look(Time::from_millis(2050), heard(9)),
            Verdict::Same
        );
        assert!(!liveness.is_suspect());
    }

    #[test]
    fn failures_of_a_station_that_is_heard_are_no_loss() {
        let mut liveness = Liveness::default();
        for look in 0..100 {
            assert_eq!(liveness.look(look * STEP, heard(10 * look)), Verdict::Same);
        }
    }

    #[test]
    fn who_returns_is_back_once_and_can_be_lost_again() {
        let mut liveness = Liveness::default();
        let mut start = Time::ZERO;
        for _ in 0..3 {
            assert_eq!(
                silence_until_lost(&mut liveness, FREQUENT, 1, start),
                Some(PATIENCE)
            );
            assert!(liveness.is_lost());
            start += 10 * MISTAKEN_WITHIN;
            assert_eq!(liveness.look(start, heard(0)), Verdict::Back);
            assert_eq!(liveness.look(start + STEP, heard(0)), Verdict::Same);
            start += 2 * STEP;
        }
    }

    #[test]
    fn each_mistake_doubles_the_patience_until_it_is_forgiven() {
        let mut liveness = Liveness::default();
        let mut start = Time::ZERO;
        for factor in [1, 2, 4, 8, 8] {
            let silence = silence_until_lost(&mut liveness, FREQUENT, 1, start);
            assert_eq!(silence, Some(factor * PATIENCE));
            start += factor * PATIENCE + STEP;
            assert_eq!(liveness.look(start, heard(0)), Verdict::Back);
            start += STEP;
        }
        start += FORGIVEN_AFTER;
        liveness.look(start, heard(0));
        liveness.look(start + STEP, heard(0));
        let silence = silence_until_lost(&mut liveness, FREQUENT, 1, start + 2 * STEP);
        assert_eq!(silence, Some(PATIENCE));
    }

    proptest! {
        #[test]
        fn whatever_is_seen_verdicts_alternate_and_losses_are_rare(
            looks in prop::collection::vec((0..3000_u64, any::<u32>(), 1..400_u64), 1..300),
        ) {
            let (mut liveness, mut now) = (Liveness::default(), Time::ZERO);
            let mut losses = Vec::new();
            for (silent, failed, pause) in looks {
                now += Duration::from_millis(pause);
                let look = Look {
                    silent: Duration::from_millis(silent),
                    failed,
                    beacon_interval: FREQUENT,
                };
                let was_lost = liveness.is_lost();
                match liveness.look(now, look) {
                    Verdict::Lost => { prop_assert!(!was_lost); losses.push(now); }
                    Verdict::Back => prop_assert!(was_lost),
                    Verdict::Same => prop_assert_eq!(was_lost, liveness.is_lost()),
                }
                prop_assert!(!(liveness.is_lost() && liveness.is_suspect()));
            }
        }
    }
}
