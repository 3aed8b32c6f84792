//! The Noise link handshake of protocol version 22 (WireGuard's form of Noise IKpsk2).
//!
//! # Theory of operation
//!
//! Control messages start with `ffffffff` and the type of WireGuard's message. An INIT is addressed to a node,
//! everything else to the session whose index it has ([`addressee`]). A node with data to send and no keys sends an
//! INIT. The receiver opens it ([`Request::open`]), finds or creates the [`Link`] of its sender and answers with a
//! REPLY ([`Link::answer`]). The REPLY gives the initiator its keys. It must then send something, which may be an empty
//! frame. That confirms the responder's keys, and both can send. Data frames have WireGuard's nonces, shortened to 32
//! bits. Keys are valid for 180 s, and their initiator makes new ones after 120 s. Both times are from Donenfeld,
//! WireGuard: Next Generation Kernel Network Tunnel, section 6.
//!
//! An INIT has additional data (`additional.rs`), which the protocol seals with the timestamp's key and nonce, so an
//! attacker on the way can change both. At worst the handshake fails, because neither of them alone determines the
//! keys. Do not rely on [`Request::version`] for anything that a stranger must not influence.
//!
//! # What a flood costs
//!
//! An INIT without a valid first MAC, for which only this node's public key is needed, costs one hash. Any other INIT
//! costs two scalar multiplications, and its REPLY three. The caller must limit [`Request::open`] by source address or,
//! if it is busy, require a cookie first ([`Cookies`]), which proves the address.

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

/// The first protocol version with this handshake.
pub const FIRST_VERSION: u32 = 22;

/// Returns whether to start a handshake with a peer that announces `version`: it is enabled, and the peer understands
/// it.
pub fn may_initiate(enabled: bool, version: Option<u32>) -> bool {
    enabled && version.is_some_and(|version| version >= FIRST_VERSION)
}
