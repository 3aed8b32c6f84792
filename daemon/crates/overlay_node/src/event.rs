//! What a node tells its caller.

use core::time::Duration;

use cryptoauth::{Address, PublicKey};
use switch::{ErrorCode, Label};

use crate::interface::{InterfaceId, LinkAddress};

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A neighbour can be spoken with.
    PeerUp {
        /// Its key.
        key: PublicKey,
        /// The label of one hop that leads to it.
        label: Label,
        /// By which interface.
        interface: InterfaceId,
        /// Its address there.
        address: LinkAddress,
    },
    /// A neighbour is gone: it was silent for too long, or was disconnected.
    PeerDown {
        /// Its key.
        key: PublicKey,
        /// The label that led to it.
        label: Label,
    },
    /// A neighbour is at another address than before; its label stays.
    PeerMoved {
        /// Its key.
        key: PublicKey,
        /// By which interface it is reached now.
        interface: InterfaceId,
        /// Its address there.
        address: LinkAddress,
    },
    /// User data can be exchanged with a node.
    SessionUp(Address),
    /// A way to a node that is written to was found, or a better one.
    WayFound {
        /// The node.
        address: Address,
        /// The way.
        label: Label,
    },
    /// There is no way any more to a node that is written to; one is looked for.
    WayLost(Address),
    /// No way to a node that is written to could be found; it is tried again.
    NotFound(Address),
    /// Packets to a node that is kept pass at once: way and session stand ([`Node::keep`]).
    ///
    /// [`Node::keep`]: crate::Node::keep
    KeptUp(Address),
    /// Packets to a node that is kept do not pass any more.
    KeptDown(Address),
    /// The end of a [`Node::ping_switch`] or [`Node::ping_node`].
    ///
    /// [`Node::ping_switch`]: crate::Node::ping_switch
    /// [`Node::ping_node`]: crate::Node::ping_node
    Pinged {
        /// Which.
        id: PingId,
        /// What came of it.
        result: PingResult,
    },
}

/// Names a ping that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PingId(pub(crate) u64);

/// What came of a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingResult {
    /// An answer.
    Answered {
        /// The protocol version of who answered.
        version: u32,
        /// The key of who answered, when that was asked.
        key: Option<PublicKey>,
        /// The time from question to answer.
        time: Duration,
    },
    /// A switch on the way refused it, or so somebody says: nothing authenticates that.
    Refused(ErrorCode),
    /// Nothing came.
    TimedOut,
}
