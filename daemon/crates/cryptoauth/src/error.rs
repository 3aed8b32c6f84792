//! Why a frame is refused, and how a caller can misuse this crate.

use core::fmt;

use crate::{Address, PublicKey};

/// Why received octets are not an acceptable frame. The sender or a forger is at fault: count by cause and drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// This number of octets is too small for such a frame.
    Runt(usize),
    /// A handshake message of this type cannot have this number of octets.
    Length(usize),
    /// No control message has this type.
    MessageType(u32),
    /// A data frame arrived, but there are no keys to open it with. The value is its nonce, counter or index.
    NoSession(u32),
    /// A handshake has this key, which is not the session's.
    WrongKey(PublicKey),
    /// A handshake has this node's own key.
    OwnKey,
    /// The user is unknown, or this kind of authentication does not exist.
    UnknownUser(u8),
    /// The handshake has no authentication, but it is required.
    AuthRequired,
    /// The user is bound to another address. The value is the address of the sender's key.
    WrongAddress(Address),
    /// A KEY or a REPLY arrived that answers no handshake of this node.
    StrayKey,
    /// A KEY arrived on an established session.
    KeyOnSession,
    /// A temporary or permanent key has a small order, so that every node shares the same secret with it.
    WeakKey,
    /// The peer sent this node's own temporary key back.
    Reflected,
    /// The handshake was accepted before, or claims to repeat one that was never sent.
    Duplicate,
    /// The tag is wrong: the frame is forged, damaged, or sealed under keys that no longer exist.
    Forged,
    /// The nonce was accepted before, or is too old to know.
    Replayed(u32),
    /// The handshake is not later than the last one.
    OldTimestamp,
    /// The additional data is not a sequence of elements.
    Additional,
    /// The responder is busy and requires a cookie first.
    CookieRequired,
}

/// Why something cannot be sealed. The caller is at fault, except for [`SealError::NoKeys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealError {
    /// The buffer has too little space around the content. The values are the octets needed before and after it.
    Room(usize, usize),
    /// A data frame must have content.
    Empty,
    /// There are no keys to seal with. A handshake must come first.
    NoKeys,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runt(length) => write!(f, "a frame of {length} octets is too short"),
            Self::Length(length) => write!(f, "no message of this type has {length} octets"),
            Self::MessageType(kind) => write!(f, "message type {kind}, allowed are 1 to 3"),
            Self::NoSession(nonce) => write!(f, "data with nonce {nonce}, but no session"),
            Self::WrongKey(key) => write!(f, "a handshake with another key: {key}"),
            Self::OwnKey => f.write_str("a handshake with this node's own key"),
            Self::UnknownUser(kind) => write!(f, "unknown user, authentication type {kind}"),
            Self::AuthRequired => f.write_str("authentication is required, but there is none"),
            Self::WrongAddress(address) => {
                write!(f, "the user is bound to another address than {address}")
            }
            Self::StrayKey => f.write_str("a KEY or REPLY that answers no handshake"),
            Self::KeyOnSession => f.write_str("a KEY on an established session"),
            Self::WeakKey => f.write_str("a key of small order"),
            Self::Reflected => f.write_str("this node's own temporary key was sent back"),
            Self::Duplicate => f.write_str("a repeated handshake"),
            Self::Forged => f.write_str("the tag is wrong"),
            Self::Replayed(nonce) => write!(f, "nonce {nonce} was used before or is too old"),
            Self::OldTimestamp => f.write_str("a handshake that is not later than the last one"),
            Self::Additional => f.write_str("malformed additional data"),
            Self::CookieRequired => f.write_str("a cookie is required"),
        }
    }
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Room(before, after) => {
                write!(f, "too little space: {before} octets are needed before the content, {after} after it")
            }
            Self::Empty => f.write_str("data without content"),
            Self::NoKeys => f.write_str("there are no keys to seal with"),
        }
    }
}

impl core::error::Error for Refused {}
impl core::error::Error for SealError {}
