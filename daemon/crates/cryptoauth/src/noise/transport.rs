//! The keys that a Noise handshake makes, and data frames.

use core::ops::Range;

use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;

use super::message::{field, put_index, DATA_HEADER};
use crate::auth::Secret;
use crate::sealed::TAG;
use crate::window::Window;
use crate::{Received, Refused, SealError};

/// From here on the 32 bits of the counter are used up.
const COUNTER_LIMIT: u32 = 0xffff_fff0;

/// A pair of keys with their indices, counters and the replay window.
pub(super) struct Transport {
    send: ChaCha20Poly1305,
    receive: ChaCha20Poly1305,
    /// How the peer names the keys to us, and we to it.
    pub(super) own_index: u32,
    pub(super) peer_index: u32,
    counter: u32,
    window: Window,
}

impl Transport {
    pub(super) fn new(send: Secret, receive: Secret, own_index: u32, peer_index: u32) -> Self {
        let [send, receive] = [send, receive].map(|key| ChaCha20Poly1305::new((&*key).into()));
        Self {
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

    /// Seals `content`, a part of `space`, into a data frame; returns where the frame is. Empty
    /// content is a sign of life.
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
        let sealed = self
            .send
            .encrypt_in_place_detached(&nonce(self.counter).into(), &[], content);
        tag.copy_from_slice(&sealed.map_err(|_| room)?);
        self.counter += 1;
        Ok(start..end)
    }

    /// Opens a data frame, which is long enough, in place; returns where its content is.
    pub(super) fn open(&mut self, frame: &mut [u8]) -> Result<Range<usize>, Refused> {
        let counter = u32::from_le_bytes(field(frame, 4));
        self.window.check(counter)?;
        let end = frame.len() - TAG;
        let (content, tag) = frame[DATA_HEADER..].split_at_mut(end - DATA_HEADER);
        let opened = self.receive.decrypt_in_place_detached(
            &nonce(counter).into(),
            &[],
            content,
            (&*tag).into(),
        );
        opened.map_err(|_| Refused::Forged)?;
        self.window.accept(counter);
        Ok(DATA_HEADER..end)
    }
}

/// Four zeros and the counter (Donenfeld, WireGuard, section 5.4.6).
fn nonce(counter: u32) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..8].copy_from_slice(&counter.to_le_bytes());
    nonce
}
