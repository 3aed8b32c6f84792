//! The kernel's links and addresses, kept current by its notices.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use olsrv2::Prefix;

use crate::config::is_routable;
use crate::netlink::{Address, Link, Notice};

/// All links with their addresses.
#[derive(Default)]
pub struct Links {
    links: BTreeMap<u32, Link>,
    /// Addresses in the kernel's order, so that an interface's first address stays first.
    addresses: Vec<Address>,
}

/// A MANET interface that can send and receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usable {
    /// Interface index.
    pub index: u32,
    /// Link-layer address.
    pub mac: Option<[u8; 6]>,
    /// Usable addresses.
    pub addresses: Vec<IpAddr>,
}

impl Usable {
    /// Returns the first IPv4 address.
    pub fn source_v4(&self) -> Option<Ipv4Addr> {
        self.addresses.iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        })
    }

    /// Returns the first link-local IPv6 address. Packets to a link-local group are sent from it.
    pub fn source_v6(&self) -> Option<Ipv6Addr> {
        self.addresses.iter().find_map(|address| match address {
            IpAddr::V6(address) if address.is_unicast_link_local() => Some(*address),
            _ => None,
        })
    }
}

impl Links {
    /// Starts with the contents of a dump of links and a dump of addresses.
    pub fn new(links: Vec<Link>, addresses: Vec<Address>) -> Self {
        let links = links.into_iter().map(|link| (link.index, link)).collect();
        Self { links, addresses }
    }

    /// Applies a notice. Returns whether links or addresses changed; a notice about routes changes nothing here.
    pub fn apply(&mut self, notice: Notice) -> bool {
        match notice {
            Notice::Link(link) => self.links.insert(link.index, link.clone()) != Some(link),
            Notice::LinkGone(index) => {
                self.addresses.retain(|known| known.interface != index);
                self.links.remove(&index).is_some()
            }
            Notice::Address(address) => self.set_address(address),
            Notice::AddressGone(gone) => {
                let before = self.addresses.len();
                self.addresses.retain(|known| !same(known, &gone));
                self.addresses.len() != before
            }
            Notice::Route { .. } => false,
        }
    }

    /// Returns the interface called `name` if it can send and receive.
    pub fn usable(&self, name: &str) -> Option<Usable> {
        let link = self
            .links
            .values()
            .find(|link| link.name == name && link.usable)?;
        Some(Usable {
            index: link.index,
            mac: link.mac,
            addresses: self.addresses_of(link.index),
        })
    }

    /// Returns the first routable address of each family on `lo`.
    pub fn loopback_originators(&self) -> Vec<IpAddr> {
        let Some(loopback) = self.links.values().find(|link| link.name == "lo") else {
            return Vec::new();
        };
        let routable: Vec<IpAddr> = self
            .addresses_of(loopback.index)
            .into_iter()
            .filter(|address| is_routable(*address))
            .collect();
        let first = |v4: bool| {
            routable
                .iter()
                .find(|address| address.is_ipv4() == v4)
                .copied()
        };
        [first(true), first(false)].into_iter().flatten().collect()
    }

    /// Returns the networks of this machine on links outside the mesh, such as the Ethernet of an uplink.
    ///
    /// Tunnels are left out, because the device of IPsec or of the overlay has addresses of the mesh.
    pub fn connected(&self, mesh: &[String]) -> Vec<Prefix> {
        let beyond = |link: &&Link| link.shared && link.usable && !mesh.contains(&link.name);
        let indices: BTreeSet<u32> = self
            .links
            .values()
            .filter(beyond)
            .map(|link| link.index)
            .collect();
        let known = self
            .addresses
            .iter()
            .filter(|known| indices.contains(&known.interface));
        let networks = known.filter_map(|known| Prefix::new(known.address, known.prefix_len));
        let routable = networks.filter(|network| is_routable(network.addr));
        let distinct: BTreeSet<Prefix> = routable.map(|network| network.canonical()).collect();
        distinct.into_iter().collect()
    }

    fn addresses_of(&self, index: u32) -> Vec<IpAddr> {
        let usable = |known: &&Address| known.interface == index && known.usable;
        self.addresses
            .iter()
            .filter(usable)
            .map(|known| known.address)
            .collect()
    }

    fn set_address(&mut self, address: Address) -> bool {
        let Some(known) = self
            .addresses
            .iter_mut()
            .find(|known| same(known, &address))
        else {
            self.addresses.push(address);
            return true;
        };
        std::mem::replace(known, address) != address
    }
}

fn same(one: &Address, other: &Address) -> bool {
    (one.interface, one.address) == (other.interface, other.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, usable: bool) -> Link {
        Link {
            index,
            name: name.into(),
            usable,
            admin_up: usable,
            mac: Some([2, 0, 0, 0, 0, 1]),
            shared: true,
        }
    }

    fn address(interface: u32, text: &str, usable: bool) -> Address {
        Address {
            interface,
            address: text.parse().unwrap(),
            prefix_len: 24,
            usable,
        }
    }

    #[test]
    fn a_tentative_link_local_address_counts_when_it_is_verified() {
        let mut links = Links::new(
            vec![link(2, "mesh0", true)],
            vec![address(2, "fe80::1", false)],
        );
        assert_eq!(links.usable("mesh0").unwrap().addresses, [] as [IpAddr; 0]);
        links.apply(Notice::Address(address(2, "fe80::1", true)));
        assert_eq!(
            links.usable("mesh0").unwrap().addresses,
            ["fe80::1".parse::<IpAddr>().unwrap()]
        );
    }

    #[test]
    fn carrier_loss_removal_and_renaming_end_an_interface() {
        let mut links = Links::new(
            vec![link(2, "mesh0", true)],
            vec![address(2, "10.0.0.1", true)],
        );
        links.apply(Notice::Link(Link {
            admin_up: true,
            ..link(2, "mesh0", false)
        }));
        assert_eq!(links.usable("mesh0"), None);
        links.apply(Notice::Link(link(2, "other", true)));
        assert_eq!(links.usable("mesh0"), None);
        links.apply(Notice::Link(link(2, "mesh0", true)));
        assert_eq!(links.usable("mesh0").unwrap().addresses.len(), 1);
        links.apply(Notice::LinkGone(2));
        links.apply(Notice::Link(link(3, "mesh0", true)));
        assert_eq!(links.usable("mesh0").unwrap().index, 3);
        assert!(links.usable("mesh0").unwrap().addresses.is_empty());
    }

    #[test]
    fn networks_beyond_the_mesh_are_connected_and_tunnels_are_not() {
        let tunnel = Link {
            shared: false,
            ..link(4, "tun0", true)
        };
        let down = link(5, "eth1", false);
        let all = vec![link(2, "mesh0", true), link(3, "eth0", true), tunnel, down];
        let texts = [
            (2, "10.77.0.1"),
            (3, "192.168.1.7"),
            (3, "192.168.1.8"),
            (3, "fe80::7"),
            (4, "10.8.0.1"),
            (5, "10.9.0.1"),
        ];
        let addresses = texts
            .map(|(index, text)| address(index, text, true))
            .to_vec();
        let links = Links::new(all, addresses);
        let expected: Vec<Prefix> = vec!["192.168.1.0/24".parse().unwrap()];
        assert_eq!(links.connected(&["mesh0".into()]), expected);
    }

    #[test]
    fn originators_are_the_first_routable_addresses_of_lo() {
        let texts = ["127.0.0.1", "10.77.0.1", "10.77.0.2", "::1", "fd77::1"];
        let addresses = texts.iter().map(|text| address(1, text, true)).collect();
        let links = Links::new(vec![link(1, "lo", true)], addresses);
        let expected: Vec<IpAddr> = vec!["10.77.0.1".parse().unwrap(), "fd77::1".parse().unwrap()];
        assert_eq!(links.loopback_originators(), expected);
    }
}
