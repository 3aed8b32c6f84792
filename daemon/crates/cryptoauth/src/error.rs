//! Why a frame is refused, and what a caller can do wrong.

use core::fmt;

use crate::{Address, PublicKey};

/// Octets that are no acceptable frame: the sender's fault, or a forger's; count by cause and drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Fewer octets than such a frame has; their number.
    Runt(usize),
    /// A handshake message of a length that its type does not have; the number of octets.
    Length(usize),
    /// A type of control message that does not exist; the type.
    MessageType(u32),
    /// Data, but there are no keys to open it with; the nonce, counter or index.
    NoSession(u32),
    /// A handshake under another key than the session's; the key.
    WrongKey(PublicKey),
    /// A handshake under our own key.
    OwnKey,
    /// A user who is not known, or a kind of authentication that does not exist; the kind.
    UnknownUser(u8),
    /// No authentication where it is required.
    AuthRequired,
    /// A user who is bound to another address; the address of the sender's key.
    WrongAddress(Address),
    /// A KEY or a reply that answers nothing.
    StrayKey,
    /// A KEY on an established session.
    KeyOnSession,
    /// A temporary or permanent key of small order, with which everybody shares the same secret.
    WeakKey,
    /// Our own temporary key, sent back.
    Reflected,
    /// A handshake that was accepted before, or one that repeats what was never said.
    Duplicate,
    /// The tag is wrong: forged, damaged, or sealed under keys that are gone.
    Forged,
    /// A nonce that was accepted before, or one that is too old to know; the nonce.
    Replayed(u32),
    /// A handshake that is not later than the last one.
    OldTimestamp,
    /// Additional data that is no sequence of elements.
    Additional,
    /// The responder is busy and wants to see a cookie first.
    CookieRequired,
}

/// Something that cannot be sealed: the caller's fault, except [`SealError::NoKeys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealError {
    /// The buffer has too little room before or after the content; the octets needed before and
    /// after.
    Room(usize, usize),
    /// Data without content.
    Empty,
    /// There are no keys to seal with: a handshake comes first.
    NoKeys,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runt(length) => write!(f, "{length} octets are no frame"),
            Self::Length(length) => write!(f, "{length} octets are no such message"),
            Self::MessageType(kind) => write!(f, "message type {kind}, must be 1 to 3"),
            Self::NoSession(nonce) => write!(f, "data {nonce} without a session"),
            Self::WrongKey(key) => write!(f, "a handshake under another key: {key}"),
            Self::OwnKey => f.write_str("a handshake under our own key"),
            Self::UnknownUser(kind) => write!(f, "unknown user, authentication type {kind}"),
            Self::AuthRequired => f.write_str("no authentication"),
            Self::WrongAddress(address) => {
                write!(f, "the user is bound to another address than {address}")
            }
            Self::StrayKey => f.write_str("a key that answers nothing"),
            Self::KeyOnSession => f.write_str("a key on an established session"),
            Self::WeakKey => f.write_str("a key of small order"),
            Self::Reflected => f.write_str("our own temporary key"),
            Self::Duplicate => f.write_str("a handshake for the second time"),
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
                write!(f, "too little room: {before} octets are needed before the content, {after} after it")
            }
            Self::Empty => f.write_str("data without content"),
            Self::NoKeys => f.write_str("no keys to seal with"),
        }
    }
}

impl core::error::Error for Refused {}
impl core::error::Error for SealError {}
