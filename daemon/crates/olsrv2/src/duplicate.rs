//! The received, processed and forwarded sets (RFC 7181, sections 11.1 to 11.3).
//!
//! One entry per message says all three, so that a message costs one look-up.

use alloc::collections::{BTreeMap, VecDeque};
use core::net::IpAddr;
use core::time::Duration;

use nhdp::Time;

/// What names a message: type, originator and sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MessageKey {
    pub originator: IpAddr,
    pub seq: u16,
    pub typ: u8,
}

/// What was done with a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// It is in the processed set.
    pub processed: bool,
    /// It is in the forwarded set.
    pub forwarded: bool,
    /// One bit for each interface slot: it is in the received set of that interface.
    pub received: u64,
}

/// The three sets. All entries live equally long, so that they run out in the order of their making.
#[derive(Debug, Default)]
pub(crate) struct DuplicateSet {
    seen: BTreeMap<MessageKey, Seen>,
    order: VecDeque<(Time, MessageKey)>,
}

impl DuplicateSet {
    /// The entry of a message, made if there is none; when `limit` is reached the oldest one goes.
    pub(crate) fn entry(
        &mut self,
        now: Time,
        key: MessageKey,
        hold: Duration,
        limit: usize,
    ) -> &mut Seen {
        self.expire(now);
        while self.order.len() >= limit.max(1) {
            self.remove_oldest();
        }
        let Self { seen, order } = self;
        seen.entry(key).or_insert_with(|| {
            order.push_back((now + hold, key));
            Seen::default()
        })
    }

    fn expire(&mut self, now: Time) {
        while self
            .order
            .front()
            .is_some_and(|(expires, _)| *expires <= now)
        {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_front() {
            self.seen.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    const HOLD: Duration = Duration::from_secs(30);

    fn key(seq: u16) -> MessageKey {
        MessageKey {
            originator: Ipv4Addr::new(10, 0, 0, 1).into(),
            seq,
            typ: 1,
        }
    }

    #[test]
    fn an_entry_is_kept_for_its_hold_time() {
        let mut set = DuplicateSet::default();
        set.entry(Time::ZERO, key(1), HOLD, 8).processed = true;
        let just_before = HOLD - Duration::from_nanos(1);
        assert!(set.entry(just_before, key(1), HOLD, 8).processed);
        assert!(!set.entry(HOLD, key(1), HOLD, 8).processed);
    }

    #[test]
    fn a_full_set_forgets_the_oldest() {
        let mut set = DuplicateSet::default();
        for seq in 0..4 {
            set.entry(Time::ZERO, key(seq), HOLD, 3).processed = true;
        }
        assert!(set.seen.len() <= 3);
        assert!(set.entry(Time::ZERO, key(3), HOLD, 3).processed);
        assert!(!set.entry(Time::ZERO, key(0), HOLD, 3).processed);
    }
}
