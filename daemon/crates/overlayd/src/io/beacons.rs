//! Beacons over UDP: `fffffffc | u8 0 | u8 0 | u16 port | beacon`, broadcast on some devices. The port is that of the
//! interface's socket, at which the sender is a neighbour.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use overlay_node::BEACON_LENGTH;
use socket2::{Domain, Protocol, Socket, Type};

use super::interfaces;

/// Name that means all devices, including those that appear later.
const ALL: &str = "all";
/// Bytes at the beginning of a beacon.
const MARK: [u8; 6] = [0xff, 0xff, 0xff, 0xfc, 0, 0];
/// Length of the mark and the port in bytes.
const HEADER: usize = MARK.len() + 2;
/// Length of a beacon with its header in bytes.
const LENGTH: usize = HEADER + BEACON_LENGTH;

/// The beacon socket of one device.
pub struct Beacons {
    socket: UdpSocket,
    port: u16,
    device: Device,
}

/// A device that is present. One that disappears and appears again is another device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    name: String,
    index: i32,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Returns the named devices that are present; for `all`, every device except the loopback interface.
///
/// # Errors
/// The kernel does not list its devices.
pub fn devices(names: &[String]) -> io::Result<Vec<Device>> {
    let mut names = names.to_vec();
    if names.iter().any(|name| name == ALL) {
        names = interfaces::interface_names()?;
        names.retain(|name| name != "lo");
    }
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let mut devices = Vec::new();
    for name in names {
        let index = interfaces::index_if_there(&socket, &name)?;
        devices.extend(index.map(|index| Device { name, index }));
    }
    Ok(devices)
}

impl Beacons {
    /// Opens a socket for a device; `port` is the UDP port of beacons.
    ///
    /// # Errors
    /// There is no such device, or EPERM without CAP_NET_RAW.
    pub fn open(device: Device, port: u16) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        // Each device has a socket with this port, and so may other routers on this machine.
        socket.set_reuse_address(true)?;
        socket.bind_device(Some(device.name.as_bytes()))?;
        socket.set_broadcast(true)?;
        socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
        Ok(Self {
            socket: socket.into(),
            port,
            device,
        })
    }

    /// Returns the device.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Sends a beacon that announces the interface's socket at `interface_port`.
    ///
    /// # Errors
    /// The device refuses it, for example because it is down or has no address.
    pub fn send(&self, interface_port: u16, beacon: &[u8]) -> io::Result<()> {
        let mut octets = [0; LENGTH];
        let (header, content) = octets.split_at_mut(HEADER);
        header[..MARK.len()].copy_from_slice(&MARK);
        header[MARK.len()..].copy_from_slice(&interface_port.to_be_bytes());
        let length = content.len().min(beacon.len());
        content[..length].copy_from_slice(&beacon[..length]);
        let everybody = SocketAddrV4::new(Ipv4Addr::BROADCAST, self.port);
        self.socket
            .send_to(&octets[..HEADER + length], everybody)
            .map(drop)
    }

    /// Returns the next beacon with the address of the interface that it announces; `None` if none waits.
    ///
    /// # Errors
    /// `InvalidData` if the datagram is not a beacon; other errors are those of the socket.
    pub fn receive(&self) -> io::Result<Option<(SocketAddr, [u8; BEACON_LENGTH])>> {
        let mut octets = [0; LENGTH];
        let (length, mut from) = match self.socket.recv_from(&mut octets) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let (port, beacon) = decode(&octets[..length]).ok_or(io::ErrorKind::InvalidData)?;
        from.set_port(port);
        Ok(Some((from, beacon)))
    }
}

impl AsFd for Beacons {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn decode(octets: &[u8]) -> Option<(u16, [u8; BEACON_LENGTH])> {
    let rest = octets.strip_prefix(&MARK)?;
    let (port, rest) = rest.split_first_chunk()?;
    let port = u16::from_be_bytes(*port);
    (port != 0).then_some((port, *rest.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_beacon_is_refused() {
        let mut sound = [7; LENGTH];
        sound[..HEADER].copy_from_slice(&[0xff, 0xff, 0xff, 0xfc, 0, 0, 0x12, 0x34]);
        assert_eq!(decode(&sound), Some((0x1234, [7; BEACON_LENGTH])));
        assert_eq!(decode(&sound[..LENGTH - 1]), None);
        for (at, octet) in [(0, 0), (3, 0xff), (4, 1), (5, 1)] {
            let mut wrong = sound;
            wrong[at] = octet;
            assert_eq!(decode(&wrong), None);
        }
        sound[6..8].fill(0);
        assert_eq!(decode(&sound), None);
    }
}
