//! CryptoAuth and the Noise link handshake of the cjdns protocol (version
//! 22), sans-IO: keys and addresses, handshakes in both roles, sessions.
//!
//! # Theory of operation
//!
//! A node has one X25519 key pair ([`PrivateKey`]); its [`Address`] is a hash
//! of the public key. [`Local`] holds the pair with the [`Users`] that may
//! connect. Between two nodes stands a [`Session`]: what is sealed while it
//! has no keys yet travels inside of the handshake, and the first data that
//! opens establishes it. `session.rs` has the state machine as a table. On
//! links, peers that both know version 22 may use [`noise`] instead.
//!
//! The caller owns the octets: a frame is sealed and opened in place, in a
//! buffer with [`HEAD_ROOM`] octets before the content and [`TAIL_ROOM`] after
//! it, and nothing is allocated. Time is the [`Duration`](core::time::Duration)
//! since an arbitrary start and never runs backwards; randomness comes from
//! the caller's generator.
//!
//! # Contract
//!
//! No octets from the network make this crate panic. What is refused ([`Refused`]) leaves the
//! session as it was; the content of a refused frame is undefined. Secrets are never formatted, and
//! are overwritten when they are dropped; what hash functions keep inside while they work is not.
//!
//! # What a flood costs
//!
//! A frame that is too short, of an unknown user or of another key than the session's is refused
//! without any curve arithmetic. Beyond that a forged HELLO costs one scalar multiplication when its
//! sender has no [`Session`] and none when it has one; [`Session::answer`] makes a session only of
//! what was authentic. Everybody can make a key pair and with it an authentic HELLO, and everybody
//! who saw one can repeat it: that costs two multiplications where a session is made, one where it
//! stands, and three for the answer. So the caller must bound the number of sessions that are not
//! [`Session::is_established`], and limit by source address how often it calls [`Session::answer`],
//! and how often it opens handshake frames of sessions. An old HELLO that is repeated cannot end an
//! established session.
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
