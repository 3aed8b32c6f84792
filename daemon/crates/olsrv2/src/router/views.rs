//! What management looks up in the router.

use alloc::vec::Vec;
use core::net::IpAddr;

use nhdp::{InterfaceId, Time};

use super::Router;
use crate::config::Config;
use crate::event::Counters;
use crate::instance::Instance;
use crate::refusal::Refusal;
use crate::view::{
    AttachedView, EdgeView, InterfaceView, LinkView, NeighbourView, NodeView, RouteView, TwoHopView,
};

impl Router {
    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The originators in use, IPv4 first.
    pub fn originators(&self) -> Vec<IpAddr> {
        self.instances
            .iter()
            .map(|instance| instance.originator)
            .collect()
    }

    /// The ANSN of the family of `originator`, if it is one of this router's.
    pub fn ansn(&self, originator: IpAddr) -> Option<u16> {
        let own = self
            .instances
            .iter()
            .find(|instance| instance.originator == originator);
        own.map(Instance::ansn)
    }

    /// What was counted since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What was refused in the last one to two minutes, by kind.
    pub fn refusals(&self, now: Time) -> Vec<Refusal> {
        self.refusals.recent(now)
    }

    /// The interfaces that are up.
    pub fn interfaces(&self) -> Vec<InterfaceView> {
        let view = |interface: InterfaceId| InterfaceView {
            interface,
            addresses: self.announced_addresses(interface),
        };
        self.interfaces.keys().copied().map(view).collect()
    }

    /// The link sets of all interfaces.
    pub fn links(&self) -> Vec<LinkView> {
        self.views(|instance| instance.link_views(&self.config).map(|(_, view)| view))
    }

    /// The neighbour sets.
    pub fn neighbours(&self) -> Vec<NeighbourView> {
        self.views(|instance| instance.neighbour_views(&self.config).map(|(_, view)| view))
    }

    /// The 2-hop sets.
    pub fn two_hops(&self) -> Vec<TwoHopView> {
        self.views(|instance| {
            instance.nhdp.links().flat_map(|(_, link)| {
                let neighbour = instance.nhdp.neighbour(link.neighbour);
                TwoHopView::of(link, neighbour)
            })
        })
    }

    /// The advertising remote router sets.
    pub fn nodes(&self) -> Vec<NodeView> {
        self.views(|instance| instance.topology.node_views())
    }

    /// The router topology and routable address topology sets.
    pub fn edges(&self) -> Vec<EdgeView> {
        self.views(|instance| instance.topology.edge_views())
    }

    /// The attached network sets.
    pub fn attached(&self) -> Vec<AttachedView> {
        self.views(|instance| instance.topology.attached_views())
    }

    /// The routing sets.
    pub fn routes(&self) -> Vec<RouteView> {
        self.views(|instance| instance.routes.values().copied())
    }

    pub(super) fn views<'a, V, I: Iterator<Item = V>>(
        &'a self,
        views: impl Fn(&'a Instance) -> I,
    ) -> Vec<V> {
        self.instances.iter().flat_map(views).collect()
    }

    fn announced_addresses(&self, interface: InterfaceId) -> Vec<IpAddr> {
        let all = self
            .instances
            .iter()
            .flat_map(|instance| instance.nhdp.interfaces());
        all.filter(|(id, _)| *id == interface)
            .flat_map(|(_, addresses)| addresses)
            .copied()
            .collect()
    }
}
