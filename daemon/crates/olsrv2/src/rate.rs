//! Limits how many messages of one source, and of all strangers of an interface together, are processed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use nhdp::{InterfaceId, Time};

/// Largest number of sources with a budget of their own. A full table forgets those that have used the least: a source
/// that sent one message, as invented ones do, loses nothing, and one that sends too much stays limited.
const MAX_SOURCES: usize = 1024;

/// HELLOs that a source may send per second, three times what an interval of 50 ms needs.
const HELLOS_PER_SECOND: u32 = 64;

/// Messages of all strangers of an interface per second, as a multiple of what one source may send.
const STRANGERS: u32 = 2;

const SECOND: Duration = Duration::from_secs(1);

/// A number of permissions that is refilled continuously.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    burst: u32,
    per_second: u32,
    left: u32,
    filled: Time,
}

/// Budgets of messages, with one of its own for HELLOs, so that a flood of other messages under a neighbour's address
/// does not suppress its HELLOs.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    sources: BTreeMap<(InterfaceId, IpAddr, bool), Bucket>,
    /// Joint budget of the sources without a symmetric link.
    strangers: BTreeMap<InterfaceId, Bucket>,
}

impl RateLimiter {
    /// Takes one message from the budgets of its source; `false` if they are used up. `is_neighbour` returns whether
    /// the source has a symmetric link. It is called only when the strangers' budget is used up.
    pub(crate) fn admit(
        &mut self,
        now: Time,
        (interface, source): (InterfaceId, IpAddr),
        is_hello: bool,
        per_second: u32,
        is_neighbour: impl FnOnce() -> bool,
    ) -> bool {
        let own = if is_hello {
            per_second.min(HELLOS_PER_SECOND)
        } else {
            per_second
        };
        let key = (interface, source, is_hello);
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&key) {
            self.forget_half(now);
        }
        let bucket = || Bucket::new(now, own, own);
        if !self.sources.entry(key).or_insert_with(bucket).take(now) {
            return false;
        }
        let all = per_second.saturating_mul(STRANGERS);
        let strangers = self.strangers.entry(interface);
        let bucket = || Bucket::new(now, all, all);
        strangers.or_insert_with(bucket).take(now) || is_neighbour()
    }

    /// Forgets the budget of the strangers of an interface that is gone.
    pub(crate) fn forget_interface(&mut self, interface: InterfaceId) {
        self.strangers.remove(&interface);
    }

    /// Forgets the half of the sources that has used the least. It does so all at once, because it must visit all
    /// sources.
    fn forget_half(&mut self, now: Time) {
        let mut used: Vec<u32> = self.sources.values().map(|own| own.used(now)).collect();
        used.sort_unstable();
        let (median, half) = (used[used.len() / 2], used.len() / 2);
        let mut gone = 0;
        self.sources.retain(|_, own| {
            let goes = own.used(now) <= median && gone < half;
            gone += usize::from(goes);
            !goes
        });
    }
}

impl Bucket {
    /// Creates a full budget.
    pub(crate) fn new(now: Time, burst: u32, per_second: u32) -> Self {
        Self {
            burst,
            per_second,
            left: burst,
            filled: now,
        }
    }

    /// Takes one permission; `false` if there is none.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        let refill = self.refill(now);
        if refill > 0 {
            self.left = (self.left + refill).min(self.burst);
            self.filled = now;
        }
        let taken = self.left > 0;
        self.left -= u32::from(taken);
        taken
    }

    /// Returns whether there is a permission.
    pub(crate) fn has(&self, now: Time) -> bool {
        self.left > 0 || self.refill(now) > 0
    }

    /// Returns when the next permission is available, if there is none now.
    pub(crate) fn next(&self) -> Time {
        self.filled + SECOND / self.per_second.max(1)
    }

    pub(crate) fn used(&self, now: Time) -> u32 {
        self.burst.saturating_sub(self.left + self.refill(now))
    }

    fn refill(&self, now: Time) -> u32 {
        let elapsed = now.saturating_sub(self.filled);
        let refill = elapsed.as_nanos() * u128::from(self.per_second) / SECOND.as_nanos();
        refill.min(u128::from(self.burst)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    const RADIO: InterfaceId = InterfaceId(1);
    const CABLE: InterfaceId = InterfaceId(2);

    fn source(n: u32) -> (InterfaceId, IpAddr) {
        (RADIO, Ipv4Addr::from_bits(0x0a00_0000 + n).into())
    }

    /// How many of so many messages of a source are admitted; it has no symmetric link.
    fn admitted(
        limiter: &mut RateLimiter,
        now: Time,
        source: (InterfaceId, IpAddr),
        hello: bool,
    ) -> usize {
        let mut admit = |_: &u32| limiter.admit(now, source, hello, 100, || false);
        (0..150).filter(|n| admit(n)).count()
    }

    #[test]
    fn a_source_gets_its_burst_and_then_its_rate() {
        let mut limiter = RateLimiter::default();
        assert_eq!(admitted(&mut limiter, SECOND, source(1), false), 100);
        let later = SECOND + Duration::from_millis(500);
        assert_eq!(admitted(&mut limiter, later, source(1), false), 50);
        assert!(
            limiter.admit(later, source(2), false, 100, || false),
            "another source is not affected"
        );
    }

    #[test]
    fn hellos_have_a_budget_of_their_own() {
        let mut limiter = RateLimiter::default();
        assert_eq!(admitted(&mut limiter, SECOND, source(1), false), 100);
        let hellos = HELLOS_PER_SECOND as usize;
        assert_eq!(admitted(&mut limiter, SECOND, source(1), true), hellos);
    }

    #[test]
    fn strangers_of_an_interface_have_a_budget_together_and_neighbours_their_own() {
        let mut limiter = RateLimiter::default();
        let all = (0..3).map(|n| admitted(&mut limiter, SECOND, source(n), false));
        assert_eq!(all.sum::<usize>(), 200);
        assert!(!limiter.admit(SECOND, source(9), true, 100, || false));
        assert!(limiter.admit(SECOND, source(9), true, 100, || true));
        let elsewhere = (CABLE, source(9).1);
        assert!(limiter.admit(SECOND, elsewhere, true, 100, || false));
    }

    #[test]
    fn a_full_table_forgets_those_that_used_least() {
        let mut limiter = RateLimiter::default();
        assert_eq!(admitted(&mut limiter, SECOND, source(0), false), 100);
        for n in 1..10_000 {
            limiter.admit(SECOND, source(n), false, 100, || false);
            assert!(limiter.sources.len() <= MAX_SOURCES);
        }
        assert!(!limiter.admit(SECOND, source(0), false, 100, || true));
    }

    #[test]
    fn a_bucket_says_when_it_has_something_again() {
        let mut bucket = Bucket::new(SECOND, 1, 10);
        assert!(bucket.take(SECOND) && !bucket.take(SECOND));
        let next = bucket.next();
        assert_eq!(next, SECOND + Duration::from_millis(100));
        assert!(!bucket.take(next - Duration::from_nanos(1)) && bucket.take(next));
    }
}
