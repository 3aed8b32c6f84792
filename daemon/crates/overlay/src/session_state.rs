//! One session, what management sees of it, and what it delivers.

use core::ops::Range;

use cryptoauth::{Address, PublicKey, Received, Session, Stage, HEAD_ROOM};
use switch::{Handle, Header, Label};

use crate::frame::{Content, DATA_HEADER};
use crate::Time;

/// Octets needed before a payload: those of a handshake.
pub const SESSION_HEAD_ROOM: usize = Header::LEN + HEAD_ROOM + Handle::LEN + DATA_HEADER;

/// Largest numbers of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// All sessions.
    pub sessions: usize,
    /// Sessions that the other end has not confirmed.
    pub unconfirmed: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            sessions: 4096,
            unconfirmed: 256,
        }
    }
}

/// A session, and what this node knows of its other end.
pub(crate) struct Inner {
    pub(crate) session: Session,
    pub(crate) address: Address,
    /// The handle that the other end assigned.
    pub(crate) theirs: Option<u32>,
    /// The same, from a HELLO that arrived while keys existed. It is used once that handshake is confirmed.
    pub(crate) announced: Option<u32>,
    pub(crate) used: Time,
    /// Number of user data packets received.
    pub(crate) packets: u64,
    /// When a frame was last received.
    pub(crate) heard: Time,
}

/// A session, for management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// Public key of the other end.
    pub key: PublicKey,
    /// Its address.
    pub address: Address,
    /// Progress of the latest handshake.
    pub stage: Stage,
    /// Whether user data can be sent.
    pub ready: bool,
    /// The handle that this node assigned.
    pub own_handle: u32,
    /// The handle that the other end assigned, if it is known.
    pub their_handle: Option<u32>,
    /// When it was last used.
    pub used: Time,
    /// Number of user data packets received.
    pub packets: u64,
    /// Counters of frames received under the keys in use.
    pub received: Received,
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Public key of the sender.
    pub key: PublicKey,
    /// Address of the sender.
    pub address: Address,
    /// The path back to the sender.
    pub path: Label,
    /// The kind of the payload.
    pub content: Content,
    /// Where in the frame the payload is.
    pub payload: Range<usize>,
    /// Whether this frame established the session.
    pub established: bool,
}

impl Inner {
    pub(crate) fn is_ready(&self) -> bool {
        self.theirs.is_some() && self.session.has_keys()
    }

    pub(crate) fn state(&self, own_handle: u32) -> SessionState {
        SessionState {
            key: *self.session.peer(),
            address: self.address,
            stage: self.session.stage(),
            ready: self.is_ready(),
            own_handle,
            their_handle: self.theirs,
            used: self.used,
            packets: self.packets,
            received: self.session.received(),
        }
    }
}
