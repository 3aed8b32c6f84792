//! Frames that wait for an interface.

use std::collections::VecDeque;
use std::io;

use super::buffers::{Part, Pool};
use super::IoCounters;

/// Frames that wait at most: a tenth of the pool for each of a few interfaces.
const WAITING_MAX: usize = 256;

/// How it went with the frames that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// None waits.
    Free,
    /// The interface takes no more for now.
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
    /// Puts a frame behind the others, or drops it when too many wait.
    pub fn push(&mut self, to: A, frame: Part, pool: &mut Pool, counters: &mut IoCounters) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((to, frame));
        } else {
            counters.overflow += 1;
            pool.give(frame.buffer);
        }
    }

    /// Whether so many wait that they are worth a call.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX / 2
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The frames that wait, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(A, Part)> {
        self.waiting.iter()
    }

    /// Takes the first frames out.
    pub fn done(&mut self, frames: usize, pool: &mut Pool) {
        for (_, part) in self.waiting.drain(..frames.min(self.waiting.len())) {
            pool.give(part.buffer);
        }
    }
}

/// Whether a socket says that its buffer is full.
pub fn is_blocked(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
