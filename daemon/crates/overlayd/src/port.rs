//! An interface to other nodes, whatever carries its frames.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use daemonkit::named;
use overlay_node::{Destination, InterfaceId, LinkAddress, BEACON_LENGTH};

use crate::config::{Interface, Medium};
use crate::io::beacons::{self, Beacons};
use crate::io::buffers::{Part, Pool};
use crate::io::ethernet::Ethernet;
use crate::io::udp::Udp;
use crate::io::{Arrival, Flow, IoCounters};

/// An interface to other nodes.
pub struct Port {
    /// Its number in the node.
    pub id: InterfaceId,
    /// What people call it: `udp ADDRESS` or `ethernet DEVICE`.
    pub name: String,
    /// What it has to do with beacons.
    pub beacons_are: overlay_node::Beacons,
    carrier: Carrier,
    beacons: Vec<Beacons>,
    /// Whether it takes no more for now.
    pub is_blocked: bool,
    /// Whether the loop waits until it takes more.
    pub waits: bool,
    /// That a beacon could not be sent was logged.
    warned: bool,
}

enum Carrier {
    Udp(Udp, SocketAddr),
    Ethernet(Ethernet),
}

impl Port {
    /// Opens its sockets.
    ///
    /// # Errors
    /// What the kernel refuses, named.
    pub fn open(id: InterfaceId, settings: &Interface) -> io::Result<Self> {
        let (name, carrier, beacons) = match &settings.medium {
            Medium::Udp {
                bind,
                beacon_port,
                beacon_devices,
            } => {
                let udp =
                    Udp::bind(*bind).map_err(|error| named(&format!("udp {bind}"), &error))?;
                let address = udp.local_address()?;
                let open = |device: &String| {
                    Beacons::open(device, *beacon_port)
                        .map_err(|error| named(&format!("beacons by {device}"), &error))
                };
                let devices = beacons::devices(beacon_devices)?;
                let beacons = devices.iter().map(open).collect::<io::Result<_>>()?;
                (
                    format!("udp {address}"),
                    Carrier::Udp(udp, address),
                    beacons,
                )
            }
            Medium::Ethernet(device) => {
                let name = format!("ethernet {device}");
                let ethernet = Ethernet::open(device).map_err(|error| named(&name, &error))?;
                (name, Carrier::Ethernet(ethernet), Vec::new())
            }
        };
        Ok(Self {
            id,
            name,
            beacons_are: settings.beacons,
            carrier,
            beacons,
            is_blocked: false,
            waits: false,
            warned: false,
        })
    }

    /// The address of its socket; `None` for a device.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.carrier {
            Carrier::Udp(_, address) => Some(*address),
            Carrier::Ethernet(_) => None,
        }
    }

    /// The address or the device that it is bound to, as in its name.
    pub fn bound(&self) -> &str {
        self.name.split_once(' ').map_or("", |(_, bound)| bound)
    }

    /// The sockets of its beacons, other than its own.
    pub fn beacons(&self) -> &[Beacons] {
        &self.beacons
    }

    /// What was counted.
    pub fn counters(&self) -> &IoCounters {
        match &self.carrier {
            Carrier::Udp(udp, _) => &udp.counters,
            Carrier::Ethernet(ethernet) => &ethernet.counters,
        }
    }

    fn counters_mut(&mut self) -> &mut IoCounters {
        match &mut self.carrier {
            Carrier::Udp(udp, _) => &mut udp.counters,
            Carrier::Ethernet(ethernet) => &mut ethernet.counters,
        }
    }

    /// Takes what waits from the kernel; false when nothing does. [`Port::next`] then gives it, all of it before the
    /// next call.
    ///
    /// # Errors
    /// The socket's.
    pub fn receive(&mut self) -> io::Result<bool> {
        match &mut self.carrier {
            Carrier::Udp(udp, _) => udp.receive(),
            Carrier::Ethernet(ethernet) => ethernet.receive(),
        }
    }

    /// The next frame of what was received, in a buffer of the pool; `None` when there is none, or no buffer.
    pub fn next(&mut self, pool: &mut Pool) -> Option<Arrival> {
        match &mut self.carrier {
            Carrier::Udp(udp, _) => udp.next(pool),
            Carrier::Ethernet(ethernet) => ethernet.next(pool),
        }
    }

    /// The next beacon that came by one of the sockets for them; what is no beacon is counted and passed over.
    pub fn next_beacon(&mut self) -> Option<(LinkAddress, [u8; BEACON_LENGTH])> {
        let mut malformed = 0;
        let received = self.beacons.iter().find_map(|beacons| {
            let received = beacons.receive();
            let is_none = |error: &io::Error| error.kind() == io::ErrorKind::InvalidData;
            malformed += u64::from(received.as_ref().is_err_and(is_none));
            received.ok()?
        });
        self.counters_mut().malformed += malformed;
        received.map(|(from, beacon)| (LinkAddress::Udp(from), beacon))
    }

    /// Puts a frame behind those that wait; a beacon leaves at once where it has sockets of its own.
    pub fn push(&mut self, to: Destination, frame: Part, pool: &mut Pool) {
        match (&mut self.carrier, to) {
            (Carrier::Udp(udp, _), Destination::Unicast(LinkAddress::Udp(to))) => {
                udp.push(to, frame, pool);
                if udp.is_full() {
                    self.flush(pool);
                }
            }
            (Carrier::Ethernet(ethernet), Destination::Unicast(LinkAddress::Ethernet(to))) => {
                ethernet.push(Some(to), frame, pool);
                if ethernet.is_full() {
                    self.flush(pool);
                }
            }
            (Carrier::Ethernet(ethernet), Destination::Broadcast) => {
                ethernet.push(None, frame, pool);
            }
            (Carrier::Udp(_, address), Destination::Broadcast) => {
                let port = address.port();
                self.send_beacon(port, pool.part(&frame));
                pool.give(frame.buffer);
            }
            // The node never mixes addresses of one kind of interface with another.
            (_, Destination::Unicast(_)) => pool.give(frame.buffer),
        }
    }

    /// Gives the kernel what waits, unless it has just said that it takes no more.
    pub fn flush(&mut self, pool: &mut Pool) {
        let flow = match &mut self.carrier {
            Carrier::Udp(udp, _) => udp.flush(pool),
            Carrier::Ethernet(ethernet) => ethernet.flush(pool),
        };
        self.is_blocked = flow == Flow::Blocked;
    }

    fn send_beacon(&mut self, port: u16, beacon: &[u8]) {
        let mut sent = self
            .beacons
            .iter()
            .map(|beacons| beacons.send(port, beacon));
        let refused = sent.find_map(Result::err);
        if let (Some(error), false) = (&refused, self.warned) {
            log::warn!("{}: a beacon was not sent: {error}", self.name);
        }
        self.warned = refused.is_some();
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.carrier {
            Carrier::Udp(udp, _) => udp.as_fd(),
            Carrier::Ethernet(ethernet) => ethernet.as_fd(),
        }
    }
}
