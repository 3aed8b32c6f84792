//! The switch layer of cjdns (protocol versions 20 to 22). Its frames are source-routed: a label of 64 bits holds their
//! path.
//!
//! A label is a sequence of directors, low bits first. Each director names the [`Interface`] through which the frame
//! leaves one switch. The switch shifts its director out, and puts the director of the interface on which the frame
//! arrived in at the other end. So the label, reversed, is the path back, and no switch keeps state about other nodes.
//!
//! [`forward`] does everything that happens to a frame in transit. [`Header`] and [`Handle`] precede the content,
//! [`Control`] holds the frames by which switches exchange information about paths, and [`Scheme`] describes how other
//! nodes write directors.
//!
//! # Contract
//!
//! Nothing here panics, whatever the octets. Nothing allocates, reads a clock or draws a random number. This layer has
//! no secrets: every switch on the path reads labels, headers and control frames.
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

/// The protocol version of this implementation, which it announces.
pub const PROTOCOL_VERSION: u32 = 22;

/// The oldest compatible protocol version.
pub const OLDEST_PROTOCOL_VERSION: u32 = 20;

/// Returns whether a node with this protocol version is compatible.
///
/// A later version decides for itself whether it is still compatible with ours.
pub const fn is_compatible(version: u32) -> bool {
    version >= OLDEST_PROTOCOL_VERSION
}
