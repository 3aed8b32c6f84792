//! The Noise link handshake of protocol version 22 (WireGuard's form of Noise IKpsk2).
//!
//! # Theory of operation
//!
//! Control messages begin with `ffffffff` and the type of WireGuard's message: an INIT goes to a
//! node, everything else to the session whose index it carries ([`addressee`]). Who wants to send
//! data and has no keys says INIT; the other opens it ([`Request::open`]), finds or makes the
//! [`Link`] of its sender and answers with a REPLY ([`Link::answer`]). The initiator has its keys
//! with the REPLY and must send something, if only an empty frame; with that the responder has its
//! own, and both send. Data frames have WireGuard's nonces, shortened to 32 bits. Keys live for 180
//! s and are made anew by their initiator after 120 s; both are the times of Donenfeld, WireGuard:
//! Next Generation Kernel Network Tunnel, section 6.
//!
//! An INIT carries additional data (`additional.rs`), which the protocol seals with the timestamp's
//! key and nonce: whoever is in the middle can change both. The worst that comes of it is a
//! handshake that fails, because neither decides on the keys alone; do not build anything on
//! [`Request::version`] that must not be told by a stranger.
//!
//! # What a flood costs
//!
//! Without a valid first MAC, which takes only our public key, nothing but a hash is calculated;
//! beyond that an INIT costs two scalar multiplications, and its REPLY three. The caller must limit
//! [`Request::open`] by source address, or, when it is busy, ask for a cookie first ([`Cookies`]),
//! which proves the address.

mod additional;
mod cookie;
mod handshake;
mod link;
mod message;
mod transport;

pub use cookie::Cookies;
pub use handshake::Request;
pub use link::{Due, Link};
pub use message::{addressee, Addressee, Timestamp, MESSAGE_ROOM};

/// The first protocol version that knows the handshake.
pub const FIRST_VERSION: u32 = 22;

/// Whether to begin a handshake with a peer that declares `version`: when that is enabled, and it
/// will be understood.
pub fn may_initiate(enabled: bool, version: Option<u32>) -> bool {
    enabled && version.is_some_and(|version| version >= FIRST_VERSION)
}
