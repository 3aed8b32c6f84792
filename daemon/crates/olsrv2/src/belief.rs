//! What is believed of unsigned messages: for how long, which links and which addresses (docs/adr/0050).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use nhdp::NeighbourId;
use rfc5444::{Metric, Prefix};

use crate::extension::{symmetric_links, Neighbours};
use crate::topology::Topology;

/// The most intervals of its sender for which a message is valid: olsrd2's HELLOs ask for 10.
const VALIDITY_INTERVALS: u32 = 10;

/// The longest HELLO_INTERVAL that counts, unless ours is longer: a liar is forgotten after a minute.
pub(crate) const HELLO_INTERVAL_MAX: Duration = Duration::from_secs(6);

/// The longest TC_INTERVAL that counts, unless ours is longer: two minutes.
pub(crate) const TC_INTERVAL_MAX: Duration = Duration::from_secs(12);

/// Limits a received validity time to a few intervals: the sender's if he tells one, at most `longest`.
pub(crate) fn bounded(
    validity: Duration,
    interval: Option<Duration>,
    longest: Duration,
) -> Duration {
    let interval = interval.map_or(longest, |interval| interval.min(longest));
    validity.min(VALIDITY_INTERVALS * interval)
}

/// Which destinations the routing set may hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accept {
    /// The networks in which addresses of routers may lie; none: all routable addresses.
    pub hosts: Vec<Prefix>,
    /// The attached networks of other routers that may be routed to: exactly these prefixes.
    pub networks: Vec<AcceptedNetwork>,
    /// Networks of this machine beyond the mesh. No route leads into them, except to a more specific network of `hosts`.
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
    /// Whether `destination` may be the address of some router.
    pub(crate) fn is_host(&self, destination: Prefix) -> bool {
        let in_mesh = self.hosts.is_empty() || longest(&self.hosts, destination).is_some();
        let connected = longest(&self.connected, destination);
        let is_elsewhere = connected.is_some() && connected >= longest(&self.hosts, destination);
        destination.is_host() && in_mesh && !is_elsewhere
    }

    /// Whether `destination` may be an attached network of the router with this originator.
    pub(crate) fn is_network(&self, destination: Prefix, originator: IpAddr) -> bool {
        let mut networks = self.networks.iter();
        let named = networks.any(|one| one.prefix == destination && one.from.contains(&originator));
        named && longest(&self.connected, destination).is_none()
    }
}

/// The length of the longest of these networks in which `destination` lies.
fn longest(networks: &[Prefix], destination: Prefix) -> Option<u8> {
    let covers = |one: &&Prefix| one.len <= destination.len && one.contains(destination.addr);
    networks.iter().filter(covers).map(|one| one.len).max()
}

/// What a router says of the link from another one to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It tells all its neighbours, and the other router is none of them.
    Denied,
    /// It tells nothing that decides.
    Silent,
    /// It tells the link, and with what metric it hears the other router if it says so.
    Confirmed(Option<Metric>),
}

/// A symmetric neighbour as a witness of the links to itself: its HELLOs tell all its symmetric neighbours.
#[derive(Debug, Default)]
struct Witness {
    /// Its own addresses.
    addresses: BTreeSet<IpAddr>,
    /// The addresses of its symmetric neighbours, with N2_in_metric.
    hears: BTreeMap<IpAddr, Option<Metric>>,
}

/// What the far ends of links say of them.
#[derive(Debug)]
pub(crate) struct Witnesses<'a> {
    /// By originator.
    neighbours: BTreeMap<IpAddr, Witness>,
    topology: &'a Topology,
}

impl<'a> Witnesses<'a> {
    pub(crate) fn new(nhdp: &Neighbours, topology: &'a Topology) -> Self {
        let neighbours = nhdp.neighbours().filter_map(|(id, neighbour)| {
            let originator = neighbour.ext.originator.filter(|_| neighbour.symmetric)?;
            let addresses = neighbour.addresses.clone();
            Some((
                originator,
                Witness {
                    addresses,
                    hears: hears(nhdp, id),
                },
            ))
        });
        Self {
            neighbours: neighbours.collect(),
            topology,
        }
    }

    /// Whether an address is known as the originator of some router.
    pub(crate) fn is_originator(&self, address: IpAddr) -> bool {
        self.neighbours.contains_key(&address) || self.topology.contains(address)
    }

    /// The metric of a link that the router `from` claims to have to `to`, and whether `to` denies it.
    ///
    /// The receiver measures a link, so its own word counts where it is heavier than what others repeat.
    pub(crate) fn weigh(&self, from: IpAddr, to: IpAddr, claimed: Metric) -> (Metric, bool) {
        match self.word(from, to) {
            Word::Denied => (claimed, true),
            Word::Silent | Word::Confirmed(None) => (claimed, false),
            Word::Confirmed(Some(measured)) => (claimed.max(measured), false),
        }
    }

    fn word(&self, from: IpAddr, to: IpAddr) -> Word {
        match self.neighbours.get(&to) {
            Some(witness) => self.word_of_neighbour(witness, from),
            None => self.topology.word(from, to),
        }
    }

    fn word_of_neighbour(&self, witness: &Witness, from: IpAddr) -> Word {
        let others = self.neighbours.get(&from).map(|from| from.addresses.iter());
        let mut names = [&from].into_iter().chain(others.into_iter().flatten());
        let heard = names.find_map(|name| witness.hears.get(name));
        heard.map_or(Word::Denied, |metric| Word::Confirmed(*metric))
    }
}

/// The addresses of a neighbour's symmetric neighbours, with N2_in_metric.
fn hears(nhdp: &Neighbours, id: NeighbourId) -> BTreeMap<IpAddr, Option<Metric>> {
    let two_hops = symmetric_links(nhdp, id).flat_map(|link| &link.two_hops);
    two_hops
        .map(|(address, two_hop)| (*address, two_hop.ext.metric_in))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_olsrd2_asks_for_in_hellos_is_granted_and_45_days_are_not() {
        let hello =
            |validity: u32, interval| bounded(validity * SECOND, interval, HELLO_INTERVAL_MAX);
        assert_eq!(hello(20, Some(2 * SECOND)), 20 * SECOND);
        assert_eq!(hello(21, Some(2 * SECOND)), 20 * SECOND);
        assert_eq!(hello(3_932_160, Some(2 * SECOND)), 20 * SECOND);
        assert_eq!(hello(3_932_160, Some(3_932_160 * SECOND)), 60 * SECOND);
        assert_eq!(hello(3_932_160, None), 60 * SECOND);
        assert_eq!(hello(6, None), 6 * SECOND);
    }

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
