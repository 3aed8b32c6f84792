//! The UDP sockets of a MANET interface (RFC 5498).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use olsrv2::Family;
use rfc5444::iana::{LL_MANET_ROUTERS_V4, LL_MANET_ROUTERS_V6, MANET_PORT};
use rustix::net::sockopt;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

/// Class selector 6, network control (RFC 4594, section 3.2), as an octet of the IP header.
const NETWORK_CONTROL: u32 = 0xc0;
/// Packets never leave the link.
const HOP_LIMIT: u32 = 1;

/// Opens the socket of a family on an interface. IPv4 packets are sent from `source`.
///
/// # Errors
/// The interface is gone, or the process may not use port 269.
pub fn open(
    family: Family,
    interface: &str,
    index: u32,
    source: Option<Ipv4Addr>,
) -> io::Result<UdpSocket> {
    let (domain, any): (_, IpAddr) = match family {
        Family::V4 => (Domain::IPV4, Ipv4Addr::UNSPECIFIED.into()),
        Family::V6 => (Domain::IPV6, Ipv6Addr::UNSPECIFIED.into()),
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    match family {
        Family::V4 => prepare_v4(&socket, index, source.unwrap_or(Ipv4Addr::UNSPECIFIED))?,
        Family::V6 => prepare_v6(&socket, index)?,
    }
    socket.bind(&SocketAddr::new(any, MANET_PORT).into())?;
    Ok(socket.into())
}

fn prepare_v4(socket: &Socket, index: u32, source: Ipv4Addr) -> io::Result<()> {
    socket.join_multicast_v4_n(&LL_MANET_ROUTERS_V4, &InterfaceIndexOrAddress::Index(index))?;
    // This also sets the source address: an interface without an IPv4 address sends from the originator.
    sockopt::set_ip_multicast_if_with_ifindex(socket, &Ipv4Addr::UNSPECIFIED, &source, index)?;
    socket.set_multicast_loop_v4(false)?;
    socket.set_multicast_ttl_v4(HOP_LIMIT)?;
    socket.set_tos_v4(NETWORK_CONTROL)
}

fn prepare_v6(socket: &Socket, index: u32) -> io::Result<()> {
    socket.set_only_v6(true)?;
    socket.join_multicast_v6(&LL_MANET_ROUTERS_V6, index)?;
    socket.set_multicast_if_v6(index)?;
    socket.set_multicast_loop_v6(false)?;
    socket.set_multicast_hops_v6(HOP_LIMIT)?;
    socket.set_tclass_v6(NETWORK_CONTROL)
}

/// Sends a packet to all routers of the link.
///
/// # Errors
/// The interface refuses the packet, for example because it has gone down.
pub fn send(socket: &UdpSocket, family: Family, packet: &[u8]) -> io::Result<()> {
    let group: IpAddr = match family {
        Family::V4 => LL_MANET_ROUTERS_V4.into(),
        Family::V6 => LL_MANET_ROUTERS_V6.into(),
    };
    socket.send_to(packet, (group, MANET_PORT)).map(drop)
}
