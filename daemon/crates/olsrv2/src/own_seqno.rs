//! This router's own sequence numbers, and the detection of another router with the same originator.

use alloc::collections::VecDeque;
use core::time::Duration;

use nhdp::Time;

use crate::pause::Spacing;
use crate::seqnum::newer;

/// Number of own messages that are remembered, far more than are in transit at any time.
const REMEMBERED: usize = 128;

/// Time after the start during which foreign numbers are attributed to this router before its restart.
const RESTART_GRACE: Duration = Duration::from_secs(6);

/// The shortest time between two reactions to a foreign message, so that two
/// routers with one originator do not drive each other.
const REACTION_INTERVAL: Duration = Duration::from_secs(5);

/// ANSN and message sequence number of one originator (RFC 7181, section 21).
#[derive(Debug)]
pub(crate) struct OwnNumbers {
    ansn: u16,
    seq: u16,
    sent: VecDeque<u16>,
    started: Time,
    /// Reactions to another router with this originator.
    pub(crate) reactions: Spacing,
}

/// The origin of a message with this router's originator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnMessage {
    /// This router sent it.
    Echo,
    /// This router sent it before its restart. Its numbers have been raised beyond it.
    Predecessor,
    /// Another router with the same originator sent it. The numbers have been raised beyond it.
    Duplicate,
    /// Another router sent it, too soon after the last one for a reaction.
    Ignored,
}

impl OwnNumbers {
    pub(crate) fn new(now: Time, ansn: u16, seq: u16) -> Self {
        Self {
            ansn,
            seq,
            sent: VecDeque::new(),
            started: now,
            reactions: Spacing::new(REACTION_INTERVAL),
        }
    }

    pub(crate) fn ansn(&self) -> u16 {
        self.ansn
    }

    pub(crate) fn raise_ansn(&mut self) {
        self.ansn = self.ansn.wrapping_add(1);
    }

    /// Returns the sequence number of the next message.
    pub(crate) fn next_seq(&mut self) -> u16 {
        self.seq = self.seq.wrapping_add(1);
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back(self.seq);
        self.seq
    }

    /// Determines the origin of a message with this router's originator; `ansn` is set if it is a TC. Whose signature
    /// shows that this router has not sent it is no echo, although numbers that follow the clock may be the same.
    pub(crate) fn judge(
        &mut self,
        now: Time,
        seq: u16,
        ansn: Option<u16>,
        is_foreign: bool,
    ) -> OwnMessage {
        if !is_foreign && self.sent.contains(&seq) {
            return OwnMessage::Echo;
        }
        if !self.reactions.start(now) {
            return OwnMessage::Ignored;
        }
        if newer(seq, self.seq) {
            self.seq = seq;
        }
        if let Some(ansn) = ansn.filter(|ansn| !newer(self.ansn, *ansn)) {
            self.ansn = ansn.wrapping_add(1);
        }
        if now.saturating_sub(self.started) < RESTART_GRACE {
            OwnMessage::Predecessor
        } else {
            OwnMessage::Duplicate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Time = Duration::from_secs(100);

    #[test]
    fn own_messages_are_known_across_the_wrap() {
        let mut own = OwnNumbers::new(Time::ZERO, 0, 65534);
        assert_eq!([own.next_seq(), own.next_seq()], [65535, 0]);
        assert_eq!(own.judge(LATER, 65535, None, false), OwnMessage::Echo);
        assert_eq!(own.judge(LATER, 0, Some(0), false), OwnMessage::Echo);
        assert_eq!(
            own.judge(LATER, 0, Some(0), true),
            OwnMessage::Duplicate,
            "another router's, which happens to have the number"
        );
    }

    #[test]
    fn the_numbers_rise_beyond_a_predecessor() {
        let mut own = OwnNumbers::new(Time::ZERO, 10, 20);
        assert_eq!(
            own.judge(Time::ZERO, 500, Some(10), false),
            OwnMessage::Predecessor
        );
        assert_eq!((own.ansn(), own.next_seq()), (11, 501));
    }

    #[test]
    fn older_foreign_numbers_do_not_lower_the_own_ones() {
        let mut own = OwnNumbers::new(Time::ZERO, 10, 20);
        assert_eq!(own.judge(LATER, 19, Some(9), false), OwnMessage::Duplicate);
        assert_eq!((own.ansn(), own.next_seq()), (10, 21));
    }

    #[test]
    fn a_stream_of_foreign_messages_gets_one_reaction_at_a_time() {
        let mut own = OwnNumbers::new(Time::ZERO, 10, 20);
        assert_eq!(own.judge(LATER, 1000, None, false), OwnMessage::Duplicate);
        assert_eq!(own.judge(LATER, 2000, None, false), OwnMessage::Ignored);
        assert_eq!(
            own.judge(LATER + REACTION_INTERVAL, 2000, None, false),
            OwnMessage::Duplicate
        );
    }
}
