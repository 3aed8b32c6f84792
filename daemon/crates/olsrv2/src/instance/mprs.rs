//! Selection of flooding and routing MPRs (RFC 7181, section 18).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use nhdp::{InterfaceId, NeighbourId};
use rfc5444::Metric;

use super::Instance;
use crate::extension::neighbour_metrics;
use crate::mpr::NeighbourGraph;

/// What a selection of MPRs changed.
#[derive(Debug, Default)]
pub(super) struct MprChanges {
    /// A flooding MPR was added.
    pub(super) flooding_gain: bool,
    /// The interfaces whose HELLOs change.
    pub(super) interfaces: BTreeSet<InterfaceId>,
}

impl Instance {
    /// Selects flooding and routing MPRs and ends the selector state of what
    /// is not symmetric (RFC 7181, sections 17.2, 17.3 and 18).
    pub(super) fn select_mprs(&mut self, metric: Metric) -> MprChanges {
        let interfaces: Vec<InterfaceId> = self.interfaces().collect();
        let flooding = interfaces
            .iter()
            .flat_map(|interface| self.flooding_mprs(*interface));
        let flooding: BTreeSet<NeighbourId> = flooding.collect();
        let routing = self.routing_mprs(metric);
        let mut changed: BTreeSet<NeighbourId> = BTreeSet::new();
        for (id, neighbour) in self.nhdp.neighbours_mut() {
            let is_mpr = routing.contains(&id);
            if core::mem::replace(&mut neighbour.ext.routing_mpr, is_mpr) != is_mpr {
                changed.insert(id);
            }
            neighbour.ext.selector &= neighbour.symmetric;
        }
        self.record_flooding_mprs(&flooding, &changed)
    }

    /// Sets N_flooding_mpr, which holds for all links of a neighbour; `changed` are new or former routing MPRs.
    fn record_flooding_mprs(
        &mut self,
        mprs: &BTreeSet<NeighbourId>,
        changed: &BTreeSet<NeighbourId>,
    ) -> MprChanges {
        let mut changes = MprChanges::default();
        for id in self.nhdp.links().map(|(id, _)| id).collect::<Vec<_>>() {
            let Some(link) = self.nhdp.link_mut(id) else {
                continue;
            };
            let is_mpr = link.is_symmetric() && mprs.contains(&link.neighbour);
            link.ext.selector &= link.is_symmetric();
            let was_mpr = core::mem::replace(&mut link.ext.flooding_mpr, is_mpr);
            changes.flooding_gain |= is_mpr && !was_mpr;
            let announced = link.is_symmetric() && changed.contains(&link.neighbour);
            if announced || is_mpr != was_mpr {
                changes.interfaces.insert(link.interface);
            }
        }
        changes
    }

    /// The flooding MPRs of an interface, by outgoing metrics (RFC 7181, section 18.4).
    fn flooding_mprs(&self, interface: InterfaceId) -> BTreeSet<NeighbourId> {
        let mut graph = NeighbourGraph::new();
        let usable = || {
            let links = self.nhdp.links();
            links.filter(|(_, link)| link.interface == interface && link.is_symmetric())
        };
        let known = usable().filter_map(|(id, link)| Some((id, link, link.ext.metric_out?.get())));
        for (id, link, metric) in known {
            if let Some(neighbour) = self.nhdp.neighbour(link.neighbour) {
                graph.add_neighbour(id, neighbour.ext.will_flooding, metric);
                let addresses = neighbour.addresses.iter();
                addresses.for_each(|address| graph.add_direct(*address, metric));
            }
        }
        for (id, link) in usable() {
            let two_hops = link.two_hops.iter();
            let known = two_hops.filter_map(|(address, n2)| Some((address, n2.ext.metric_out?)));
            known.for_each(|(address, metric)| graph.add_two_hop(id, *address, metric.get()));
        }
        let mprs = graph.select().into_iter();
        mprs.filter_map(|id| Some(self.nhdp.link(id)?.neighbour))
            .collect()
    }

    /// The routing MPRs, by incoming metrics (RFC 7181, section 18.5, except that d2 is
    /// N2_in_metric, which makes a tuple an allowed one there; N2_out_metric is the other direction).
    fn routing_mprs(&self, default: Metric) -> BTreeSet<NeighbourId> {
        let mut graph = NeighbourGraph::new();
        for (id, neighbour) in self.symmetric_neighbours() {
            if let Some(metric) = neighbour_metrics(&self.nhdp, id, default).metric_in {
                graph.add_neighbour(id, neighbour.ext.will_routing, metric.get());
                neighbour
                    .addresses
                    .iter()
                    .for_each(|address| graph.add_direct(*address, metric.get()));
            }
        }
        for (id, _) in self.symmetric_neighbours() {
            for (address, metric) in self.two_hops(id, |n2| n2.metric_in) {
                graph.add_two_hop(id, address, metric.get());
            }
        }
        graph.select()
    }
}
