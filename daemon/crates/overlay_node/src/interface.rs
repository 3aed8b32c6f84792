//! Where frames come from and go to.

use core::net::SocketAddr;

/// An interface of the layer below: a UDP socket or an Ethernet device. Named by [`Node::add_interface`].
///
/// [`Node::add_interface`]: crate::Node::add_interface
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub(crate) u16);

impl InterfaceId {
    /// Its number, from 0 in the order in which interfaces were added.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// The address of a neighbour at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkAddress {
    /// Of a UDP socket.
    Udp(SocketAddr),
    /// Of an Ethernet device.
    Ethernet([u8; 6]),
}

/// To whom something that the node says goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To one neighbour.
    Unicast(LinkAddress),
    /// To all: it is a beacon, [`BEACON_LENGTH`](crate::BEACON_LENGTH) octets without the framing that marks it as
    /// one on the interface.
    Broadcast,
}

/// What an interface has to do with beacons, by which neighbours find each other without configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beacons {
    /// None are sent, those that come are dropped.
    #[default]
    Off,
    /// Those that come are answered with a handshake.
    Accept,
    /// They are also sent.
    Send,
}
