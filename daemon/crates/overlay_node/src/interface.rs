//! Where frames come from and go to.

use core::net::SocketAddr;
use core::time::Duration;

use crate::Time;

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

/// The first pause between two beacons of an interface; each is twice as long as the one before, up to the interval. What
/// is sent to all is sent once, so that the first one is easily lost, on radio above all.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// When an interface sends its beacons.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) beacons: Beacons,
    next: Time,
    pause: Duration,
}

impl Schedule {
    /// The first one is due at once.
    pub(crate) const fn new(beacons: Beacons, now: Time) -> Self {
        Self {
            beacons,
            next: now,
            pause: FIRST_PAUSE,
        }
    }

    /// When the next one is due; `None` when none is sent.
    pub(crate) fn next(&self) -> Option<Time> {
        (self.beacons == Beacons::Send).then_some(self.next)
    }

    /// Whether one is due, which is sent now.
    pub(crate) fn take(&mut self, now: Time, interval: Duration) -> bool {
        let is_due = self.next().is_some_and(|next| next <= now);
        if is_due {
            self.next = now + self.pause.min(interval);
            self.pause = interval.min(self.pause * 2);
        }
        is_due
    }
}
