//! Calculates the right routes from the graph alone, and compares.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Family, Prefix};

use crate::mesh::{Mesh, NodeId};

/// What is wrong with a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There is no route to a reachable node.
    Missing {
        /// Where the route is missing.
        at: NodeId,
        /// The destination.
        to: NodeId,
        /// The distance in hops.
        hops: usize,
    },
    /// There is a route to an unreachable node, or to no node at all.
    Unreachable {
        /// Where the route is.
        at: NodeId,
        /// The destination.
        to: IpAddr,
    },
    /// A route is longer than the shortest one, or its next hop is not nearer to the destination.
    NotShortest {
        /// Where the route is.
        at: NodeId,
        /// The destination.
        to: NodeId,
        /// The distance in hops.
        hops: usize,
        /// The distance that the route claims.
        claimed: u8,
    },
}

/// Checks the routes of all routers. Each router must have a route to every reachable node, and no other routes. A
/// route must be as long as the shortest path, and lead through a neighbour that is one hop nearer. Then no path can
/// loop. Requires equal link metrics.
///
/// # Errors
///
/// The first wrong route.
pub fn check(mesh: &Mesh) -> Result<(), Wrong> {
    let distances = Distances::of(mesh);
    let owners = owners(mesh);
    (0..mesh.node_count()).try_for_each(|node| check_node(mesh, &distances, &owners, node))
}

impl Mesh {
    /// Runs until every router has the right routes, at most until `limit` has passed. Returns the time from now to the last
    /// change of a route.
    pub fn run_until_converged(&mut self, limit: Duration, step: Duration) -> Option<Duration> {
        let start = self.now();
        let mut checked = None;
        while self.now() < start + limit {
            self.run_for(step);
            let changed = self.last_route_change();
            if checked != Some(changed) {
                checked = Some(changed);
                if check(self).is_ok() {
                    return Some(changed.saturating_sub(start));
                }
            }
        }
        None
    }
}

/// Distances in hops between all nodes, `usize::MAX` if there is no path.
#[derive(Debug)]
pub struct Distances(Vec<Vec<usize>>);

impl Distances {
    /// Searches breadth-first from every node over symmetric links.
    pub fn of(mesh: &Mesh) -> Self {
        let neighbours: Vec<Vec<NodeId>> = (0..mesh.node_count())
            .map(|node| mesh.symmetric_neighbours(node).into_iter().collect())
            .collect();
        Self(
            (0..neighbours.len())
                .map(|node| search(&neighbours, node))
                .collect(),
        )
    }

    /// Returns the distance between two nodes, or `None` if there is no path.
    pub fn between(&self, a: NodeId, b: NodeId) -> Option<usize> {
        Some(self.0[a][b]).filter(|hops| *hops != usize::MAX)
    }

    /// Returns the longest distance of all.
    pub fn diameter(&self) -> usize {
        let all = self.0.iter().flatten().filter(|hops| **hops != usize::MAX);
        all.copied().max().unwrap_or(0)
    }
}

fn search(neighbours: &[Vec<NodeId>], start: NodeId) -> Vec<usize> {
    let mut hops = vec![usize::MAX; neighbours.len()];
    let mut queue = VecDeque::from([start]);
    hops[start] = 0;
    while let Some(node) = queue.pop_front() {
        for next in &neighbours[node] {
            if hops[*next] == usize::MAX {
                hops[*next] = hops[node] + 1;
                queue.push_back(*next);
            }
        }
    }
    hops
}

fn owners(mesh: &Mesh) -> BTreeMap<IpAddr, NodeId> {
    let nodes = (0..mesh.node_count())
        .flat_map(|node| mesh.families().iter().map(move |family| (node, *family)));
    nodes
        .map(|(node, family)| (mesh.originator(node, family), node))
        .collect()
}

fn check_node(
    mesh: &Mesh,
    distances: &Distances,
    owners: &BTreeMap<IpAddr, NodeId>,
    at: NodeId,
) -> Result<(), Wrong> {
    let Some(router) = mesh.router(at) else {
        return Ok(());
    };
    let routes: BTreeMap<Prefix, _> = router
        .routes()
        .into_iter()
        .map(|route| (route.destination, route))
        .collect();
    for (destination, route) in &routes {
        let to = destination.addr;
        let unreachable = Wrong::Unreachable { at, to };
        let owner = *owners.get(&to).ok_or(unreachable.clone())?;
        let hops = distances.between(at, owner).ok_or(unreachable)?;
        let next = owners
            .get(&route.next_originator)
            .and_then(|next| distances.between(*next, owner));
        if usize::from(route.hops) != hops || next != Some(hops - 1) {
            return Err(Wrong::NotShortest {
                at,
                to: owner,
                hops,
                claimed: route.hops,
            });
        }
    }
    for to in (0..mesh.node_count()).filter(|to| *to != at) {
        let Some(hops) = distances.between(at, to) else {
            continue;
        };
        let missing =
            |family: &Family| !routes.contains_key(&Prefix::host(mesh.originator(to, *family)));
        if mesh.families().iter().any(missing) {
            return Err(Wrong::Missing { at, to, hops });
        }
    }
    Ok(())
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { at, to, hops } => {
                write!(f, "node {at} has no route to node {to}, {hops} hops away")
            }
            Self::Unreachable { at, to } => {
                write!(f, "node {at} has a route to {to}, which it cannot reach")
            }
            Self::NotShortest {
                at,
                to,
                hops,
                claimed,
            } => {
                write!(f, "node {at} goes {claimed} hops to node {to}, {hops} hops away, or not nearer to it")
            }
        }
    }
}

impl std::error::Error for Wrong {}
