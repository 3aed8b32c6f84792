//! Limits how often the key signs, so that a router that was taken over neither uses the processor up nor the counter.

use std::time::Duration;

use daemonkit::Time;

/// Signatures in a second, over a burst of as many. A router with eight interfaces and HELLOs every 0.1 s needs 160.
const PER_SECOND: u32 = 500;
const EACH: Duration = Duration::from_nanos(1_000_000_000 / PER_SECOND as u64);

/// The signatures that may follow now.
#[derive(Debug, Default)]
pub struct Pace {
    /// When the whole burst may follow again.
    full: Time,
}

impl Pace {
    /// Returns whether a signature may follow at `now`, and counts it.
    pub fn admits(&mut self, now: Time) -> bool {
        let after = self.full.max(now) + EACH;
        let admits = after <= now + PER_SECOND * EACH;
        if admits {
            self.full = after;
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_so_many_in_a_second() {
        let mut pace = Pace::default();
        let start = Time::from_secs(77);
        let mut admitted = |now| (0..2000).filter(|_| pace.admits(now)).count();
        assert_eq!(admitted(start), 500);
        assert_eq!(admitted(start + Duration::from_millis(100)), 50);
        assert_eq!(admitted(start + Duration::from_secs(3600)), 500);
    }
}
