//! The received, processed and forwarded sets (RFC 7181, sections 11.1 to 11.3).
//!
//! One entry per message holds all three facts, so that a message costs one lookup. Each entry is charged to the first
//! sender of the message: a symmetric neighbour, or all strangers of an interface together. When the sets are full, the
//! oldest entry of the sender with the most entries is removed, so that a flood removes only its own messages.

use alloc::collections::{BTreeMap, VecDeque};
use core::net::IpAddr;
use core::time::Duration;

use nhdp::{InterfaceId, Time};

/// Interval at which expired entries are removed from all queues.
const SWEEP: Duration = Duration::from_secs(1);

/// The key of a message: type, originator, sequence number and contents. With the contents, a forged message with a
/// guessed number does not take the place of the genuine one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MessageKey {
    pub originator: IpAddr,
    pub seq: u16,
    pub typ: u8,
    /// A keyed hash of what makes it this message: of what is signed and the signature, or else of what no router
    /// changes on the way.
    pub digest: u64,
}

/// The sender to which an entry is charged: the neighbour with this address, or `None` for all strangers of the
/// interface.
pub(crate) type Sender = (InterfaceId, Option<IpAddr>);

/// What was done with a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// It is in the processed set.
    pub processed: bool,
    /// The largest hop limit of a copy that was forwarded; 0 when it is not in the forwarded set.
    pub forwarded: u8,
    /// One bit for each interface slot: it is in the received set of that interface.
    pub received: u64,
    expires: Time,
}

/// The three sets. All entries live equally long, so that those of a sender run out in the order of their making.
#[derive(Debug, Default)]
pub(crate) struct DuplicateSet {
    seen: BTreeMap<MessageKey, Seen>,
    queues: BTreeMap<Sender, VecDeque<(Time, MessageKey)>>,
    swept: Time,
}

impl DuplicateSet {
    /// Returns the entry of a message, and creates it if necessary. At `limit`, an old entry is removed.
    pub(crate) fn entry(
        &mut self,
        now: Time,
        key: MessageKey,
        sender: Sender,
        hold: Duration,
        limit: usize,
    ) -> &mut Seen {
        if now >= self.swept + SWEEP {
            self.expire(now);
        }
        let new = Seen {
            expires: now + hold,
            ..Seen::default()
        };
        if self.seen.get(&key).is_none_or(|seen| seen.expires <= now) {
            self.seen.remove(&key);
            while self.seen.len() >= limit.max(1) {
                self.remove_one();
            }
            let queue = self.queues.entry(sender).or_default();
            queue.push_back((now + hold, key));
        }
        self.seen.entry(key).or_insert(new)
    }

    /// Returns whether a message is in the processed set.
    pub(crate) fn is_processed(&self, now: Time, key: &MessageKey) -> bool {
        let seen = self.seen.get(key).filter(|seen| seen.expires > now);
        seen.is_some_and(|seen| seen.processed)
    }

    fn expire(&mut self, now: Time) {
        let Self { seen, queues, .. } = self;
        for queue in queues.values_mut() {
            let fresh = queue.partition_point(|(expires, _)| *expires <= now);
            for (_, key) in queue.drain(..fresh) {
                if seen.get(&key).is_some_and(|seen| seen.expires <= now) {
                    seen.remove(&key);
                }
            }
        }
        queues.retain(|_, queue| !queue.is_empty());
        self.swept = now;
    }

    /// Removes the oldest entry of the sender with most entries.
    fn remove_one(&mut self) {
        let longest = self.queues.values_mut().max_by_key(|queue| queue.len());
        match longest.and_then(VecDeque::pop_front) {
            Some((_, key)) => drop(self.seen.remove(&key)),
            None => self.seen.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    const HOLD: Duration = Duration::from_secs(30);
    const STRANGERS: Sender = (InterfaceId(1), None);

    fn key(seq: u16) -> MessageKey {
        MessageKey {
            originator: Ipv4Addr::new(10, 0, 0, 1).into(),
            seq,
            typ: 1,
            digest: 7,
        }
    }

    fn neighbour(n: u8) -> Sender {
        (InterfaceId(1), Some(Ipv4Addr::new(10, 0, 0, n).into()))
    }

    /// Records a message, and says whether it was known.
    fn process(set: &mut DuplicateSet, now: Time, seq: u16, sender: Sender, limit: usize) -> bool {
        let seen = set.entry(now, key(seq), sender, HOLD, limit);
        core::mem::replace(&mut seen.processed, true)
    }

    #[test]
    fn an_entry_is_kept_for_its_hold_time() {
        let mut set = DuplicateSet::default();
        process(&mut set, Time::ZERO, 1, STRANGERS, 8);
        let just_before = HOLD - Duration::from_nanos(1);
        assert!(process(&mut set, just_before, 1, STRANGERS, 8));
        assert!(!process(&mut set, HOLD, 1, STRANGERS, 8));
        assert!(process(&mut set, HOLD + SWEEP, 1, STRANGERS, 8));
    }

    #[test]
    fn a_full_set_forgets_the_oldest() {
        let mut set = DuplicateSet::default();
        for seq in 0..4 {
            process(&mut set, Time::ZERO, seq, STRANGERS, 3);
        }
        assert!(set.seen.len() <= 3);
        assert!(process(&mut set, Time::ZERO, 3, STRANGERS, 3));
        assert!(!process(&mut set, Time::ZERO, 0, STRANGERS, 3));
    }

    #[test]
    fn who_floods_forgets_its_own() {
        let mut set = DuplicateSet::default();
        for seq in 0..10 {
            process(&mut set, Time::ZERO, seq, neighbour(1), 100);
        }
        for seq in 100..1000 {
            process(&mut set, Time::ZERO, seq, STRANGERS, 100);
        }
        assert_eq!(set.seen.len(), 100);
        assert!((0..10).all(|seq| process(&mut set, Time::ZERO, seq, neighbour(1), 100)));
    }

    #[test]
    fn what_has_run_out_takes_no_room() {
        let mut set = DuplicateSet::default();
        for seq in 0..100 {
            process(&mut set, Time::ZERO, seq, neighbour((seq % 7) as u8), 100);
        }
        process(&mut set, HOLD, 200, STRANGERS, 100);
        assert_eq!((set.seen.len(), set.queues.len()), (1, 1));
    }
}
