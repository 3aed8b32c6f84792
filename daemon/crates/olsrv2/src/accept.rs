//! Which destinations may have routes. The operator decides about addresses and networks of others (docs/development/adr/0051).

use alloc::vec::Vec;
use core::net::IpAddr;

use rfc5444::Prefix;

/// Which destinations the routing set may hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accept {
    /// The networks in which addresses of routers may lie; none: all routable addresses.
    pub hosts: Vec<Prefix>,
    /// The attached networks of other routers that may be routed to: exactly these prefixes.
    pub networks: Vec<AcceptedNetwork>,
    /// Networks of this machine outside the mesh. No route leads into them, except to a more specific network of
    /// `hosts`.
    pub connected: Vec<Prefix>,
}

/// An attached network that certain routers may announce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedNetwork {
    /// The network.
    pub prefix: Prefix,
    /// The originators of the routers.
    pub from: Vec<IpAddr>,
}

impl Accept {
    /// Returns whether `destination` may be the address of some router.
    pub(crate) fn is_host(&self, destination: Prefix) -> bool {
        let in_mesh = self.hosts.is_empty() || longest(&self.hosts, destination).is_some();
        let connected = longest(&self.connected, destination);
        let is_elsewhere = connected.is_some() && connected >= longest(&self.hosts, destination);
        destination.is_host() && in_mesh && !is_elsewhere
    }

    /// Returns whether `destination` may be an attached network of the router with this originator.
    pub(crate) fn is_network(&self, destination: Prefix, originator: IpAddr) -> bool {
        let mut networks = self.networks.iter();
        let named = networks.any(|one| one.prefix == destination && one.from.contains(&originator));
        named && longest(&self.connected, destination).is_none()
    }
}

/// Returns the length of the longest of these networks that contains `destination`.
fn longest(networks: &[Prefix], destination: Prefix) -> Option<u8> {
    let covers = |one: &&Prefix| one.len <= destination.len && one.contains(destination.addr);
    networks.iter().filter(covers).map(|one| one.len).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(texts: &[&str]) -> Vec<Prefix> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn hosts_lie_in_the_mesh_and_not_in_connected_networks() {
        let accept = Accept {
            hosts: prefixes(&["fc00::/7", "10.0.0.0/8"]),
            connected: prefixes(&["10.1.2.0/24"]),
            ..Accept::default()
        };
        let crowded = Accept {
            hosts: prefixes(&["10.0.0.0/8", "10.77.0.0/16"]),
            connected: prefixes(&["10.0.0.0/8"]),
            ..Accept::default()
        };
        assert!(crowded.is_host("10.77.0.1/32".parse().unwrap()));
        assert!(!crowded.is_host("10.78.0.1/32".parse().unwrap()));
        for (text, expected) in [
            ("fc00::1/128", true),
            ("fdff::1/128", true),
            ("fe00::1/128", false),
            ("fb00::1/128", false),
            ("fc00::/64", false),
            ("10.255.255.255/32", true),
            ("11.0.0.1/32", false),
            ("9.9.9.9/32", false),
            ("10.1.2.255/32", false),
            ("10.1.3.0/32", true),
            ("10.1.1.255/32", true),
        ] {
            assert_eq!(accept.is_host(text.parse().unwrap()), expected, "{text}");
        }
        assert!(Accept::default().is_host("9.9.9.9/32".parse().unwrap()));
    }

    #[test]
    fn a_network_is_taken_as_it_is_named_and_from_whom() {
        let gateway = "fd00::9".parse().unwrap();
        let accept = Accept {
            networks: prefixes(&["::/0", "10.1.0.0/16"])
                .into_iter()
                .map(|prefix| AcceptedNetwork {
                    prefix,
                    from: Vec::from([gateway]),
                })
                .collect(),
            connected: prefixes(&["10.0.0.0/12"]),
            ..Accept::default()
        };
        let is_network = |text: &str, from| accept.is_network(text.parse().unwrap(), from);
        assert!(is_network("::/0", gateway));
        assert!(!is_network("::/0", "fd00::8".parse().unwrap()));
        assert!(!is_network("::/1", gateway));
        assert!(
            !is_network("10.1.0.0/16", gateway),
            "it is part of a connected network"
        );
    }
}
