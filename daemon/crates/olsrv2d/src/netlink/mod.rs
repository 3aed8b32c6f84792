//! rtnetlink with typed values: a socket for requests and a socket for notices.

mod decode;
mod monitor;
mod requests;

use std::net::IpAddr;

use olsrv2::Prefix;

pub use monitor::{Monitor, Received};
pub use requests::{AddMode, Requests};

/// A network interface as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Whether it is administratively up, has a carrier and is operational.
    pub usable: bool,
    /// Whether it is administratively up (IFF_UP).
    pub admin_up: bool,
    /// Link-layer address if it has 6 octets.
    pub mac: Option<[u8; 6]>,
    /// Whether it can connect more than two stations and resolves them by ARP or neighbour discovery. A tunnel does
    /// not.
    pub shared: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Interface index.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
    /// Prefix length of the network on the link.
    pub prefix_len: u8,
    /// Whether it is neither tentative nor a duplicate (RFC 4862, section 5.4).
    pub usable: bool,
}

/// A unicast route in the kernel. A route with several next hops becomes one value for each.
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
    /// Next hop, interface and source.
    pub path: Path,
}

/// The path of a route. It may change while the route stays ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// Next hop; `None`: on link.
    pub next_hop: Option<IpAddr>,
    /// Index of the outgoing interface.
    pub interface: u32,
    /// Source address of packets that this host sends (`RTA_PREFSRC`).
    pub source: Option<IpAddr>,
}

/// A change in the kernel.
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
    /// A route appeared, replaced another or was removed by another program.
    Route {
        /// The route, one value for each next hop.
        routes: Vec<Route>,
        /// Whether it replaced another route (NLM_F_REPLACE).
        replaced: bool,
    },
}
