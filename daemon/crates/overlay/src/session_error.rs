//! Why a session refuses a frame or a payload.

use core::fmt;

use cryptoauth::{Refused, SealError};
use switch::Refusal;

use crate::frame::{Content, FrameError};
use crate::session_state::SESSION_HEAD_ROOM;

/// Why a frame is refused. Count by cause and drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnerError {
    /// It ends inside the switch's header or the handle.
    Switch(Refusal),
    /// It is a control frame, which does not belong to a session.
    Control,
    /// No session has this handle.
    UnknownHandle(u32),
    /// The address of the sender's key is not in fc00::/8.
    NoNode,
    /// There is no space for another session.
    Full,
    /// Cryptoauth refused it.
    Refused(Refused),
    /// Its content is malformed.
    Frame(FrameError),
    /// A handshake contains something other than a DHT message.
    Unprotected(Content),
}

/// Why a payload cannot be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnerSealError {
    /// There is less space before the payload than [`SESSION_HEAD_ROOM`].
    Room,
    /// It is user data, and the session is not established. A DHT message must be sent first.
    NotEstablished,
    /// The address of the receiver's key is not in fc00::/8.
    NoNode,
    /// There is no space for another session.
    Full,
    /// The receiver's key is unusable.
    Key(Refused),
    /// Cryptoauth could not seal it.
    Seal(SealError),
    /// The keys ended with this frame, which must not be sent. The next frame starts a handshake.
    Ended,
}

impl fmt::Display for InnerError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Switch(refusal) => write!(f, "inner frame: {refusal}"),
            Self::Control => write!(f, "inner frame: a control frame belongs to no session"),
            Self::UnknownHandle(handle) => {
                write!(f, "inner frame: no session has the handle {handle}")
            }
            Self::NoNode => write!(f, "inner frame: the sender's key is not a node's"),
            Self::Full => write!(f, "inner frame: no space for another session"),
            Self::Refused(refused) => write!(f, "inner frame: {refused}"),
            Self::Frame(error) => write!(f, "inner frame: {error}"),
            Self::Unprotected(content) => {
                write!(
                    f,
                    "inner frame: content type {} in a handshake, allowed is 256",
                    content.number()
                )
            }
        }
    }
}

impl fmt::Display for InnerSealError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Room => write!(f, "less than {SESSION_HEAD_ROOM} octets before the payload"),
            Self::NotEstablished => write!(f, "user data needs an established session"),
            Self::NoNode => write!(f, "the receiver's key is not a node's"),
            Self::Full => write!(f, "no space for another session"),
            Self::Key(refused) => write!(f, "the receiver's key: {refused}"),
            Self::Seal(error) => write!(f, "{error}"),
            Self::Ended => write!(f, "the keys of the session are used up"),
        }
    }
}

impl core::error::Error for InnerError {}
impl core::error::Error for InnerSealError {}
