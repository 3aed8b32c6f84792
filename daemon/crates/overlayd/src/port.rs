//! An interface to other nodes, over UDP or Ethernet.

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
    /// Name for people: `udp ADDRESS` or `ethernet DEVICE`.
    pub name: String,
    /// Whether it sends and accepts beacons.
    pub beacons_are: overlay_node::Beacons,
    carrier: Carrier,
    beacons: Vec<Beacons>,
    /// The configured port and devices of its beacons.
    beacon_port: u16,
    beacon_devices: Vec<String>,
    /// Whether it is blocked: its socket accepts no frame at present.
    pub is_blocked: bool,
    /// Whether the loop waits until it is writable.
    pub waits: bool,
    /// Whether a failed beacon has been logged.
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
    /// The kernel refuses something; the error names it.
    pub fn open(id: InterfaceId, settings: &Interface) -> io::Result<Self> {
        let (name, carrier) = match &settings.medium {
            Medium::Udp { bind, .. } => {
                let udp =
                    Udp::bind(*bind).map_err(|error| named(&format!("udp {bind}"), &error))?;
                let address = udp.local_address()?;
                (format!("udp {address}"), Carrier::Udp(udp, address))
            }
            Medium::Ethernet(device) => {
                let name = format!("ethernet {device}");
                let ethernet = Ethernet::open(device).map_err(|error| named(&name, &error))?;
                (name, Carrier::Ethernet(ethernet))
            }
        };
        let (beacon_port, beacon_devices) = match &settings.medium {
            Medium::Udp {
                beacon_port,
                beacon_devices,
                ..
            } => (*beacon_port, beacon_devices.clone()),
            Medium::Ethernet(_) => (0, Vec::new()),
        };
        let mut port = Self {
            id,
            name,
            beacons_are: settings.beacons,
            carrier,
            beacons: Vec::new(),
            beacon_port,
            beacon_devices,
            is_blocked: false,
            waits: false,
            warned: false,
        };
        port.follow_beacons()?;
        if !port.is_there() {
            log::info!("{}: waiting for the device", port.name);
        }
        Ok(port)
    }

    /// Returns whether its device is present. A UDP socket needs none.
    pub const fn is_there(&self) -> bool {
        match &self.carrier {
            Carrier::Udp(..) => true,
            Carrier::Ethernet(ethernet) => ethernet.is_there(),
        }
    }

    /// Opens sockets for devices that have appeared, and closes those of devices that are gone. Returns whether it has
    /// a new socket of its own, and how many beacon sockets are unchanged; new ones follow these.
    ///
    /// # Errors
    /// The kernel refuses something; the error names it. Call this again when a device changes.
    pub fn follow(&mut self) -> io::Result<(bool, usize)> {
        let is_new = match &mut self.carrier {
            Carrier::Udp(..) => false,
            Carrier::Ethernet(ethernet) => {
                let was_there = ethernet.is_there();
                let followed = ethernet.follow();
                if was_there && !ethernet.is_there() {
                    log::info!("{}: the device is gone", self.name);
                }
                followed.map_err(|error| named(&self.name, &error))?
            }
        };
        if is_new {
            log::info!("{}: the device is present", self.name);
        }
        if is_new || !self.is_there() {
            (self.is_blocked, self.waits) = (false, false);
        }
        Ok((is_new, self.follow_beacons()?))
    }

    /// Opens and closes beacon sockets. Returns how many are unchanged.
    fn follow_beacons(&mut self) -> io::Result<usize> {
        let devices = beacons::devices(&self.beacon_devices)?;
        self.beacons
            .retain(|beacons| devices.contains(beacons.device()));
        let kept = self.beacons.len();
        for device in devices {
            if self.beacons[..kept]
                .iter()
                .any(|beacons| *beacons.device() == device)
            {
                continue;
            }
            let what = format!("beacons on {device}");
            let opened = Beacons::open(device, self.beacon_port);
            self.beacons
                .push(opened.map_err(|error| named(&what, &error))?);
        }
        Ok(kept)
    }

    /// Returns the address of its socket; `None` for Ethernet.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.carrier {
            Carrier::Udp(_, address) => Some(*address),
            Carrier::Ethernet(_) => None,
        }
    }

    /// Returns the address or the device that it is bound to, as in its name.
    pub fn bound(&self) -> &str {
        self.name.split_once(' ').map_or("", |(_, bound)| bound)
    }

    /// Returns the descriptor of its socket, if there is one.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.carrier {
            Carrier::Udp(udp, _) => Some(udp.as_fd()),
            Carrier::Ethernet(ethernet) => ethernet.descriptor(),
        }
    }

    /// Returns the sockets of its beacons, which are not its own socket.
    pub fn beacons(&self) -> &[Beacons] {
        &self.beacons
    }

    /// Returns its counters.
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

    /// Reads waiting frames from the kernel; false if none waits. All of them must be taken with [`Port::next`] before
    /// the next call.
    ///
    /// # Errors
    /// Reading from the socket fails.
    pub fn receive(&mut self) -> io::Result<bool> {
        match &mut self.carrier {
            Carrier::Udp(udp, _) => udp.receive(),
            Carrier::Ethernet(ethernet) => ethernet.receive(),
        }
    }

    /// Returns the next received frame in a buffer of the pool; `None` if there is no frame or no buffer.
    pub fn next(&mut self, pool: &mut Pool) -> Option<Arrival> {
        match &mut self.carrier {
            Carrier::Udp(udp, _) => udp.next(pool),
            Carrier::Ethernet(ethernet) => ethernet.next(pool),
        }
    }

    /// Returns the next beacon from the beacon sockets. A datagram that is not a beacon is counted and skipped.
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

    /// Queues a frame. A beacon is sent at once if it has sockets of its own.
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
            // The node never uses an address of one kind with an interface of another.
            (_, Destination::Unicast(_)) => pool.give(frame.buffer),
        }
    }

    /// Sends the queued frames. Notes whether the interface is blocked.
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
            log::warn!("{}: a beacon cannot be sent: {error}", self.name);
        }
        self.warned = refused.is_some();
    }
}
