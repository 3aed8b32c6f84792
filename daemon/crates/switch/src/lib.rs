//! The switch layer of cjdns (protocol versions 20 to 22): source-routed
//! frames that carry their way in a label of 64 bits.
//!
//! A label is a sequence of directors, low bits first: each tells one switch
//! through which [`Interface`] the frame leaves. The switch shifts its director
//! out and puts the one that leads back in at the other end, so that the
//! label, reversed, is the way back: no switch keeps state about anybody.
//!
//! [`forward`] is all that happens to a frame in transit. [`Header`] and
//! [`Handle`] are what stands before its content, [`Control`] the frames by
//! which switches talk about ways, [`Scheme`] how other nodes write directors.
//!
//! # Contract
//!
//! Nothing here panics, whatever the octets; nothing allocates, reads a clock
//! or draws a random number. There are no secrets in this layer: labels,
//! headers and control frames are read by every switch on the way.
#![no_std]
#![forbid(unsafe_code)]

mod checksum;
mod control;
mod director;
mod error;
mod forward;
mod header;
mod interfaces;
mod label;
mod scheme;

pub use control::{control_frame, Answerer, Control, LinkAddress, Snode, MAX_KEY_OPAQUE};
pub use director::{compress, decompress, label_for, peer_label, Form};
pub use error::{ControlError, ErrorCode, ParseLabelError, Refusal, SchemeError};
pub use forward::{error_frame, forward, refused_frame, MAX_ERROR_FRAME};
pub use header::{Handle, Header};
pub use interfaces::{Interface, Interfaces};
pub use label::{Label, MAX_LABEL_BITS};
pub use scheme::{Scheme, SchemeForm, MAX_FORMS, MAX_SCHEME_OCTETS};

/// The protocol version that this implementation speaks and tells.
pub const PROTOCOL_VERSION: u32 = 22;

/// The oldest protocol version that can be spoken with.
pub const OLDEST_PROTOCOL_VERSION: u32 = 20;

/// Whether a node of that protocol version can be spoken with.
///
/// A later version decides for itself whether it still speaks ours.
pub const fn is_compatible(version: u32) -> bool {
    version >= OLDEST_PROTOCOL_VERSION
}
