//! The events that a node reports to its caller.

use core::time::Duration;

use cryptoauth::{Address, PublicKey};
use overlay::{Contact, Reply};
use switch::{ErrorCode, Label};

use crate::interface::{InterfaceId, LinkAddress};

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A neighbour can be used.
    PeerUp {
        /// Its key.
        key: PublicKey,
        /// The label of one hop that leads to it.
        label: Label,
        /// The interface on which it is reached.
        interface: InterfaceId,
        /// Its address on that interface.
        address: LinkAddress,
    },
    /// A neighbour is gone, because it was silent for too long or was disconnected.
    PeerDown {
        /// Its key.
        key: PublicKey,
        /// The label that led to it.
        label: Label,
    },
    /// A neighbour has another address than before. Its label stays.
    PeerMoved {
        /// Its key.
        key: PublicKey,
        /// The interface on which it is reached now.
        interface: InterfaceId,
        /// Its address on that interface.
        address: LinkAddress,
    },
    /// User data can be exchanged with a node.
    SessionUp(Address),
    /// A path, or a better path, was found to a node that this node sends to.
    WayFound {
        /// The node.
        address: Address,
        /// The path.
        label: Label,
    },
    /// There is no path any more to a node that this node sends to. A search has started.
    WayLost(Address),
    /// No path was found to a node that this node sends to. The search is repeated.
    NotFound(Address),
    /// Packets to a node that is kept ([`Node::keep`]) are sent at once: there are a path and a session.
    ///
    /// [`Node::keep`]: crate::Node::keep
    KeptUp(Address),
    /// Packets to a node that is kept are no longer sent at once.
    KeptDown(Address),
    /// The result of a [`Node::ping_switch`], [`Node::ping_node`] or [`Node::ask_node`].
    ///
    /// [`Node::ping_switch`]: crate::Node::ping_switch
    /// [`Node::ping_node`]: crate::Node::ping_node
    /// [`Node::ask_node`]: crate::Node::ask_node
    Pinged {
        /// The ping.
        id: PingId,
        /// Its result.
        result: PingResult,
    },
}

/// The queries that a switch answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether it is there.
    Presence,
    /// Its public key.
    Key,
    /// Its supernode.
    Supernode,
    /// The path from it to this node.
    WayBack,
    /// The address of this node in the layer below, as the switch sees it. Only neighbours answer.
    Link,
}

/// The answer of a switch. It is not authenticated unless the switch is a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It is there.
    Presence,
    /// Its public key.
    Key(PublicKey),
    /// Its supernode and the path from there to it, or `None` if it has no supernode.
    Supernode(Option<Contact>),
    /// The path from it to this node.
    WayBack(Label),
    /// The address of this node in the layer below, as the switch sees it.
    Link(switch::LinkAddress),
}

/// Identifies a ping of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PingId(pub(crate) u64);

/// The result of a ping or another query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PingResult {
    /// A switch or node answered.
    Answered {
        /// Its protocol version.
        version: u32,
        /// The answer.
        report: Report,
        /// The time from query to answer.
        time: Duration,
    },
    /// A node's answer to a DHT query.
    Replied(Reply),
    /// A switch on the way refused the frame. This is not authenticated.
    Refused(ErrorCode),
    /// No answer arrived.
    TimedOut,
}
