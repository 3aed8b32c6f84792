//! The graph of the network, and the shortest paths in it.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use rfc5444::Metric;

use super::Network;
use crate::tier::Tier;

/// The best known path to a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub metric: u32,
    pub hops: u8,
    /// Index of the first hop.
    pub first: usize,
    /// The vertex before this one.
    pub last: usize,
    /// The worst tier of its links.
    pub tier: Tier,
}

/// Vertices in the order of their addresses, with their outgoing edges.
pub(super) struct Graph {
    pub vertices: Vec<IpAddr>,
    edges: Vec<Vec<OutEdge>>,
    /// Which vertices are known originators; the others are addresses of 2-hop neighbours.
    pub originators: Vec<bool>,
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

impl Graph {
    pub(super) fn new(network: &Network) -> Self {
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

    pub(super) fn index(&self, address: IpAddr) -> Option<usize> {
        self.vertices.binary_search(&address).ok()
    }

    pub(super) fn shortest_paths(&self, network: &Network) -> Vec<Option<Path>> {
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
            let new = paths.iter_mut().zip(&reached).filter(|(_, old)| !**old);
            new.filter_map(|(path, _)| path.as_mut())
                .for_each(|path| path.tier = *tier);
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
            let tier = network.signed.tier_of_neighbour(neighbour.signed);
            if let Some(vertex) = vertex.filter(|vertex| usable(*vertex, tier)) {
                let path = Path {
                    metric: neighbour.metric.get(),
                    hops: 1,
                    first,
                    last: own,
                    tier,
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
        tier: network.signed.tier_of_neighbour(neighbour.signed),
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
