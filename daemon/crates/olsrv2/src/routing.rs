//! The routing set: shortest paths by metric (RFC 7181, section 19 and appendix C).
//!
//! Vertices are addresses: this router, its symmetric neighbours and remote
//! routers by originator, and the addresses of 2-hop neighbours. Edges are the
//! own links, the links that neighbours report and those that TCs advertise.
//! Dijkstra's algorithm gives each vertex its path; routable addresses and
//! attached networks hang on the vertex that advertises them.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use nhdp::InterfaceId;
use rfc5444::{Metric, Prefix};

use crate::address::{is_destination, is_routable};
use crate::topology::Topology;
use crate::view::RouteView;

pub(crate) type RoutingSet = BTreeMap<Prefix, RouteView>;

/// A symmetric neighbour as the first hop of a path.
#[derive(Debug)]
pub(crate) struct FirstHop {
    pub originator: IpAddr,
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
    edges: Vec<Vec<(usize, u32)>>,
}

/// The routes to everything in the network for which `is_local` is false.
pub(crate) fn calculate(network: &Network, is_local: impl Fn(Prefix) -> bool) -> RoutingSet {
    let graph = Graph::new(network);
    let paths = graph.shortest_paths(network);
    let mut routes = Routes {
        network,
        graph: &graph,
        set: RoutingSet::new(),
    };
    routes.add_vertices(&paths);
    routes.add_neighbour_addresses(&paths);
    routes.add_advertised(&paths);
    let mut set = routes.set;
    set.retain(|destination, _| !is_local(*destination));
    set
}

impl Graph {
    fn new(network: &Network) -> Self {
        let edges: Vec<(IpAddr, IpAddr, Metric)> = edges(network).collect();
        let mut vertices: Vec<IpAddr> = edges
            .iter()
            .flat_map(|(from, to, _)| [*from, *to])
            .collect();
        vertices.push(network.originator);
        vertices.extend(network.topology.nodes().map(|(originator, _)| originator));
        vertices.sort_unstable();
        vertices.dedup();
        let mut graph = Self {
            edges: vec![Vec::new(); vertices.len()],
            vertices,
        };
        for (from, to, metric) in edges {
            if let (Some(from), Some(to)) = (graph.index(from), graph.index(to)) {
                graph.edges[from].push((to, metric.get()));
            }
        }
        graph
    }

    fn index(&self, address: IpAddr) -> Option<usize> {
        self.vertices.binary_search(&address).ok()
    }

    fn shortest_paths(&self, network: &Network) -> Vec<Option<Path>> {
        let mut paths: Vec<Option<Path>> = vec![None; self.vertices.len()];
        let mut queue = BinaryHeap::new();
        let own = self.index(network.originator);
        for (first, neighbour) in network.neighbours.iter().enumerate() {
            if let (Some(own), Some(vertex)) = (own, self.index(neighbour.originator)) {
                let path = Path {
                    metric: neighbour.metric.get(),
                    hops: 1,
                    first,
                    last: own,
                };
                improve(&mut paths, &mut queue, vertex, path);
            }
        }
        while let Some(Reverse((metric, hops, vertex))) = queue.pop() {
            let Some(path) =
                paths[vertex].filter(|path| (path.metric, path.hops) == (metric, hops))
            else {
                continue;
            };
            for (to, cost) in self.edges[vertex].iter().filter(|(to, _)| Some(*to) != own) {
                let metric = metric.saturating_add(*cost);
                let next = Path {
                    metric,
                    hops: hops.saturating_add(1),
                    last: vertex,
                    ..path
                };
                improve(&mut paths, &mut queue, *to, next);
            }
        }
        paths
    }
}

/// All edges but the own ones: what neighbours report and what TCs advertise.
fn edges<'a>(network: &'a Network) -> impl Iterator<Item = (IpAddr, IpAddr, Metric)> + 'a {
    let reported = network.neighbours.iter().flat_map(|neighbour| {
        neighbour
            .two_hops
            .iter()
            .map(move |(address, metric)| (neighbour.originator, *address, *metric))
    });
    let advertised = network.topology.nodes().flat_map(|(from, node)| {
        let routers = node
            .neighbours()
            .filter(|(_, neighbour)| neighbour.originator);
        routers.map(move |(to, neighbour)| (from, to, neighbour.metric))
    });
    let own = network
        .neighbours
        .iter()
        .map(|neighbour| (network.originator, neighbour.originator, neighbour.metric));
    own.chain(reported).chain(advertised)
}

fn improve(
    paths: &mut [Option<Path>],
    queue: &mut BinaryHeap<Reverse<(u32, u8, usize)>>,
    vertex: usize,
    path: Path,
) {
    let better = |old: Path| (path.metric, path.hops) < (old.metric, old.hops);
    if paths[vertex].is_none_or(better) {
        paths[vertex] = Some(path);
        queue.push(Reverse((path.metric, path.hops, vertex)));
    }
}

struct Routes<'a> {
    network: &'a Network<'a>,
    graph: &'a Graph,
    set: RoutingSet,
}

impl Routes<'_> {
    /// Originators and the addresses of 2-hop neighbours (appendices C.2, C.3 and C.6).
    fn add_vertices(&mut self, paths: &[Option<Path>]) {
        for (address, path) in self.graph.vertices.iter().zip(paths) {
            if let Some(path) = path.filter(|_| is_routable(*address)) {
                self.offer(Prefix::host(*address), *address, path);
            }
        }
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
            for (address, path) in routable.filter_map(|address| Some((address, path?))) {
                self.offer(Prefix::host(*address), neighbour.originator, path);
            }
        }
    }

    /// Routable addresses and attached networks (appendices C.5 and C.7).
    fn add_advertised(&mut self, paths: &[Option<Path>]) {
        for (originator, node) in self.network.topology.nodes() {
            let Some(vertex) = self.graph.index(originator) else {
                continue;
            };
            let Some(path) = paths[vertex] else { continue };
            let addresses = node
                .neighbours()
                .filter(|(address, neighbour)| neighbour.routable && is_routable(*address));
            for (address, neighbour) in addresses {
                let path = Path {
                    last: vertex,
                    ..beyond(path, neighbour.metric, 1)
                };
                self.offer(Prefix::host(address), address, path);
            }
            for (prefix, network) in node.attached() {
                self.offer(
                    prefix,
                    originator,
                    beyond(path, network.metric, network.distance),
                );
            }
        }
    }

    /// Enters a route unless there is one as good.
    fn offer(&mut self, destination: Prefix, originator: IpAddr, path: Path) {
        let better = |old: &RouteView| (path.metric, path.hops) < (old.metric, old.hops);
        if !is_destination(destination) || !self.set.get(&destination).is_none_or(better) {
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
        self.set.insert(destination, route);
    }
}

fn beyond(path: Path, metric: Metric, hops: u8) -> Path {
    Path {
        metric: path.metric.saturating_add(metric.get()),
        hops: path.hops.saturating_add(hops),
        ..path
    }
}
