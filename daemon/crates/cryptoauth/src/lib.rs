//! CryptoAuth and the Noise link handshake of the cjdns protocol (version 22), without I/O: keys and addresses,
//! handshakes in both roles, sessions.
//!
//! # Theory of operation
//!
//! A node has one X25519 key pair ([`PrivateKey`]). Its [`Address`] is a hash of the public key. [`Local`] holds the
//! pair and the [`Users`] that may connect. Two nodes share a [`Session`]. Content that is sealed before it has keys is
//! sent inside the handshake, and the first data frame that opens establishes it. `session.rs` has the state machine as
//! a table. On links, peers that both know version 22 may use [`noise`] instead.
//!
//! The caller owns the octets: a frame is sealed and opened in place, in a buffer with [`HEAD_ROOM`] octets before the
//! content and [`TAIL_ROOM`] after it, and nothing is allocated. Time is the [`Duration`](core::time::Duration) since
//! an arbitrary start and never runs backwards. Randomness comes from the caller's generator.
//!
//! # Contract
//!
//! No octets from the network make this crate panic. A refused frame ([`Refused`]) leaves the session unchanged, but
//! its content is undefined. Secrets are never formatted, and are overwritten when they are dropped. The internal state
//! of hash functions is not overwritten.
//!
//! # What a flood costs
//!
//! A frame that is too short, or that has an unknown user or another key than the session's, is refused without any
//! curve arithmetic. Any other forged HELLO costs one scalar multiplication if its sender has no [`Session`], and none
//! if it has one. [`Session::answer`] creates a session only from an authentic HELLO. But everybody can make a key pair
//! and with it an authentic HELLO, and can repeat a HELLO of others. Such a HELLO costs two multiplications if a
//! session is created, one if it exists, and three for the answer. So the caller must bound the number of sessions that
//! are not [`Session::is_established`]. It must also limit by source address how often it calls [`Session::answer`],
//! and how often it opens handshake frames of sessions. A repeated old HELLO cannot end an established session.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod auth;
mod ciphers;
mod error;
mod header;
mod keys;
mod local;
pub mod noise;
mod sealed;
mod session;
mod window;

pub use auth::{Credential, DuplicateUser, UserId, Users};
pub use ciphers::{Ciphers, Key, Portable, Tag, TAG_LENGTH};
pub use error::{Refused, SealError};
pub use keys::{Address, KeyError, PrivateKey, PublicKey, KEY_LENGTH};
pub use local::Local;
pub use session::{Event, Opened, Session, Stage};
pub use window::Received;

/// Octets that a frame may need before its content.
pub const HEAD_ROOM: usize = header::HANDSHAKE_OVERHEAD;
/// Octets that a frame may need after its content.
pub const TAIL_ROOM: usize = TAG_LENGTH;
