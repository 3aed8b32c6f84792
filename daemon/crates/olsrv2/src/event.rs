//! What goes into a router and what comes out of it, packets aside.

use alloc::vec::Vec;
use core::net::IpAddr;

use nhdp::{Family, InterfaceId};
use rfc5444::Prefix;

use crate::view::{AttachedView, EdgeView, LinkView, NeighbourView, NodeView, RouteView};

/// What the driver reports about an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceEvent {
    /// The interface can send and receive. Repeating it is the same as `Addresses`.
    Up {
        /// The interface.
        interface: InterfaceId,
        /// All addresses of the interface, of both families, link-local ones
        /// included. Without an IPv4 address the interface borrows the IPv4
        /// originator; without an IPv6 address it runs no IPv6.
        addresses: Vec<IpAddr>,
    },
    /// The addresses of an interface that is up have changed.
    Addresses {
        /// The interface.
        interface: InterfaceId,
        /// All addresses of the interface from now on.
        addresses: Vec<IpAddr>,
    },
    /// The interface is down, gone or without carrier: its links end at once.
    Down {
        /// The interface.
        interface: InterfaceId,
    },
    /// The link layer knows that a neighbour is out of reach.
    NeighbourLost {
        /// The interface.
        interface: InterfaceId,
        /// An address of the neighbour's interface.
        address: IpAddr,
    },
}

/// A packet to send to LL-MANET-Routers of a family on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The interface.
    pub interface: InterfaceId,
    /// The family of the IP packet: the destination is 224.0.0.109 or ff02::6d.
    pub family: Family,
    /// The UDP payload: one RFC 5444 packet.
    pub bytes: Vec<u8>,
}

/// A change of an information base. `...Set` is an addition or a change;
/// ageing alone, without a change of another field, gives no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link tuple was added or changed.
    LinkSet(LinkView),
    /// A link tuple is gone.
    LinkRemoved(LinkView),
    /// A neighbour tuple was added or changed.
    NeighbourSet(NeighbourView),
    /// A neighbour tuple is gone.
    NeighbourRemoved(NeighbourView),
    /// A remote router was heard of or has a new ANSN.
    NodeSet(NodeView),
    /// A remote router is no longer advertised.
    NodeRemoved(NodeView),
    /// An edge was added or its metric changed.
    EdgeSet(EdgeView),
    /// An edge is gone.
    EdgeRemoved(EdgeView),
    /// A remote attached network was added or changed.
    AttachedSet(AttachedView),
    /// A remote attached network is gone.
    AttachedRemoved(AttachedView),
    /// A route was added or changed.
    RouteSet(RouteView),
    /// The route to a destination is gone.
    RouteRemoved(Prefix),
    /// Another router uses an originator of this one.
    DuplicateOriginator {
        /// The originator that both use.
        originator: IpAddr,
        /// The interface on which the other was heard.
        interface: InterfaceId,
        /// The neighbour from which the message came.
        source: IpAddr,
    },
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets taken in.
    pub packets_received: u64,
    /// Packets given out.
    pub packets_sent: u64,
    /// Octets of the packets given out.
    pub octets_sent: u64,
    /// HELLO messages processed.
    pub hellos_received: u64,
    /// HELLO messages generated, one for each interface.
    pub hellos_sent: u64,
    /// TC messages processed.
    pub tcs_received: u64,
    /// TC messages generated.
    pub tcs_sent: u64,
    /// Messages forwarded, one for each interface.
    pub forwarded: u64,
    /// Packets and messages that do not decode.
    pub malformed: u64,
    /// Messages that decode and that RFC 6130 or RFC 7181 calls invalid.
    pub invalid: u64,
    /// Messages whose sender gives an address of this router for its own.
    pub spoofed: u64,
    /// Messages received again.
    pub duplicates: u64,
    /// TC messages with an ANSN older than the recorded one.
    pub stale: u64,
    /// Messages, and claims in messages, that speak for somebody else and are not believed.
    pub disbelieved: u64,
    /// Messages whose signature is false, missing where its originator signs, or of another key.
    pub forged: u64,
    /// Messages without a signature, where signatures are required.
    pub not_signed: u64,
    /// Messages whose counter was taken in already, or is too old.
    pub replayed: u64,
    /// Signatures verified, true or false.
    pub verified: u64,
    /// Messages dropped because their source exceeded its rate.
    pub rate_limited: u64,
    /// Entries that were not stored, or gave way to others, because a set was full.
    pub over_limit: u64,
    /// Calculations of the routing set.
    pub route_calculations: u64,
}
