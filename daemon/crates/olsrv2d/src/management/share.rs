//! Limits the processor time that answers may take.

use std::time::Duration;

use olsrv2::Time;

/// Work that may be done at once after a quiet time. An answer about a small mesh takes less than a millisecond.
const BURST: Duration = Duration::from_millis(20);

/// A budget of processor time that is refilled continuously.
#[derive(Debug)]
pub struct Share {
    /// Refill rate, in percent of one processor.
    percent: u32,
    left: Duration,
    /// Work done beyond the budget.
    debt: Duration,
    filled: Time,
}

impl Share {
    /// Creates a full budget.
    pub fn new(now: Time, percent: u32) -> Self {
        Self {
            percent: percent.max(1),
            left: BURST,
            debt: Duration::ZERO,
            filled: now,
        }
    }

    /// Returns whether work is allowed at `now`.
    pub fn is_ready(&mut self, now: Time) -> bool {
        let refill = now.saturating_sub(self.filled) * self.percent / 100;
        let paid = refill.min(self.debt);
        self.debt -= paid;
        self.left = (self.left + (refill - paid)).min(BURST);
        self.filled = now;
        self.debt.is_zero() && !self.left.is_zero()
    }

    /// Subtracts finished work from the budget. A single piece of work may exceed it.
    pub fn spend(&mut self, work: Duration) {
        self.debt += work.saturating_sub(self.left);
        self.left = self.left.saturating_sub(work);
    }

    /// Returns when work is allowed again.
    pub fn next(&self) -> Time {
        if self.debt.is_zero() && !self.left.is_zero() {
            return self.filled;
        }
        let microsecond = Duration::from_micros(1);
        self.filled + self.debt * 100 / self.percent + microsecond * 100 / self.percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_secs(100);

    #[test]
    fn work_is_paid_for_by_waiting() {
        let mut share = Share::new(START, 10);
        assert!(share.is_ready(START));
        share.spend(BURST + Duration::from_millis(5));
        assert!(!share.is_ready(START));
        let next = share.next();
        assert!(next > START + Duration::from_millis(50));
        assert!(!share.is_ready(next - Duration::from_millis(1)));
        assert!(share.is_ready(next));
    }

    #[test]
    fn over_a_second_no_more_than_the_share_is_worked() {
        let (mut share, mut now, mut worked) = (Share::new(START, 10), START, Duration::ZERO);
        let piece = Duration::from_millis(1);
        while now < START + Duration::from_secs(1) {
            if share.is_ready(now) {
                share.spend(piece);
                worked += piece;
                now += piece;
            } else {
                now = share.next();
            }
        }
        let allowed = Duration::from_millis(100) + BURST + 2 * piece;
        assert!(
            worked <= allowed && worked > Duration::from_millis(100),
            "{worked:?}"
        );
    }

    #[test]
    fn quiet_saves_up_no_more_than_the_burst() {
        let mut share = Share::new(START, 10);
        assert!(share.is_ready(START + Duration::from_secs(1000)));
        share.spend(BURST);
        assert!(!share.is_ready(START + Duration::from_secs(1000)));
    }
}
