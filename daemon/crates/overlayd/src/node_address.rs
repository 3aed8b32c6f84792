//! The address of a node, as people and programs write it.

use std::net::Ipv6Addr;

use cryptoauth::Address;

/// What [`read`] takes.
pub const NODE_ADDRESS: &str = "an IPv6 address in fc00::/8";

/// The address of a node; `None`: it is none.
pub fn read(text: &str) -> Option<Address> {
    let octets = text.parse::<Ipv6Addr>().ok()?.octets();
    (octets[0] == 0xfc).then_some(Address::from_octets(octets))
}
