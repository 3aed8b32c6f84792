//! rtnetlink: typed values at the edge, a socket for requests and one for notices; and such sockets for any family.

pub mod datagram;
mod decode;
mod monitor;
mod requests;
mod socket;

use std::net::IpAddr;

use olsrv2::Prefix;

pub use monitor::{Monitor, Received};
pub use requests::{AddMode, Requests};
pub use socket::{error_of, Asker, Listener};

/// A network interface as the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Administratively up, carrier present and operational.
    pub usable: bool,
    /// Administratively up (IFF_UP).
    pub admin_up: bool,
    /// Link-layer address if it has 6 octets.
    pub mac: Option<[u8; 6]>,
    /// It joins more than two stations, which are asked for by ARP or neighbour discovery: not a tunnel.
    pub shared: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Interface index.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
    /// The length of the network that is on the link.
    pub prefix_len: u8,
    /// Not tentative and not a duplicate (RFC 4862, section 5.4).
    pub usable: bool,
}

/// A unicast route in the kernel; one of several next hops gives one value for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Destination.
    pub destination: Prefix,
    /// Routing table.
    pub table: u32,
    /// Protocol number.
    pub protocol: u8,
    /// Priority.
    pub metric: u32,
    /// Where packets go.
    pub path: Path,
}

/// The way of a route: what may change while the route stays ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// Next hop; `None`: on link.
    pub next_hop: Option<IpAddr>,
    /// Index of the outgoing interface.
    pub interface: u32,
    /// Source address of packets that this host sends (`RTA_PREFSRC`).
    pub source: Option<IpAddr>,
}

/// Something that changed in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A link appeared or changed.
    Link(Link),
    /// A link of this index is gone.
    LinkGone(u32),
    /// An address appeared or changed.
    Address(Address),
    /// An address is gone.
    AddressGone(Address),
    /// A route appeared, replaced another or went; never one that we changed ourselves.
    Route {
        /// The route, one value for each next hop.
        routes: Vec<Route>,
        /// It took the place of another route (NLM_F_REPLACE).
        replaced: bool,
    },
}
