//! Queue of frames for an interface.

use std::collections::VecDeque;
use std::io;

use super::buffers::{Part, Pool};
use super::IoCounters;

/// Largest number of queued frames, a tenth of the pool for each of a few interfaces.
const WAITING_MAX: usize = 256;

/// Result of sending the queued frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The queue is empty.
    Free,
    /// The interface accepts no more at present.
    Blocked,
}

/// Frames with their receivers, in order.
pub struct Outbox<A> {
    waiting: VecDeque<(A, Part)>,
}

impl<A> Default for Outbox<A> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::with_capacity(WAITING_MAX),
        }
    }
}

impl<A> Outbox<A> {
    /// Queues a frame, or drops it if the queue is full.
    pub fn push(&mut self, to: A, frame: Part, pool: &mut Pool, counters: &mut IoCounters) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((to, frame));
        } else {
            counters.overflow += 1;
            pool.give(frame.buffer);
        }
    }

    /// Returns whether enough frames are queued for a system call.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX / 2
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the queued frames in order.
    pub fn iter(&self) -> impl Iterator<Item = &(A, Part)> {
        self.waiting.iter()
    }

    /// Removes the first frames.
    pub fn done(&mut self, frames: usize, pool: &mut Pool) {
        for (_, part) in self.waiting.drain(..frames.min(self.waiting.len())) {
            pool.give(part.buffer);
        }
    }
}

/// Returns whether an error means that the socket's buffer is full.
pub fn is_blocked(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
