//! What answers look up in a view of the router, sorted once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use olsrv2::{Family, NeighbourView, Time};

use super::state::State;

/// A router of the mesh in olsrd2's table of nodes.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its originator.
    pub originator: IpAddr,
    /// Its ANSN; 0 while it has sent no TC.
    pub ansn: u16,
    /// Until when it is known.
    pub expires: Time,
    /// Whether it is known from what others say alone.
    pub is_virtual: bool,
}

/// The tables of a view.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Metrics of edges.
    pub metrics: BTreeMap<(IpAddr, IpAddr), u32>,
    /// Edges that end the path to a router: before it, and it.
    pub last_hops: BTreeSet<(IpAddr, IpAddr)>,
    /// The originator in the other family, by originator.
    pub dualstack: BTreeMap<IpAddr, IpAddr>,
    /// Symmetric neighbours, by originator.
    pub neighbours: BTreeSet<IpAddr>,
    /// Routers, as the table of nodes shows them.
    pub nodes: Vec<Node>,
    /// All routers but this one, as the graph of a family shows them.
    pub remote: BTreeMap<Family, Vec<IpAddr>>,
}

impl Index {
    pub(super) fn new(state: &State) -> Self {
        let symmetric = || state.neighbours.iter().filter(|known| known.symmetric);
        let originators = |known: &NeighbourView| known.originator;
        let metrics = state.edges.iter();
        let hops = state.routes.iter().filter(|route| route.hops > 1);
        let hosts = hops.filter(|route| route.destination.is_host());
        Self {
            metrics: metrics
                .map(|edge| ((edge.from, edge.to), edge.metric.get()))
                .collect(),
            last_hops: hosts
                .map(|route| (route.last_originator, route.destination.addr))
                .collect(),
            dualstack: dualstack(state),
            neighbours: symmetric().filter_map(originators).collect(),
            nodes: nodes(state),
            remote: Family::ALL
                .map(|family| (family, remote(state, family)))
                .into(),
        }
    }
}

/// The first neighbour with an originator says what its other one is; this router's own are known.
fn dualstack(state: &State) -> BTreeMap<IpAddr, IpAddr> {
    let mut found = BTreeMap::new();
    for known in &state.neighbours {
        if let Some(originator) = known.originator {
            found.entry(originator).or_insert(known.other_originator);
        }
    }
    let mut found: BTreeMap<_, _> = found
        .into_iter()
        .filter_map(|(originator, other)| Some((originator, other?)))
        .collect();
    if let [(first, _), (second, _)] = state.originators[..] {
        found.extend([(first, second), (second, first)]);
    }
    found
}

fn nodes(state: &State) -> Vec<Node> {
    let mut nodes: BTreeMap<IpAddr, Node> = BTreeMap::new();
    for node in &state.nodes {
        let of_node = Node {
            originator: node.originator,
            ansn: node.ansn,
            expires: node.expires,
            is_virtual: false,
        };
        nodes.insert(node.originator, of_node);
    }
    for edge in state.edges.iter().filter(|edge| edge.to_originator) {
        nodes.entry(edge.to).or_insert(Node {
            originator: edge.to,
            ansn: 0,
            expires: edge.expires,
            is_virtual: true,
        });
    }
    nodes.into_values().collect()
}

fn remote(state: &State, family: Family) -> Vec<IpAddr> {
    let symmetric = state.neighbours.iter().filter(|known| known.symmetric);
    let neighbours = symmetric.filter_map(|known| known.originator);
    let edges = state.edges.iter().filter(|edge| edge.to_originator);
    let own = state.originator(family);
    let all: BTreeSet<IpAddr> = neighbours
        .chain(edges.flat_map(|edge| [edge.from, edge.to]))
        .filter(|address| Family::of(*address) == family && Some(*address) != own)
        .collect();
    all.into_iter().collect()
}
