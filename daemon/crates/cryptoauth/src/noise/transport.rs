//! The keys that result from a Noise handshake, and data frames.

use core::ops::Range;

use super::message::{field, put_index, DATA_HEADER};
use crate::auth::Secret;
use crate::sealed::TAG;
use crate::window::Window;
use crate::{Ciphers, Received, Refused, SealError};

/// Value from which on the 32 bits of the counter count as used up.
const COUNTER_LIMIT: u32 = 0xffff_fff0;

/// A pair of keys with their indices, counters and replay window.
pub(super) struct Transport {
    ciphers: &'static dyn Ciphers,
    send: Secret,
    receive: Secret,
    /// The index by which the peer identifies the keys, and the one by which this node identifies them to the peer.
    pub(super) own_index: u32,
    pub(super) peer_index: u32,
    counter: u32,
    window: Window,
}

impl Transport {
    /// Returns the state with `keys`: this node's key for sending, and the peer's.
    pub(super) fn new(
        ciphers: &'static dyn Ciphers,
        keys: [Secret; 2],
        own_index: u32,
        peer_index: u32,
    ) -> Self {
        let [send, receive] = keys;
        Self {
            ciphers,
            send,
            receive,
            own_index,
            peer_index,
            counter: 0,
            window: Window::default(),
        }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.counter >= COUNTER_LIMIT
    }

    pub(super) fn received(&self) -> Received {
        self.window.received()
    }

    /// Seals `content`, a part of `space`, into a data frame. Returns where the frame is. Empty content makes a
    /// keepalive.
    pub(super) fn seal(
        &mut self,
        space: &mut [u8],
        content: Range<usize>,
    ) -> Result<Range<usize>, SealError> {
        if self.is_exhausted() {
            return Err(SealError::NoKeys);
        }
        let room = SealError::Room(DATA_HEADER, TAG);
        let start = content.start.checked_sub(DATA_HEADER).ok_or(room)?;
        let end = content
            .end
            .checked_add(TAG)
            .filter(|_| content.start <= content.end)
            .ok_or(room)?;
        let frame = space.get_mut(start..end).ok_or(room)?;
        put_index(frame, 0, self.peer_index);
        put_index(frame, 4, self.counter);
        let (content, tag) = frame[DATA_HEADER..].split_at_mut(content.len());
        let nonce = nonce(self.counter);
        tag.copy_from_slice(&self.ciphers.seal_chacha20(&self.send, &nonce, content));
        self.counter += 1;
        Ok(start..end)
    }

    /// Opens a data frame in place. The frame must be long enough. Returns where its content is.
    pub(super) fn open(&mut self, frame: &mut [u8]) -> Result<Range<usize>, Refused> {
        let counter = u32::from_le_bytes(field(frame, 4));
        self.window.check(counter)?;
        let end = frame.len() - TAG;
        let (content, tag) = frame[DATA_HEADER..]
            .split_last_chunk_mut::<TAG>()
            .ok_or(Refused::Forged)?;
        let nonce = nonce(counter);
        let is_authentic = self
            .ciphers
            .open_chacha20(&self.receive, &nonce, content, tag);
        if !is_authentic {
            return Err(Refused::Forged);
        }
        self.window.accept(counter);
        Ok(DATA_HEADER..end)
    }
}

/// Returns four zeros and the counter (Donenfeld, WireGuard, section 5.4.6).
fn nonce(counter: u32) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..8].copy_from_slice(&counter.to_le_bytes());
    nonce
}
