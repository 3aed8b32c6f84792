//! The time on the two clocks that a server needs.

use core::time::Duration;

use crate::words::milliseconds;

/// The time on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since an arbitrary start; never runs backwards.
    pub monotonic: Duration,
    /// Time since the beginning of 1970. Cookies are derived from it, and answers report times in it.
    pub unix: Duration,
}

impl Now {
    /// Converts a time of the router's clock to milliseconds since 1970.
    pub(crate) fn unix_milliseconds(self, then: Duration) -> u64 {
        let age = self.monotonic.saturating_sub(then);
        milliseconds(self.unix.saturating_sub(age))
    }
}
