//! Callers that were authenticated recently.

use alloc::collections::VecDeque;
use core::net::SocketAddr;
use core::time::Duration;

/// Largest number of callers that are remembered as authenticated.
pub const MAX_CALLERS: usize = 64;

/// Time after which a silent caller is forgotten, as in cjdns.
const CALLER_LIFETIME: Duration = Duration::from_secs(30);

/// The authenticated callers. The one heard last is at the end.
#[derive(Default)]
pub(crate) struct Callers(VecDeque<(SocketAddr, Duration)>);

impl Callers {
    /// Notes a caller that is authenticated now or was recently. Returns whether it is one of these.
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

    /// Forgets the callers that have been silent for long.
    pub(crate) fn forget(&mut self, now: Duration) {
        self.0
            .retain(|(_, heard)| now.saturating_sub(*heard) <= CALLER_LIFETIME);
    }

    /// Returns whether a caller is known.
    pub(crate) fn has(&self, caller: SocketAddr) -> bool {
        self.0.iter().any(|(known, _)| *known == caller)
    }
}
