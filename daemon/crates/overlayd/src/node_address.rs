//! Parses the address of a node.

use std::net::Ipv6Addr;

use cryptoauth::Address;

/// What [`read`] accepts, for error messages.
pub const NODE_ADDRESS: &str = "an IPv6 address in fc00::/8";

/// Returns the address of a node; `None` if `text` is none.
pub fn read(text: &str) -> Option<Address> {
    let octets = text.parse::<Ipv6Addr>().ok()?.octets();
    (octets[0] == 0xfc).then_some(Address::from_octets(octets))
}
