//! What tests see of the routers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use olsrv2::{Counters, Family, Router};

use super::{plain_v6, v4, Mesh, NodeId, Recorded};

impl Mesh {
    /// Records from now on what all nodes send.
    pub fn record(&mut self) {
        self.recorded = Some(Vec::new());
    }

    /// Ends the recording.
    pub fn recorded(&mut self) -> Vec<Recorded> {
        self.recorded.take().unwrap_or_default()
    }

    /// Returns the router of a node, if it runs.
    pub fn router(&self, node: NodeId) -> Option<&Router> {
        self.nodes[node].router.as_ref()
    }

    /// Returns how often a node reported that another router uses its originator.
    pub fn duplicate_originators(&self, node: NodeId) -> usize {
        self.nodes[node].duplicate_originators
    }

    /// Returns the counters of all running routers.
    pub fn counters(&self) -> Vec<Counters> {
        self.nodes
            .iter()
            .filter_map(|node| Some(node.router.as_ref()?.counters()))
            .collect()
    }

    /// Returns the originator that belongs to a node's number.
    pub fn originator(&self, node: NodeId, family: Family) -> IpAddr {
        match family {
            Family::V4 => v4(node).into(),
            Family::V6 => self.v6(node).into(),
        }
    }

    pub(super) fn v6(&self, node: NodeId) -> Ipv6Addr {
        let key = self.nodes[node].key.as_ref();
        key.map_or(plain_v6(node), |key| key.locator())
    }

    /// Returns the nodes that hear a node and that it hears, while both routers run.
    pub fn symmetric_neighbours(&self, node: NodeId) -> BTreeSet<NodeId> {
        let heard_back = |other: NodeId| {
            self.nodes[other]
                .listeners
                .iter()
                .any(|(_, port)| port.node == node)
        };
        let running = |node: NodeId| self.nodes[node].router.is_some();
        let others = self.nodes[node].listeners.iter().map(|(_, port)| port.node);
        others
            .filter(|other| running(node) && running(*other) && heard_back(*other))
            .collect()
    }
}
