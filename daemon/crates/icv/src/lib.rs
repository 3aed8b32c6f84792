//! Signatures of RFC 5444 messages by the key of the router that originates them (RFC 7182).
//!
//! A signed message has two more message TLVs, both with a type extension for experiments (RFC 7182, sections 13.7
//! and 13.8):
//!
//! | TLV | type, extension | value |
//! |---|---|---|
//! | TIMESTAMP | 6, 252 | counter: 8 octets; age: 4 octets; the most significant octet first |
//! | ICV | 5, 252 | Ed25519 public key: 32 octets; Ed25519 signature: 64 octets |
//!
//! The signature covers [`DOMAIN`] and the octets of the message without ICV TLVs and with a hop limit and a hop count
//! of 0 ([`rfc5444::covered_octets`]). No other protocol that uses the key signs octets that begin with [`DOMAIN`].
//!
//! The counter grows with each message that the key signs, also across restarts. It orders messages, and needs no clock.
//! Counter minus age is the *floor*: the sender has used no lower counter lately, nor since it started. So who quotes a
//! counter that is not below the floor has heard the sender lately.
//!
//! Beside them a router may send a token ([`Tokens`]): TIMESTAMP, type 6, extension 253, 8 or 16 octets. The signature
//! covers it.
//!
//! An IPv6 originator in fc00::/7 is the hash of its key, so the signature alone proves who speaks for it. Any other
//! originator is bound to the key by the signature, and the caller decides which of several keys counts.
//!
//! # Contract
//!
//! No octets make this crate panic, whether they come from the network or from the router that asks for a signature.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod fault;
mod request;
mod signature;
mod signer;
mod token;

pub use fault::Fault;
pub use request::{Answer, Frames, Request, TooLong};
pub use signature::{
    address_of, has_other_icv, is_hash, is_hash_of, Claim, ICV_EXTENSION, TIMESTAMP_EXTENSION,
};
pub use signer::Signer;
pub use token::{Shown, Token, Tokens, REACH, SECRET_LENGTH, TOKEN_EXTENSION, TOKEN_LENGTH};

/// What a signature covers before the message.
pub const DOMAIN: &[u8] = b"meshsec OLSRv2 message 1\0";
/// Octets of a public key and of a private key's seed (RFC 8032, section 5.1.5).
pub const KEY_LENGTH: usize = 32;
/// Octets of a signature (RFC 8032, section 5.1.6).
pub const SIGNATURE_LENGTH: usize = 64;
/// Octets by which signing makes a message longer: two TLVs with type, flags, extension, length and value.
pub const OVERHEAD: usize = 2 * 4 + 8 + 4 + KEY_LENGTH + SIGNATURE_LENGTH;
