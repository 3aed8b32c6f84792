//! How many messages one source may have processed.

use alloc::collections::BTreeMap;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use nhdp::Time;

/// How many sources have a budget of their own; further ones share one, so
/// that invented source addresses gain nothing.
const MAX_SOURCES: usize = 1024;

const SECOND: Duration = Duration::from_secs(1);

/// A budget of messages for each source address, refilled continuously.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    sources: BTreeMap<IpAddr, Budget>,
}

#[derive(Debug)]
struct Budget {
    filled: Time,
    left: u64,
}

impl RateLimiter {
    /// Takes one message from the budget of `source`; `false` when it is used up.
    pub(crate) fn admit(&mut self, now: Time, source: IpAddr, per_second: u32) -> bool {
        let key = self.key(now, source);
        let full = Budget {
            filled: now,
            left: u64::from(per_second),
        };
        self.sources
            .entry(key)
            .or_insert(full)
            .take(now, u64::from(per_second))
    }

    fn key(&mut self, now: Time, source: IpAddr) -> IpAddr {
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&source) {
            self.sources
                .retain(|_, budget| now.saturating_sub(budget.filled) < SECOND);
        }
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&source) {
            return Ipv4Addr::UNSPECIFIED.into();
        }
        source
    }
}

impl Budget {
    fn take(&mut self, now: Time, per_second: u64) -> bool {
        let elapsed = now.saturating_sub(self.filled).min(SECOND);
        let refill = (elapsed.as_nanos() * u128::from(per_second) / SECOND.as_nanos()) as u64;
        if refill > 0 {
            self.left = (self.left + refill).min(per_second);
            self.filled = now;
        }
        let admitted = self.left > 0;
        self.left -= u64::from(admitted);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    #[test]
    fn a_source_gets_its_burst_and_then_its_rate() {
        let mut limiter = RateLimiter::default();
        let admitted = (0..50)
            .filter(|_| limiter.admit(SECOND, source(1), 10))
            .count();
        assert_eq!(admitted, 10);
        let later = SECOND + Duration::from_millis(500);
        let admitted = (0..50)
            .filter(|_| limiter.admit(later, source(1), 10))
            .count();
        assert_eq!(admitted, 5);
        assert!(
            limiter.admit(later, source(2), 10),
            "another source is not affected"
        );
    }

    #[test]
    fn invented_sources_share_one_budget() {
        let mut limiter = RateLimiter::default();
        let admitted = (0..3000)
            .filter(|n| limiter.admit(SECOND, source(*n), 10))
            .count();
        assert_eq!(admitted, MAX_SOURCES + 10);
        assert!(limiter.sources.len() <= MAX_SOURCES + 1);
    }
}
