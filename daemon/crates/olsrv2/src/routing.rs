//! The routing set: shortest paths by metric (RFC 7181, section 19).
//!
//! Vertices are addresses: this router, its symmetric neighbours and remote routers by originator, and the addresses of
//! 2-hop neighbours. Edges are the own links, the links that neighbours report and those that TCs advertise. Dijkstra's
//! algorithm gives each vertex its path; routable addresses and attached networks hang on the vertex that advertises them.

mod graph;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use nhdp::InterfaceId;
use rfc5444::{Metric, Prefix};

use crate::accept::Accept;
use crate::address::{is_destination, is_routable};
use crate::belief::Witnesses;
use crate::tier::{Signed, Tier};
use crate::topology::{Node, Topology};
use crate::view::RouteView;

use graph::{Graph, Path};

pub(crate) type RoutingSet = BTreeMap<Prefix, RouteView>;

/// A symmetric neighbour as the first hop of a path.
#[derive(Debug)]
pub(crate) struct FirstHop {
    pub originator: IpAddr,
    /// Whether its HELLOs are signed.
    pub signed: bool,
    /// The metric of the best link, or the largest if the neighbour is avoided.
    pub metric: Metric,
    pub interface: InterfaceId,
    pub next_hop: IpAddr,
    /// N_neighbor_addr_list.
    pub addresses: Vec<IpAddr>,
    /// The 2-hop addresses with N2_out_metric.
    pub two_hops: Vec<(IpAddr, Metric)>,
}

/// What the routing set is calculated from.
#[derive(Debug)]
pub(crate) struct Network<'a> {
    pub originator: IpAddr,
    pub neighbours: &'a [FirstHop],
    pub topology: &'a Topology,
    pub witnesses: &'a Witnesses<'a>,
    pub accept: &'a Accept,
    pub signed: Signed<'a>,
}

/// The routes to everything in the network for which `is_local` is false.
pub(crate) fn calculate(network: &Network, is_local: impl Fn(Prefix) -> bool) -> RoutingSet {
    let graph = Graph::new(network);
    let paths = graph.shortest_paths(network);
    let mut routes = Routes {
        network,
        graph: &graph,
        set: RoutingSet::new(),
        stage: RoutingSet::new(),
    };
    routes.add_vertices(&paths, true);
    routes.add_neighbour_addresses(&paths);
    routes.add_routable_addresses(&paths);
    routes.add_attached_networks(&paths);
    routes.add_vertices(&paths, false);
    let mut set = routes.set;
    set.retain(|destination, _| !is_local(*destination));
    set
}

/// The routing set as it grows, stage by stage: no stage replaces a route of
/// an earlier one (RFC 7181, section 19.2).
struct Routes<'a> {
    network: &'a Network<'a>,
    graph: &'a Graph,
    set: RoutingSet,
    stage: RoutingSet,
}

impl<'a> Routes<'a> {
    /// Originators (appendices C.2 and C.3), or the other addresses of 2-hop neighbours (appendix C.7).
    fn add_vertices(&mut self, paths: &[Option<Path>], originators: bool) {
        let vertices = self.graph.vertices.iter().zip(&self.graph.originators);
        for ((address, originator), path) in vertices.zip(paths) {
            let wanted = *originator == originators && is_routable(*address);
            if let Some(path) = path.filter(|_| wanted) {
                self.offer_host(*address, *address, path);
            }
        }
        self.finish_stage();
    }

    /// The addresses of neighbours (appendix C.4).
    fn add_neighbour_addresses(&mut self, paths: &[Option<Path>]) {
        for neighbour in self.network.neighbours {
            let path = self
                .graph
                .index(neighbour.originator)
                .and_then(|vertex| paths[vertex]);
            let routable = neighbour
                .addresses
                .iter()
                .filter(|address| is_routable(**address));
            let own = routable.filter_map(|address| {
                let tier = self.tier_of_address(neighbour.originator, *address)?;
                Some((*address, at_most(path?, tier)))
            });
            let own: Vec<(IpAddr, Path)> = own.collect();
            for (address, path) in own {
                self.offer_host(address, neighbour.originator, path);
            }
        }
        self.finish_stage();
    }

    /// Routable addresses (appendix C.5).
    fn add_routable_addresses(&mut self, paths: &[Option<Path>]) {
        for (vertex, path, _, node) in self.reached(paths) {
            let addresses = node.neighbours();
            let routable = addresses.filter(|(_, neighbour)| neighbour.routable);
            for (address, neighbour) in routable {
                let tier = self.network.signed.tier_of_advertised(address);
                let is_free = !self.network.witnesses.is_originator(address);
                let Some(tier) = tier.filter(|_| is_free) else {
                    continue;
                };
                let path = Path {
                    last: vertex,
                    ..beyond(path, neighbour.metric, 1)
                };
                self.offer_host(address, address, at_most(path, tier));
            }
        }
        self.finish_stage();
    }

    /// Attached networks (appendix C.6).
    fn add_attached_networks(&mut self, paths: &[Option<Path>]) {
        for (_, path, originator, node) in self.reached(paths) {
            for (prefix, network) in node.attached() {
                let path = beyond(path, network.metric, network.distance);
                if self.network.accept.is_network(prefix, originator) {
                    self.offer(prefix, originator, path);
                } else if let Some(tier) = self.tier_of_host(originator, prefix) {
                    self.offer_host(prefix.addr, originator, at_most(path, tier));
                }
            }
        }
        self.finish_stage();
    }

    /// The advertising routers to which there is a path: vertex, path, originator and what it advertises.
    fn reached(&self, paths: &[Option<Path>]) -> Vec<(usize, Path, IpAddr, &'a Node)> {
        let nodes = self.network.topology.nodes();
        let reached = nodes.filter_map(|(originator, node)| {
            let vertex = self.graph.index(originator)?;
            Some((vertex, paths[vertex]?, originator, node))
        });
        reached.collect()
    }

    /// How far it is believed that an address is the neighbour's own that says so in a HELLO, or `None`.
    fn tier_of_address(&self, originator: IpAddr, address: IpAddr) -> Option<Tier> {
        if address == originator {
            return Some(Tier::Confirmed);
        }
        let signed = &self.network.signed;
        let tier = signed.tier_of_host(originator, address, false);
        tier.filter(|_| !self.network.witnesses.is_originator(address))
    }

    /// How far it is believed that a host is the router's own that announces it, or `None`. A router of its own that is
    /// heard belongs to nobody else, except to its predecessor for a while. A path to the host as a router counts more in
    /// any case, because it was entered in an earlier stage.
    fn tier_of_host(&self, originator: IpAddr, host: Prefix) -> Option<Tier> {
        let signed = &self.network.signed;
        let predecessor = self.network.topology.predecessor(originator, host);
        let succeeds = predecessor.is_some_and(|one| signed.may_succeed(host.addr, one.had_card));
        let is_free = succeeds || !self.network.witnesses.is_originator(host.addr);
        let may = host.is_host() && (host.addr == originator || is_free);
        signed
            .tier_of_host(originator, host.addr, succeeds)
            .filter(|_| may)
    }

    /// Enters a route to an address of a router.
    fn offer_host(&mut self, address: IpAddr, originator: IpAddr, path: Path) {
        let destination = Prefix::host(address);
        if self.network.accept.is_host(destination) {
            self.offer(destination, originator, path);
        }
    }

    fn finish_stage(&mut self) {
        self.set.append(&mut self.stage);
    }

    /// Enters a route unless there is one from an earlier stage, or one as good.
    fn offer(&mut self, destination: Prefix, originator: IpAddr, path: Path) {
        let better = |old: &RouteView| (path.metric, path.hops) < (old.metric, old.hops);
        let worse =
            self.set.contains_key(&destination) || !self.stage.get(&destination).is_none_or(better);
        if worse || !is_destination(destination) {
            return;
        }
        let first = &self.network.neighbours[path.first];
        let route = RouteView {
            destination,
            next_hop: first.next_hop,
            interface: first.interface,
            source: self.network.originator,
            metric: path.metric,
            hops: path.hops,
            originator,
            next_originator: first.originator,
            last_originator: self.graph.vertices[path.last],
            confirmed: path.tier == Tier::Confirmed,
        };
        self.stage.insert(destination, route);
    }
}

fn beyond(path: Path, metric: Metric, hops: u8) -> Path {
    Path {
        metric: path.metric.saturating_add(metric.get()),
        hops: path.hops.saturating_add(hops),
        ..path
    }
}

/// A path that is believed no further than a claim about its end.
fn at_most(path: Path, tier: Tier) -> Path {
    Path {
        tier: path.tier.max(tier),
        ..path
    }
}

#[cfg(test)]
mod tests;
