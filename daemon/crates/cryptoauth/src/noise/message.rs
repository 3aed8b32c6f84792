//! The layout of control messages. All integers are little-endian.
//!
//! ```text
//! INIT    0 ffffffff  4 u32 1  8 sender  12 ephemeral[32]  44 static[32] tag[16]  92 timestamp[12] tag[16]
//!         120 additional data[n] tag[16], if any           then mac1[16] mac2[16]
//! REPLY   0 ffffffff  4 u32 2  8 sender  12 receiver  16 ephemeral[32]  48 tag[16]  64 mac1[16]  80 mac2[16]
//! COOKIE  0 ffffffff  4 u32 3  8 receiver  12 nonce[24]  36 cookie[16] tag[16]
//! DATA    0 receiver  4 counter  8 sealed content[n] tag[16]
//! ```

use core::ops::Range;
use core::time::Duration;

use super::additional::MAX_LENGTH;
use crate::sealed::TAG;
use crate::Refused;

pub(super) const INIT: u32 = 1;
pub(super) const REPLY: u32 = 2;
pub(super) const COOKIE: u32 = 3;

/// The first octets of a control message, in place of a receiver's index.
pub(super) const CONTROL: [u8; 4] = [0xff; 4];
/// Offset of WireGuard's message, from which on the MACs cover the octets.
pub(super) const BODY: usize = 4;
/// Offset of the sender's index of INIT and REPLY, and of the receiver's index of COOKIE.
pub(super) const FIRST_INDEX: usize = 8;
pub(super) const MACS: usize = 32;

pub(super) const INIT_EPHEMERAL: Range<usize> = 12..44;
pub(super) const INIT_STATIC: Range<usize> = 44..92;
pub(super) const INIT_TIMESTAMP: Range<usize> = 92..120;
/// Length in octets of an INIT without additional data.
pub(super) const INIT_LENGTH: usize = INIT_TIMESTAMP.end + MACS;

pub(super) const REPLY_RECEIVER: usize = 12;
pub(super) const REPLY_EPHEMERAL: Range<usize> = 16..48;
pub(super) const REPLY_EMPTY: Range<usize> = 48..64;
pub(super) const REPLY_LENGTH: usize = REPLY_EMPTY.end + MACS;

pub(super) const COOKIE_NONCE: Range<usize> = 12..36;
pub(super) const COOKIE_SEALED: Range<usize> = 36..68;
pub(super) const COOKIE_LENGTH: usize = COOKIE_SEALED.end;

pub(super) const DATA_HEADER: usize = 8;

/// Length in octets of the longest control message.
pub const MESSAGE_ROOM: usize = INIT_LENGTH + MAX_LENGTH + TAG;

/// Seconds from the TAI64 epoch to the UNIX epoch.
const TAI64_EPOCH: u64 = (1 << 62) + 37;

/// The receiver of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// The node. The frame is an INIT, for [`Request::open`](super::Request::open).
    Node,
    /// The [`Link`](super::Link) with this index.
    Link(u32),
}

/// When an INIT was made (TAI64N). Each INIT of a node must have a later timestamp than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub [u8; 12]);

impl Timestamp {
    /// Returns the timestamp for a time since the UNIX epoch, without leap seconds.
    pub fn from_unix(since_epoch: Duration) -> Self {
        let mut octets = [0; 12];
        let seconds = TAI64_EPOCH.wrapping_add(since_epoch.as_secs());
        octets[..8].copy_from_slice(&seconds.to_be_bytes());
        octets[8..].copy_from_slice(&since_epoch.subsec_nanos().to_be_bytes());
        Self(octets)
    }
}

/// Returns the receiver of a frame, and checks that the frame has a possible length.
///
/// # Errors
///
/// [`Refused::Runt`], [`Refused::Length`], [`Refused::MessageType`].
pub fn addressee(frame: &[u8]) -> Result<Addressee, Refused> {
    if frame.len() < DATA_HEADER + TAG {
        return Err(Refused::Runt(frame.len()));
    }
    if frame[..BODY] != CONTROL {
        return Ok(Addressee::Link(index(frame, 0) >> 8));
    }
    let kind = index(frame, BODY);
    let (fits, addressee) = match kind {
        INIT => (has_init_length(frame.len()), Addressee::Node),
        REPLY if frame.len() == REPLY_LENGTH => {
            (true, Addressee::Link(index(frame, REPLY_RECEIVER) >> 8))
        }
        COOKIE => (
            frame.len() == COOKIE_LENGTH,
            Addressee::Link(index(frame, FIRST_INDEX) >> 8),
        ),
        REPLY => (false, Addressee::Node),
        _ => return Err(Refused::MessageType(kind)),
    };
    fits.then_some(addressee)
        .ok_or(Refused::Length(frame.len()))
}

fn has_init_length(length: usize) -> bool {
    length == INIT_LENGTH || (INIT_LENGTH + TAG..=MESSAGE_ROOM).contains(&length)
}

/// Returns the integer at `start`. The frame must be long enough.
pub(super) fn index(frame: &[u8], start: usize) -> u32 {
    let mut octets = [0; 4];
    octets.copy_from_slice(&frame[start..start + 4]);
    u32::from_le_bytes(octets)
}

pub(super) fn put_index(frame: &mut [u8], start: usize, index: u32) {
    frame[start..start + 4].copy_from_slice(&index.to_le_bytes());
}

/// Returns the octets of a field. The frame must be long enough.
pub(super) fn field<const N: usize>(frame: &[u8], start: usize) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&frame[start..start + N]);
    octets
}
