//! The replay window: which nonces of a direction were accepted.

use crate::Refused;

/// Largest distance of a nonce behind the highest one.
const SIZE: u64 = u64::BITS as u64;

/// Counters of the frames received under a session's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Accepted frames.
    pub accepted: u64,
    /// Nonces below the highest one that did not arrive so far. An initiator skips three when the session is
    /// established.
    pub lost: u64,
    /// Frames whose nonce was accepted before.
    pub duplicate: u64,
    /// Frames that arrived too late to know whether they were accepted before.
    pub late: u64,
}

/// The last 64 nonces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// The nonce after the highest accepted one, 0 before the first.
    next: u64,
    /// Bit i: whether the nonce that is i below the highest was accepted.
    seen: u64,
    /// The first nonce that was accepted.
    first: u64,
    received: Received,
}

impl Window {
    /// Checks that a frame with this nonce may be opened.
    ///
    /// # Errors
    ///
    /// [`Refused::Replayed`], which is counted.
    pub(crate) fn check(&mut self, nonce: u32) -> Result<(), Refused> {
        let behind = self.next.saturating_sub(1 + u64::from(nonce));
        if u64::from(nonce) >= self.next {
            return Ok(());
        }
        let counter = match behind {
            SIZE.. => &mut self.received.late,
            bit if self.seen >> bit & 1 != 0 => &mut self.received.duplicate,
            _ => return Ok(()),
        };
        *counter += 1;
        Err(Refused::Replayed(nonce))
    }

    /// Records a nonce that passed [`Window::check`] and whose frame is authentic.
    pub(crate) fn accept(&mut self, nonce: u32) {
        let nonce = u64::from(nonce);
        if self.received.accepted == 0 {
            self.first = nonce;
        }
        if nonce >= self.next {
            let ahead = nonce + 1 - self.next;
            self.seen = if ahead < SIZE { self.seen << ahead } else { 0 };
            self.next = nonce + 1;
        }
        self.seen |= 1 << (self.next - 1 - nonce);
        self.received.accepted += 1;
    }

    pub(crate) fn received(&self) -> Received {
        let lost = (self.next - self.first).saturating_sub(self.received.accepted);
        Received {
            lost,
            ..self.received
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(window: &mut Window, nonce: u32) -> bool {
        let fresh = window.check(nonce).is_ok();
        if fresh {
            window.accept(nonce);
        }
        fresh
    }

    #[test]
    fn a_nonce_is_accepted_once_and_not_when_it_is_64_behind() {
        let mut window = Window::default();
        for (nonce, fresh) in [
            (4, true),
            (4, false),
            (67, true),
            (3, false),
            (5, true),
            (5, false),
        ] {
            assert_eq!(take(&mut window, nonce), fresh, "{nonce}");
        }
        assert!(take(&mut window, 131));
        assert!(!take(&mut window, 67), "64 behind");
        assert!(take(&mut window, 68), "63 behind");
        assert!(take(&mut window, u32::MAX));
        assert!(!take(&mut window, u32::MAX));
        assert!(take(&mut window, u32::MAX - 63));
        assert!(!take(&mut window, u32::MAX - 64));
    }

    #[test]
    fn what_came_in_is_counted() {
        let mut window = Window::default();
        for nonce in [6, 7, 9, 9, 200, 7] {
            take(&mut window, nonce);
        }
        let expected = Received {
            accepted: 4,
            lost: 191,
            duplicate: 1,
            late: 1,
        };
        assert_eq!(window.received(), expected);
    }
}
