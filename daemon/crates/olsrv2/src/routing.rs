//! The routing set: shortest paths by metric (RFC 7181, section 19).
//!
//! Vertices are addresses: this router, its symmetric neighbours and remote routers by originator, and the addresses of
//! 2-hop neighbours. Edges are the own links, the links that neighbours report and those that TCs advertise. Dijkstra's
//! algorithm gives each vertex its path; routable addresses and attached networks hang on the vertex that advertises them.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use nhdp::InterfaceId;
use rfc5444::{Metric, Prefix};

use crate::accept::Accept;
use crate::address::{is_destination, is_routable};
use crate::belief::Witnesses;
use crate::tier::{Signed, Tier};
use crate::topology::{Node, Topology};
use crate::view::RouteView;

pub(crate) type RoutingSet = BTreeMap<Prefix, RouteView>;

/// A symmetric neighbour as the first hop of a path.
#[derive(Debug)]
pub(crate) struct FirstHop {
    pub originator: IpAddr,
    /// Whether its HELLOs are signed.
    pub signed: bool,
    /// N_out_metric.
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

/// The best known path to a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    metric: u32,
    hops: u8,
    /// Index of the first hop.
    first: usize,
    /// The vertex before this one.
    last: usize,
}

/// Vertices in the order of their addresses, with their outgoing edges.
struct Graph {
    vertices: Vec<IpAddr>,
    edges: Vec<Vec<OutEdge>>,
    /// Which vertices are known originators; the others are addresses of 2-hop neighbours.
    originators: Vec<bool>,
}

/// Vertices to continue at, the nearest first: metric, hops and vertex.
type Queue = BinaryHeap<Reverse<(u32, u8, usize)>>;

/// An edge in the list of the vertex where it begins.
#[derive(Clone, Copy, Debug)]
struct OutEdge {
    to: usize,
    cost: u32,
    tier: Tier,
}

/// An edge of the graph.
struct Edge {
    from: IpAddr,
    to: IpAddr,
    metric: Metric,
    /// Whether `to` is known to be an originator; `from` always is.
    to_originator: bool,
    tier: Tier,
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

impl Graph {
    fn new(network: &Network) -> Self {
        let edges: Vec<Edge> = edges(network).collect();
        let ends = edges.iter().flat_map(|edge| [edge.from, edge.to]);
        let mut vertices: Vec<IpAddr> = ends.collect();
        vertices.push(network.originator);
        vertices.extend(network.topology.nodes().map(|(originator, _)| originator));
        vertices.sort_unstable();
        vertices.dedup();
        let mut graph = Self {
            edges: vec![Vec::new(); vertices.len()],
            originators: vec![false; vertices.len()],
            vertices,
        };
        for edge in edges {
            if let (Some(from), Some(to)) = (graph.index(edge.from), graph.index(edge.to)) {
                graph.edges[from].push(OutEdge {
                    to,
                    cost: edge.metric.get(),
                    tier: edge.tier,
                });
                graph.originators[from] = true;
                graph.originators[to] |= edge.to_originator;
            }
        }
        graph
    }

    fn index(&self, address: IpAddr) -> Option<usize> {
        self.vertices.binary_search(&address).ok()
    }

    fn shortest_paths(&self, network: &Network) -> Vec<Option<Path>> {
        let mut paths: Vec<Option<Path>> = vec![None; self.vertices.len()];
        for tier in network.signed.tiers() {
            // What a better tier has reached keeps its path, and is where this tier begins.
            let reached: Vec<bool> = paths.iter().map(Option::is_some).collect();
            let ends = paths.iter().enumerate();
            let mut queue: Queue = ends
                .filter_map(|(vertex, path)| Some((vertex, (*path)?)))
                .map(|(vertex, path)| Reverse((path.metric, path.hops, vertex)))
                .collect();
            let usable = |to: usize, of: Tier| of <= *tier && !reached[to];
            self.first_hops(network, &mut paths, &mut queue, usable);
            let own = self.index(network.originator);
            self.spread(own, &mut paths, &mut queue, |edge| {
                usable(edge.to, edge.tier)
            });
        }
        paths
    }

    /// Enters the paths to the neighbours that are `usable`.
    fn first_hops(
        &self,
        network: &Network,
        paths: &mut [Option<Path>],
        queue: &mut Queue,
        usable: impl Fn(usize, Tier) -> bool,
    ) {
        let Some(own) = self.index(network.originator) else {
            return;
        };
        for (first, neighbour) in network.neighbours.iter().enumerate() {
            let vertex = self.index(neighbour.originator);
            let tier = network.signed.tier_of_neighbour(neighbour);
            if let Some(vertex) = vertex.filter(|vertex| usable(*vertex, tier)) {
                let path = Path {
                    metric: neighbour.metric.get(),
                    hops: 1,
                    first,
                    last: own,
                };
                improve(paths, queue, vertex, path);
            }
        }
    }

    /// Continues paths along the edges that are `usable`, until none gets better.
    fn spread(
        &self,
        own: Option<usize>,
        paths: &mut [Option<Path>],
        queue: &mut Queue,
        usable: impl Fn(&OutEdge) -> bool,
    ) {
        while let Some(Reverse((metric, hops, vertex))) = queue.pop() {
            let Some(path) =
                paths[vertex].filter(|path| (path.metric, path.hops) == (metric, hops))
            else {
                continue;
            };
            let edges = self.edges[vertex].iter();
            for edge in edges.filter(|edge| Some(edge.to) != own && usable(edge)) {
                let next = Path {
                    metric: metric.saturating_add(edge.cost),
                    hops: hops.saturating_add(1),
                    last: vertex,
                    ..path
                };
                improve(paths, queue, edge.to, next);
            }
        }
    }
}

/// The own links, what neighbours report and what TCs advertise.
fn edges<'a>(network: &'a Network<'a>) -> impl Iterator<Item = Edge> + 'a {
    let own = network.neighbours.iter().map(|neighbour| Edge {
        from: network.originator,
        to: neighbour.originator,
        metric: neighbour.metric,
        to_originator: true,
        tier: network.signed.tier_of_neighbour(neighbour),
    });
    let reported = network.neighbours.iter().flat_map(|neighbour| {
        let two_hops = neighbour.two_hops.iter();
        two_hops.map(move |(address, metric)| Edge {
            from: neighbour.originator,
            to: *address,
            metric: *metric,
            to_originator: false,
            tier: Tier::Claimed,
        })
    });
    let advertised = network.topology.nodes().flat_map(|(from, node)| {
        let routers = node.neighbours();
        let routers = routers.filter(|(_, neighbour)| neighbour.originator);
        routers.map(move |(to, neighbour)| Edge {
            from,
            to,
            metric: neighbour.metric,
            to_originator: true,
            tier: Tier::Claimed,
        })
    });
    let weighed = reported.chain(advertised).map(|edge| {
        let (metric, denied) = network.witnesses.weigh(edge.from, edge.to, edge.metric);
        let tier = network
            .signed
            .tier(network.witnesses, edge.from, edge.to, denied);
        Edge {
            metric,
            tier,
            ..edge
        }
    });
    own.chain(weighed)
}

fn improve(paths: &mut [Option<Path>], queue: &mut Queue, vertex: usize, path: Path) {
    let better = |old: Path| (path.metric, path.hops) < (old.metric, old.hops);
    if paths[vertex].is_none_or(better) {
        paths[vertex] = Some(path);
        queue.push(Reverse((path.metric, path.hops, vertex)));
    }
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
            let own = routable.filter(|address| self.may_have(neighbour.originator, **address));
            let own: Vec<IpAddr> = own.copied().collect();
            for (address, path) in own.into_iter().filter_map(|address| Some((address, path?))) {
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
                let taken = self.network.witnesses.is_originator(address);
                if taken || !self.network.signed.may_advertise(address) {
                    continue;
                }
                let path = Path {
                    last: vertex,
                    ..beyond(path, neighbour.metric, 1)
                };
                self.offer_host(address, address, path);
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
                } else if prefix.is_host() && self.may_announce(originator, prefix) {
                    self.offer_host(prefix.addr, originator, path);
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

    /// Whether a router may have an address: one that is an originator belongs to nobody else.
    fn may_have(&self, originator: IpAddr, address: IpAddr) -> bool {
        address == originator || !self.network.witnesses.is_originator(address)
    }

    /// Whether a router may announce a host: a router of its own that has been heard of before belongs to nobody else. A
    /// path to the host as a router counts more in any case, because it was entered in an earlier stage.
    fn may_announce(&self, originator: IpAddr, host: Prefix) -> bool {
        self.network.signed.may_announce(originator, host.addr)
            && (self.may_have(originator, host.addr)
                || self.network.topology.announced_first(originator, host))
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

#[cfg(test)]
mod tests;
