//! The time, by the two clocks that a server needs.

use core::time::Duration;

use crate::words::milliseconds;

/// The time as a server needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since an arbitrary start; never runs backwards.
    pub monotonic: Duration,
    /// Time since the beginning of 1970. Cookies are derived from it, and answers report times in it.
    pub unix: Duration,
}

impl Now {
    /// A time of the router's clock in milliseconds since 1970.
    pub(crate) fn unix_milliseconds(self, then: Duration) -> u64 {
        let age = self.monotonic.saturating_sub(then);
        milliseconds(self.unix.saturating_sub(age))
    }
}
