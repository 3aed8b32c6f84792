//! One station: its queue, its countdown to the next transmission, and what it waits for.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use serde::{Serialize, Serializer};

use crate::frame::{Attempt, Frame, Receiver, Times};
use crate::phy::Phy;
use crate::rate::Rate;
use crate::Time;

/// What a station has done so far, in frames unless another unit is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Data frames (or aggregates) put on the air, repetitions included.
    pub data_sent: u64,
    /// RTS frames put on the air.
    pub rts_sent: u64,
    /// RTS frames that no CTS answered.
    pub cts_missing: u64,
    /// Data frames (or aggregates) that no acknowledgement answered.
    pub ack_missing: u64,
    /// Frames acknowledged, or sent where none is asked for.
    pub delivered: u64,
    /// Frames given up after the last attempt.
    pub given_up: u64,
    /// Frames refused because the queue was full.
    pub refused: u64,
    /// Time in which this station was sending, acknowledgements included.
    #[serde(rename = "sending_seconds", serialize_with = "seconds")]
    pub sending: Time,
    /// Time in which the air was busy for it: with its own frames, or with those that it sensed.
    #[serde(rename = "busy_seconds", serialize_with = "seconds")]
    pub busy: Time,
}

fn seconds<S: Serializer>(time: &Time, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// A frame in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub frame: Frame,
    pub since: Time,
    pub attempts: u32,
    /// Whether it has been on the air: an attempt may end with its RTS.
    pub aired: bool,
    /// Whether the addressed station has it; only the acknowledgement may be lacking.
    pub received: bool,
    pub times: Times,
}

/// The part of an exchange that a station is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Rts,
    Data,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for the air, or has nothing to send.
    Resting,
    /// Its frame is on the air, or follows a SIFS after the CTS.
    Sending(Step),
    /// Its frame has ended and no answer has begun.
    Waiting(Step),
    /// The answer is on the air.
    Hearing(Step),
}

#[derive(Debug)]
pub(crate) struct Station {
    pub queue: VecDeque<Queued>,
    /// What the present exchange carries; more than one frame in an aggregate.
    pub aboard: Vec<Queued>,
    /// Which of these the receiver acknowledges.
    pub acknowledged: Vec<bool>,
    pub state: State,
    /// Numbers exchanges, so that a timer of a former one does nothing.
    pub exchange: u64,
    pub exchange_began: Time,
    pub data_began: Time,
    pub data_ended: Time,
    /// The rate of the present attempt.
    pub rate: Rate,
    /// When the waiting for the air began that the present frame has in front of it.
    pub access_began: Time,
    pub cw: u32,
    /// Slots left.
    pub backoff: u32,
    /// Since when slots count (after DIFS or EIFS); `None` while the air is busy.
    pub counting: Option<Time>,
    /// When the countdown ends, if there is something to send.
    pub access_at: Option<Time>,
    /// Numbers countdowns, for the same reason as `exchange`.
    pub countdown: u64,
    /// Number of frames on the air that it senses, its own included.
    pub busy: u32,
    pub busy_since: Time,
    pub idle_from: Time,
    /// Until when others have reserved the air (NAV).
    pub nav: Time,
    /// Whether what it sensed last could not be read, so that EIFS follows.
    pub garbled: bool,
    pub sending: bool,
    pub rts_threshold: Option<usize>,
    pub listening: bool,
    /// The channel of the last frame; 0 until it has sent.
    pub channel: u32,
    pub counters: Counters,
}

impl Station {
    pub fn new(phy: &Phy, now: Time) -> Self {
        Self {
            queue: VecDeque::new(),
            aboard: Vec::new(),
            acknowledged: Vec::new(),
            state: State::Resting,
            exchange: 0,
            exchange_began: now,
            data_began: now,
            data_ended: now,
            rate: phy.basic[0],
            access_began: now,
            cw: phy.cw_min,
            backoff: 0,
            counting: Some(now + phy.difs()),
            access_at: None,
            countdown: 0,
            busy: 0,
            busy_since: now,
            idle_from: now,
            nav: now,
            garbled: false,
            sending: false,
            rts_threshold: None,
            listening: true,
            channel: 0,
            counters: Counters::default(),
        }
    }

    /// Returns whether there is something to send, and nothing under way.
    pub fn wants_air(&self) -> bool {
        self.state == State::Resting && !(self.queue.is_empty() && self.aboard.is_empty())
    }

    /// Returns when the countdown ends, if the air stays free.
    pub fn access_time(&self, now: Time, phy: &Phy) -> Option<Time> {
        let start = self.counting.filter(|_| self.wants_air())?;
        Some(now.max(start + phy.slot * self.backoff))
    }

    /// Notices a frame on the air. Returns whether that ends the countdown.
    ///
    /// A station whose countdown ends within the time of detection has decided already: it sends as well.
    pub fn sense(&mut self, now: Time, phy: &Phy) -> bool {
        if self.busy == 0 {
            self.busy_since = now;
        }
        self.busy += 1;
        if self.access_at.is_some_and(|at| at < now + phy.detection) {
            return false;
        }
        self.stop_counting(now, phy);
        true
    }

    /// Begins to send.
    pub fn start_sending(&mut self, now: Time, phy: &Phy) {
        if self.busy == 0 {
            self.busy_since = now;
        }
        self.busy += 1;
        self.sending = true;
        self.stop_counting(now, phy);
    }

    fn stop_counting(&mut self, now: Time, phy: &Phy) {
        if let Some(start) = self.counting.take() {
            let passed = now.saturating_sub(start).as_nanos() / phy.slot.as_nanos().max(1);
            self.backoff = self
                .backoff
                .saturating_sub(u32::try_from(passed).unwrap_or(u32::MAX));
        }
        self.access_at = None;
        self.countdown += 1;
    }

    /// Notices that one frame on the air has ended. Returns whether the air is free now.
    pub fn unsense(&mut self, now: Time, phy: &Phy) -> bool {
        self.busy = self.busy.saturating_sub(1);
        if self.busy > 0 {
            return false;
        }
        self.idle_from = now;
        self.counters.busy += now - self.busy_since;
        self.count_from(now, phy);
        true
    }

    /// Counts slots from when the air is free for this station.
    pub fn count_from(&mut self, free: Time, phy: &Phy) {
        let space = if self.garbled { phy.eifs() } else { phy.difs() };
        self.counting = Some(free.max(self.nav) + space);
    }

    /// Returns the row of the rate table for the next attempt.
    pub fn next_attempt(&self, phy: &Phy) -> Attempt {
        let slowest = Attempt {
            rate: phy.basic[0],
            count: 1,
            rts: false,
        };
        let Some(first) = self.aboard.first() else {
            return slowest;
        };
        let mut left = first.attempts;
        for row in &first.frame.attempts {
            if left < u32::from(row.count) {
                return *row;
            }
            left -= u32::from(row.count);
        }
        *first.frame.attempts.last().unwrap_or(&slowest)
    }

    /// Returns whether RTS precedes what is aboard.
    pub fn needs_rts(&self, attempt: &Attempt) -> bool {
        let octets: usize = self.aboard.iter().map(|queued| queued.frame.octets).sum();
        self.wants_answer()
            && (attempt.rts
                || self
                    .rts_threshold
                    .is_some_and(|threshold| octets > threshold))
    }

    /// Returns whether an acknowledgement follows what is aboard.
    pub fn wants_answer(&self) -> bool {
        let first = self.aboard.first();
        first.is_some_and(|queued| queued.frame.acknowledged && queued.frame.to != Receiver::All)
    }
}

impl Queued {
    /// Returns whether all attempts are used up.
    pub fn is_spent(&self) -> bool {
        let allowed: u32 = self
            .frame
            .attempts
            .iter()
            .map(|row| u32::from(row.count))
            .sum();
        self.attempts >= allowed.max(1)
    }
}
