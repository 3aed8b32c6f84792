//! Which addresses and prefixes may be routed to.

use core::net::{IpAddr, Ipv4Addr};

use rfc5444::Prefix;

/// Whether an address is routable (RFC 7181, section 2): it means one router outside its link.
pub(crate) fn is_routable(address: IpAddr) -> bool {
    let ordinary = !address.is_multicast() && !address.is_loopback() && !address.is_unspecified();
    ordinary
        && match address {
            IpAddr::V4(address) => !address.is_link_local() && address != Ipv4Addr::BROADCAST,
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        }
}

/// Whether a prefix may be a destination: a default route or a routable one.
pub(crate) fn is_destination(prefix: Prefix) -> bool {
    prefix.len == 0 || is_routable(prefix.addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unicast_beyond_the_link_is_routable() {
        for (text, expected) in [
            ("10.0.0.1", true),
            ("fd00::1", true),
            ("fc12::1", true),
            ("127.0.0.1", false),
            ("::1", false),
            ("224.0.0.109", false),
            ("ff02::6d", false),
            ("169.254.1.1", false),
            ("fe80::1", false),
            ("0.0.0.0", false),
            ("::", false),
            ("255.255.255.255", false),
        ] {
            assert_eq!(is_routable(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn a_default_route_is_a_destination() {
        assert!(is_destination("0.0.0.0/0".parse().unwrap()));
        assert!(is_destination("::/0".parse().unwrap()));
        assert!(!is_destination("fe80::/64".parse().unwrap()));
        assert!(!is_destination("0.0.0.0/8".parse().unwrap()));
    }
}
