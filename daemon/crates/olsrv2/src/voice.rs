//! Decides whose TCs of a remote router are believed when two neighbours pass on contradicting ones.
//!
//! Anybody in reach can send TCs under another router's originator, with higher numbers, and prevent them from reaching
//! that router. A neighbour that has long passed on that router's TCs, and continues with numbers that follow its own,
//! contradicts the forged ones. Then only this neighbour is believed.

use core::net::IpAddr;
use core::time::Duration;

use nhdp::Time;

use crate::seqnum::newer;

/// Shortest time between a contradicting TC and the neighbour's own, longer than any message is in transit.
const EVIDENCE: Duration = Duration::from_secs(1);

/// Time for which only the neighbour is believed after a contradiction. Then a forger may cause one more, for one TC
/// interval.
const CONTEST_HOLD: Duration = Duration::from_secs(600);

/// The neighbour whose TCs count for a remote router.
#[derive(Debug)]
pub(crate) struct Voice {
    /// Its address.
    source: IpAddr,
    /// The newest message sequence number that came from it.
    seq: u16,
    /// Time at which it arrived.
    heard: Time,
    /// Time within which its next TC is expected.
    hold: Duration,
    /// Time since which TCs of other neighbours are believed that it has not passed on.
    overruled: Option<Time>,
    /// Time at which it contradicted another neighbour.
    contested: Option<Time>,
}

impl Voice {
    /// Starts with the first neighbour that sent a TC.
    pub(crate) fn new(now: Time, source: IpAddr, seq: u16, hold: Duration) -> Self {
        Self {
            source,
            seq,
            heard: now,
            hold,
            overruled: None,
            contested: None,
        }
    }

    /// Records a TC that is believed.
    pub(crate) fn believed(&mut self, now: Time, source: IpAddr, seq: u16, hold: Duration) {
        if source == self.source {
            let contested = self.contested;
            *self = Self {
                contested,
                ..Self::new(now, source, seq, hold)
            };
        } else if self.is_silent(now) {
            *self = Self::new(now, source, seq, hold);
        } else {
            self.overruled.get_or_insert(now);
        }
    }

    /// Believes the router itself, which is a neighbour now, instead of the neighbour that passed its TCs on.
    pub(crate) fn take_over(&mut self, source: IpAddr, seq: u16) {
        if source != self.source {
            self.overruled = self.overruled.or(Some(self.heard));
            self.source = source;
            self.seq = seq.wrapping_sub(1);
        }
    }

    /// Records another copy of a processed TC.
    pub(crate) fn heard_again(&mut self, now: Time, source: IpAddr, seq: u16) {
        if source == self.source && newer(seq, self.seq) {
            self.believed(now, source, seq, self.hold);
        }
    }

    /// Returns whether a TC from `source` shows that TCs from others do not come from the same router.
    pub(crate) fn contradicts(&mut self, now: Time, source: IpAddr, seq: u16) -> bool {
        let long_ago = |since: Time| now.saturating_sub(since) >= EVIDENCE;
        let contradicts =
            source == self.source && newer(seq, self.seq) && self.overruled.is_some_and(long_ago);
        if contradicts {
            self.contested = Some(now);
        }
        contradicts
    }

    /// Records that a TC with an older ANSN is believed. If it comes from the neighbour that counts, it contradicts the
    /// others.
    pub(crate) fn went_back(&mut self, now: Time, source: IpAddr) {
        if source == self.source && self.overruled.is_some() {
            self.contested = Some(now);
        }
    }

    /// Returns whether `source` is another neighbour than the one that counts.
    pub(crate) fn is_other(&self, now: Time, source: IpAddr) -> bool {
        source != self.source && !self.is_silent(now)
    }

    /// Returns whether `source` is not believed, because the neighbour that counts has contradicted others.
    pub(crate) fn is_contested(&self, now: Time, source: IpAddr) -> bool {
        let recent = |at: Time| now.saturating_sub(at) < CONTEST_HOLD;
        self.contested.is_some_and(recent) && self.is_other(now, source)
    }

    fn is_silent(&self, now: Time) -> bool {
        now.saturating_sub(self.heard) > self.hold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(15);
    const TRUE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));
    const LIAR: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 6));

    fn at(milliseconds: u64) -> Time {
        Time::from_millis(milliseconds)
    }

    /// A voice that was overruled at 10 s.
    fn overruled() -> Voice {
        let mut voice = Voice::new(at(9_000), TRUE, 65535, HOLD);
        voice.believed(at(10_000), LIAR, 500, HOLD);
        voice.believed(at(10_500), LIAR, 501, HOLD);
        voice
    }

    #[test]
    fn who_goes_on_after_a_second_contradicts_and_is_believed_alone() {
        assert!(!overruled().contradicts(at(10_999), TRUE, 0), "too early");
        assert!(
            !overruled().contradicts(at(11_000), LIAR, 502),
            "not from the neighbour"
        );
        assert!(
            !overruled().contradicts(at(11_000), TRUE, 65535),
            "a repetition"
        );
        let mut voice = overruled();
        assert!(!voice.is_contested(at(11_000), LIAR));
        assert!(voice.contradicts(at(11_000), TRUE, 0));
        voice.believed(at(11_000), TRUE, 0, HOLD);
        assert!(voice.is_contested(at(11_001), LIAR));
        assert!(!voice.is_contested(at(11_001), TRUE));
        assert!(
            !voice.contradicts(at(12_001), TRUE, 1),
            "nobody has overruled it since"
        );
    }

    #[test]
    fn the_contest_ends_with_the_neighbours_silence_or_after_ten_minutes() {
        let mut voice = overruled();
        assert!(voice.contradicts(at(11_000), TRUE, 0));
        voice.believed(at(11_000), TRUE, 0, HOLD);
        assert!(voice.is_contested(at(26_000), LIAR));
        assert!(!voice.is_contested(at(26_001), LIAR));
        voice.believed(at(610_999), TRUE, 1, HOLD);
        assert!(voice.is_contested(at(610_999), LIAR));
        assert!(!voice.is_contested(at(611_000), LIAR));
    }

    #[test]
    fn a_copy_that_the_neighbour_passes_on_later_confirms_it() {
        let mut voice = overruled();
        voice.heard_again(at(10_600), LIAR, 501);
        assert!(voice.overruled.is_some());
        voice.heard_again(at(10_600), TRUE, 65534);
        assert!(voice.overruled.is_some(), "an old one says nothing");
        voice.heard_again(at(10_600), TRUE, 1);
        assert!(!voice.contradicts(at(15_600), TRUE, 2));
    }

    #[test]
    fn an_older_ansn_that_is_believed_contradicts_at_once() {
        let mut voice = overruled();
        voice.went_back(at(10_600), LIAR);
        assert!(!voice.is_contested(at(10_601), LIAR));
        voice.went_back(at(10_600), TRUE);
        assert!(voice.is_contested(at(10_601), LIAR));
        let mut alone = Voice::new(at(0), TRUE, 1, HOLD);
        alone.went_back(at(1), TRUE);
        assert!(!alone.is_contested(at(2), LIAR), "it has restarted");
    }

    #[test]
    fn the_router_itself_contradicts_whoever_came_first() {
        let mut voice = Voice::new(at(10_000), LIAR, 500, HOLD);
        voice.take_over(TRUE, 0);
        assert!(!voice.contradicts(at(10_999), TRUE, 0), "too early");
        assert!(voice.contradicts(at(11_000), TRUE, 0));
        voice.believed(at(11_000), TRUE, 0, HOLD);
        voice.take_over(TRUE, 7);
        assert!(
            !voice.contradicts(at(12_000), TRUE, 7),
            "nobody has overruled it since"
        );
    }

    #[test]
    fn another_neighbour_takes_the_place_of_a_silent_one() {
        let mut voice = Voice::new(at(0), TRUE, 1, HOLD);
        assert!(voice.is_other(at(15_000), LIAR));
        assert!(!voice.is_other(at(15_001), LIAR));
        voice.believed(at(15_001), LIAR, 7, HOLD);
        assert!(voice.is_other(at(15_002), TRUE));
    }
}
