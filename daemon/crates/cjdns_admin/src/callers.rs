//! Callers that were authenticated of late.

use alloc::collections::VecDeque;
use core::net::SocketAddr;
use core::time::Duration;

/// How many callers are known as authenticated of late.
pub const MAX_CALLERS: usize = 64;

/// A caller that says nothing for so long is no longer known, as in cjdns.
const CALLER_LIFETIME: Duration = Duration::from_secs(30);

/// The callers that were authenticated, the one that was heard last at the end.
#[derive(Default)]
pub(crate) struct Callers(VecDeque<(SocketAddr, Duration)>);

impl Callers {
    /// Notes a caller when it is authenticated or was of late, and returns whether it is one of these.
    pub(crate) fn hear(&mut self, now: Duration, from: SocketAddr, authenticated: bool) -> bool {
        self.forget(now);
        let place = self.0.iter().position(|(caller, _)| *caller == from);
        if place.is_none() && !authenticated {
            return false;
        }
        place.and_then(|place| self.0.remove(place));
        if self.0.len() == MAX_CALLERS {
            self.0.pop_front();
        }
        self.0.push_back((from, now));
        true
    }

    /// Forgets those that said nothing for long.
    pub(crate) fn forget(&mut self, now: Duration) {
        self.0
            .retain(|(_, heard)| now.saturating_sub(*heard) <= CALLER_LIFETIME);
    }

    /// Returns whether a caller is known.
    pub(crate) fn has(&self, caller: SocketAddr) -> bool {
        self.0.iter().any(|(known, _)| *known == caller)
    }
}
