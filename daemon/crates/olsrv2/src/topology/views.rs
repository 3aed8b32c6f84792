//! What routing and management look up in the topology.

use alloc::collections::BTreeSet;
use core::net::IpAddr;

use nhdp::Time;
use rfc5444::Prefix;

use super::{Node, Topology, Tuple};
use crate::tc::{AttachedNetwork, NeighbourAddress};
use crate::view::{AttachedView, EdgeView, NodeView};
use crate::word::Word;

impl Topology {
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (IpAddr, &Node)> {
        self.nodes
            .iter()
            .map(|(originator, node)| (*originator, node))
    }

    /// Returns what is known of a router.
    pub(crate) fn node(&self, originator: IpAddr) -> Option<&Node> {
        self.nodes.get(&originator)
    }

    /// Returns whether a router with this originator is known.
    pub(crate) fn contains(&self, originator: IpAddr) -> bool {
        self.nodes.contains_key(&originator)
    }

    /// Returns whether a router announces a network as attached to it.
    pub(crate) fn attaches(&self, originator: IpAddr, network: Prefix) -> bool {
        let node = self.nodes.get(&originator);
        node.is_some_and(|node| node.attached.contains_key(&network))
    }

    /// Returns whether a router's TCs list all its symmetric neighbours, as those of olsrv2d do.
    pub(crate) fn advertises_all(&self, originator: IpAddr) -> bool {
        let node = self.nodes.get(&originator);
        node.is_some_and(|node| node.advertises_all)
    }

    /// Returns what the router `to` reports about the link from `from` to it.
    pub(crate) fn word(&self, from: IpAddr, to: IpAddr) -> Word {
        let Some(node) = self.nodes.get(&to) else {
            return Word::Silent;
        };
        let advertised = node.neighbours.get(&from).map(|tuple| tuple.content);
        match advertised.filter(|neighbour| neighbour.originator) {
            Some(neighbour) => Word::Confirmed(neighbour.metric_in),
            None if node.advertises_all => Word::Denied,
            None => Word::Silent,
        }
    }

    pub(crate) fn node_views(&self) -> impl Iterator<Item = NodeView> + '_ {
        self.nodes().map(|(originator, node)| node.view(originator))
    }

    pub(crate) fn edge_views(&self) -> impl Iterator<Item = EdgeView> + '_ {
        self.nodes().flat_map(|(from, node)| {
            node.neighbours
                .iter()
                .map(move |(to, tuple)| edge_view(from, *to, tuple, &node.confirmed))
        })
    }

    pub(crate) fn attached_views(&self) -> impl Iterator<Item = AttachedView> + '_ {
        self.nodes().flat_map(|(originator, node)| {
            node.attached
                .iter()
                .map(move |(prefix, tuple)| attached_view(originator, *prefix, tuple))
        })
    }

    /// When [`Topology::expire`] may have something to do next.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.expiry
    }

    /// How many routers have sent TCs.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Advertised addresses and networks of all routers.
    pub(crate) fn tuples(&self) -> usize {
        self.advertised
    }

    /// Advertised addresses and networks of one router, if it is known.
    pub(crate) fn tuples_of(&self, originator: IpAddr) -> Option<usize> {
        self.nodes.get(&originator).map(Node::tuples)
    }
}

pub(super) fn edge_view(
    from: IpAddr,
    to: IpAddr,
    tuple: &Tuple<NeighbourAddress>,
    confirmed: &BTreeSet<IpAddr>,
) -> EdgeView {
    EdgeView {
        from,
        to,
        to_originator: tuple.content.originator,
        metric: tuple.content.metric,
        ansn: tuple.ansn,
        confirmed: confirmed.contains(&to),
        expires: tuple.expires,
    }
}

pub(super) fn attached_view(
    originator: IpAddr,
    prefix: Prefix,
    tuple: &Tuple<AttachedNetwork>,
) -> AttachedView {
    AttachedView {
        prefix,
        originator,
        distance: tuple.content.distance,
        metric: tuple.content.metric,
        ansn: tuple.ansn,
        expires: tuple.expires,
    }
}
