//! The counters that this router has signed lately.

use alloc::collections::VecDeque;
use core::time::Duration;

use nhdp::Time;

/// Shortest time between two counters that are remembered. A floor may be that much older than it should be.
const SPACING: Duration = Duration::from_secs(1);

/// The counters of messages of this router, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct OwnCounters {
    used: VecDeque<(Time, u64)>,
    newest: Option<u64>,
}

impl OwnCounters {
    /// Records a counter with which a message was signed at `now`.
    pub(crate) fn used(&mut self, now: Time, counter: u64) {
        self.newest = Some(counter);
        if self.used.back().is_none_or(|(at, _)| now >= *at + SPACING) {
            self.used.push_back((now, counter));
        }
    }

    /// Forgets the counters from before `now - memory`. After a pause of that length none is left, as at the start. Then
    /// a message that quotes one of them is too old, and a signer that has lost its counter can start with a lower one.
    pub(crate) fn forget(&mut self, now: Time, memory: Duration) {
        let is_old = |used: &(Time, u64)| used.0 + memory + SPACING <= now;
        while self.used.front().is_some_and(is_old) {
            self.used.pop_front();
        }
    }

    /// Returns the lowest counter that was used lately; `None` when none was used yet.
    pub(crate) fn floor(&self) -> Option<u64> {
        self.used.front().map(|(_, counter)| *counter)
    }

    /// Returns the highest counter that was used.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Duration = Duration::from_secs(30);

    #[test]
    fn the_floor_follows_and_the_memory_is_bounded() {
        let mut own = OwnCounters::default();
        assert_eq!(own.floor(), None);
        for n in 0..10_000 {
            let now = Duration::from_millis(50 * n);
            own.used(now, 1000 + n);
            own.forget(now, MEMORY);
            assert!(own.used.len() <= 32);
        }
        let floor = own.floor().unwrap();
        let oldest = 1000 + 9999 - 30 * 20;
        assert!((oldest - 20..=oldest).contains(&floor), "{floor}");
        assert_eq!(own.newest(), Some(10_999));
    }

    #[test]
    fn a_pause_ends_the_floor_also_where_the_counter_falls() {
        let mut own = OwnCounters::default();
        own.used(Time::ZERO, 5);
        own.forget(MEMORY, MEMORY);
        assert_eq!(own.floor(), Some(5));
        own.forget(MEMORY + SPACING, MEMORY);
        assert_eq!(own.floor(), None);
        own.used(100 * MEMORY, 4);
        assert_eq!(own.floor(), Some(4));
        assert_eq!(own.newest(), Some(4));
    }
}
