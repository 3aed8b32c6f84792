//! Interfaces and addresses of the layer below.

use core::net::SocketAddr;
use core::time::Duration;

use crate::Time;

/// An interface of the layer below: a UDP socket or an Ethernet device. [`Node::add_interface`] assigns it.
///
/// [`Node::add_interface`]: crate::Node::add_interface
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub(crate) u16);

impl InterfaceId {
    /// Returns its number, from 0 in the order in which interfaces were added.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// The address of a neighbour on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkAddress {
    /// The address of a UDP socket.
    Udp(SocketAddr),
    /// The address of an Ethernet device.
    Ethernet([u8; 6]),
}

/// The receiver of a message that the node sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// One neighbour.
    Unicast(LinkAddress),
    /// Everybody on the interface. The message is a beacon of [`BEACON_LENGTH`](crate::BEACON_LENGTH) octets, without
    /// the framing that marks it as one on the interface.
    Broadcast,
}

/// How an interface uses beacons, by which neighbours find each other without configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beacons {
    /// Beacons are not sent, and received ones are dropped.
    #[default]
    Off,
    /// Received beacons are answered with a handshake.
    Accept,
    /// Beacons are also sent.
    Send,
}

/// First pause between two beacons of an interface. Each pause doubles, up to the interval. Broadcasts are not
/// retransmitted, so the first beacon is easily lost, especially on radio.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// When an interface sends its beacons.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) beacons: Beacons,
    next: Time,
    pause: Duration,
}

impl Schedule {
    /// Returns a schedule whose first beacon is due at once.
    pub(crate) const fn new(beacons: Beacons, now: Time) -> Self {
        Self {
            beacons,
            next: now,
            pause: FIRST_PAUSE,
        }
    }

    /// Returns when the next beacon is due, or `None` if none is sent.
    pub(crate) fn next(&self) -> Option<Time> {
        (self.beacons == Beacons::Send).then_some(self.next)
    }

    /// Returns whether a beacon is due. The caller must send it now.
    pub(crate) fn take(&mut self, now: Time, interval: Duration) -> bool {
        let is_due = self.next().is_some_and(|next| next <= now);
        if is_due {
            self.next = now + self.pause.min(interval);
            self.pause = interval.min(self.pause * 2);
        }
        is_due
    }
}
