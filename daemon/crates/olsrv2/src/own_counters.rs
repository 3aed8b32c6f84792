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
    /// Records a counter with which a message was signed at `now`, and forgets those from before `now - memory`.
    pub(crate) fn used(&mut self, now: Time, counter: u64, memory: Duration) {
        self.newest = Some(counter);
        if self.used.back().is_none_or(|(at, _)| now >= *at + SPACING) {
            self.used.push_back((now, counter));
        }
        while self.used.len() > 1 && self.used[0].0 + memory + SPACING <= now {
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
            own.used(Duration::from_millis(50 * n), 1000 + n, MEMORY);
            assert!(own.used.len() <= 32);
        }
        let floor = own.floor().unwrap();
        let oldest = 1000 + 9999 - 30 * 20;
        assert!((oldest - 20..=oldest).contains(&floor), "{floor}");
        assert_eq!(own.newest(), Some(10_999));
    }

    #[test]
    fn after_a_pause_the_last_counter_is_the_floor() {
        let mut own = OwnCounters::default();
        own.used(Time::ZERO, 5, MEMORY);
        own.used(100 * MEMORY, 6, MEMORY);
        assert_eq!(own.floor(), Some(6));
    }
}
