//! What a node tells its caller.

use core::time::Duration;

use cryptoauth::{Address, PublicKey};
use overlay::{Contact, Reply};
use switch::{ErrorCode, Label};

use crate::interface::{InterfaceId, LinkAddress};

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The end of a [`Node::ping_switch`], [`Node::ping_node`] or [`Node::ask_node`].
    ///
    /// [`Node::ping_switch`]: crate::Node::ping_switch
    /// [`Node::ping_node`]: crate::Node::ping_node
    /// [`Node::ask_node`]: crate::Node::ask_node
    Pinged {
        /// Which.
        id: PingId,
        /// What came of it.
        result: PingResult,
    },
}

/// What a switch can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether it is there.
    Presence,
    /// Its public key.
    Key,
    /// Its supernode.
    Supernode,
    /// The way from it to this node.
    WayBack,
    /// As which address of the layer below it sees this node; it tells neighbours alone.
    Link,
}

/// What a switch tells of itself. Nothing authenticates it when the switch is no neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// That it is there.
    Presence,
    /// Its public key.
    Key(PublicKey),
    /// Its supernode, and the way to it from there; `None` when it has none.
    Supernode(Option<Contact>),
    /// The way from it to this node.
    WayBack(Label),
    /// As which address of the layer below it sees this node.
    Link(switch::LinkAddress),
}

/// Names a ping that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PingId(pub(crate) u64);

/// What came of a ping, or of another question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PingResult {
    /// An answer.
    Answered {
        /// The protocol version of who answered.
        version: u32,
        /// What was asked.
        told: Told,
        /// The time from question to answer.
        time: Duration,
    },
    /// What a node knows.
    Replied(Reply),
    /// A switch on the way refused it, or so somebody says: nothing authenticates that.
    Refused(ErrorCode),
    /// Nothing came.
    TimedOut,
}
