use super::*;
use crate::config::Limits;
use crate::signatures::Signatures;
use crate::speakers::Speakers;
use crate::tc::{Content, NeighbourAddress, Tc};
use alloc::collections::BTreeSet;
use alloc::vec;
use core::time::Duration;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn metric(value: u32) -> Metric {
    Metric::new(value).unwrap()
}

fn neighbour(originator: &str, value: u32) -> FirstHop {
    FirstHop {
        originator: address(originator),
        signed: false,
        metric: metric(value),
        interface: InterfaceId(1),
        next_hop: address(originator),
        addresses: Vec::new(),
        two_hops: Vec::new(),
    }
}

/// The topology after a TC of `from` that advertises a routable address.
fn topology(from: &str, to: &str, value: u32) -> Topology {
    let content = NeighbourAddress {
        originator: false,
        routable: true,
        metric: metric(value),
        metric_in: None,
    };
    let tc = Tc {
        originator: address(from),
        seq: 1,
        ansn: 1,
        complete: true,
        interval: None,
        validity: Duration::from_secs(9),
        content: Content {
            all: false,
            neighbours: BTreeMap::from([(address(to), content)]),
            attached: BTreeMap::new(),
        },
        lost_neighbours: BTreeSet::new(),
        lost_networks: BTreeSet::new(),
        quotes: BTreeMap::new(),
        proof: None,
    };
    let mut topology = Topology::default();
    let source = address(from);
    topology.process(Duration::ZERO, &tc, source, false, &Limits::default());
    topology
}

/// Metric and next hop of the route to `to`.
fn route(neighbours: &[FirstHop], topology: &Topology, to: &str) -> (u32, IpAddr) {
    let view = view(neighbours, topology, to);
    (view.metric, view.next_hop)
}

fn view(neighbours: &[FirstHop], topology: &Topology, to: &str) -> RouteView {
    let nhdp = crate::extension::Neighbours::new(nhdp::Params {
        hold_time: Duration::from_secs(6),
        max_links: 1,
        max_two_hops: 1,
    });
    let speakers = Speakers::default();
    let network = Network {
        originator: address("10.0.0.1"),
        neighbours,
        topology,
        witnesses: &Witnesses::new(&nhdp, topology, &speakers),
        accept: &Accept::default(),
        signed: Signed {
            signatures: Signatures::Prefer,
            speakers: &speakers,
            now: Duration::ZERO,
        },
    };
    let routes = calculate(&network, |_| false);
    routes[&Prefix::host(address(to))]
}

#[test]
fn an_advertised_address_does_not_replace_a_neighbours_own() {
    let mut far = neighbour("10.0.0.2", 100);
    far.addresses = vec![address("10.1.0.2")];
    let topology = topology("10.0.0.3", "10.1.0.2", 1);
    let found = route(&[far, neighbour("10.0.0.3", 1)], &topology, "10.1.0.2");
    assert_eq!(found, (100, address("10.0.0.2")));
}

#[test]
fn an_advertised_address_does_not_replace_an_originator() {
    let neighbours = [neighbour("10.0.0.2", 100), neighbour("10.0.0.3", 1)];
    let topology = topology("10.0.0.3", "10.0.0.2", 1);
    let found = route(&neighbours, &topology, "10.0.0.2");
    assert_eq!(found, (100, address("10.0.0.2")));
}

#[test]
fn an_advertised_address_is_a_hop_behind_the_router_that_advertises_it() {
    let advertised = topology("10.0.0.3", "10.1.0.9", 1);
    let found = view(&[neighbour("10.0.0.3", 50)], &advertised, "10.1.0.9");
    let behind = address("10.0.0.3");
    assert_eq!(
        (found.hops, found.last_originator, found.next_originator),
        (2, behind, behind)
    );
}

#[test]
fn the_address_of_a_2_hop_neighbour_comes_last() {
    let mut near = neighbour("10.0.0.2", 1);
    near.two_hops = vec![(address("10.1.0.9"), metric(1))];
    let advertised = topology("10.0.0.3", "10.1.0.9", 1);
    let neighbours = [near, neighbour("10.0.0.3", 50)];
    let found = route(&neighbours, &advertised, "10.1.0.9");
    assert_eq!(found, (51, address("10.0.0.3")));
    let found = route(&neighbours, &Topology::default(), "10.1.0.9");
    assert_eq!(found, (2, address("10.0.0.2")));
}
