//! The header of a handshake frame.
//!
//! ```text
//! 0  u32 kind     4  authentication: kind, 7 octets of a hash     12 u16, u16 unused
//! 16 nonce[24]   40  sender's permanent key[32]
//! 72 tag[16]     88  sealed: temporary key[32], content
//! ```

use crate::auth::Lookup;
use crate::sealed::TAG;
use crate::{PublicKey, Refused, KEY_LENGTH};

/// Octets before the content.
pub(crate) const HANDSHAKE_OVERHEAD: usize = 120;
/// Offset of the tag, the start of the sealed part.
pub(crate) const SEALED: usize = 72;

const LOOKUP: usize = 4;
const UNUSED: usize = 12;
const NONCE: usize = 16;
const SENDER: usize = 40;
const TEMPORARY: usize = SEALED + TAG;

/// Octets of a nonce.
pub(crate) const NONCE_LENGTH: usize = NONCE_END - NONCE;
const NONCE_END: usize = SENDER;

/// Kinds of handshake frames, with their numbers in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    Hello = 0,
    RepeatHello = 1,
    Key = 2,
    RepeatKey = 3,
}

/// The unencrypted part of a handshake frame. Nothing in it is authentic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) lookup: Lookup,
    pub(crate) unused: [u8; 4],
    pub(crate) nonce: [u8; NONCE_LENGTH],
    pub(crate) sender: PublicKey,
}

impl Kind {
    fn from_wire(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Hello,
            1 => Self::RepeatHello,
            2 => Self::Key,
            3 => Self::RepeatKey,
            _ => return None,
        })
    }

    pub(crate) fn is_hello(self) -> bool {
        matches!(self, Self::Hello | Self::RepeatHello)
    }
}

/// Returns the first word of a frame: below 4 it is the kind of a handshake, otherwise the nonce of data.
pub(crate) fn first_word(frame: &[u8]) -> Result<u32, Refused> {
    frame
        .first_chunk()
        .map(|word| u32::from_be_bytes(*word))
        .ok_or(Refused::Runt(frame.len()))
}

impl Header {
    pub(crate) fn decode(frame: &[u8]) -> Result<Self, Refused> {
        let header: &[u8; HANDSHAKE_OVERHEAD] =
            frame.first_chunk().ok_or(Refused::Runt(frame.len()))?;
        let word = first_word(frame)?;
        Ok(Self {
            kind: Kind::from_wire(word).ok_or(Refused::NoSession(word))?,
            lookup: part(header, LOOKUP),
            unused: part(header, UNUSED),
            nonce: part(header, NONCE),
            sender: PublicKey::from_octets(part(header, SENDER)),
        })
    }

    /// Writes the header and the temporary key before it is sealed. Does not write the tag.
    pub(crate) fn encode(&self, temporary: &PublicKey, frame: &mut [u8]) {
        frame[..LOOKUP].copy_from_slice(&(self.kind as u32).to_be_bytes());
        frame[LOOKUP..UNUSED].copy_from_slice(&self.lookup);
        frame[UNUSED..NONCE].copy_from_slice(&self.unused);
        frame[NONCE..NONCE_END].copy_from_slice(&self.nonce);
        frame[SENDER..SEALED].copy_from_slice(self.sender.octets());
        frame[TEMPORARY..HANDSHAKE_OVERHEAD].copy_from_slice(temporary.octets());
    }
}

/// Returns the temporary key of an opened frame. [`Header::decode`] has checked the frame's length.
pub(crate) fn temporary(frame: &[u8]) -> PublicKey {
    let mut octets = [0; KEY_LENGTH];
    octets.copy_from_slice(&frame[TEMPORARY..HANDSHAKE_OVERHEAD]);
    PublicKey::from_octets(octets)
}

fn part<const N: usize>(header: &[u8; HANDSHAKE_OVERHEAD], start: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&header[start..start + N]);
    part
}
