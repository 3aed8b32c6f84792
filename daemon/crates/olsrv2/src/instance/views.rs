//! The sets as management shows them, and the events of their changes.

use alloc::collections::{BTreeMap, VecDeque};

use nhdp::{LinkId, NeighbourId};

use super::{Context, Instance};
use crate::config::Config;
use crate::event::Event;
use crate::view::{LinkView, NeighbourView};

impl Instance {
    pub(crate) fn link_views(
        &self,
        config: &Config,
    ) -> impl Iterator<Item = (LinkId, LinkView)> + '_ {
        let metric = config.link_metric;
        self.nhdp.links().map(move |(id, link)| {
            (
                id,
                LinkView::of(link, self.nhdp.neighbour(link.neighbour), metric),
            )
        })
    }

    pub(crate) fn neighbour_views(
        &self,
        config: &Config,
    ) -> impl Iterator<Item = (NeighbourId, NeighbourView)> + '_ {
        let (metric, family) = (config.link_metric, self.family);
        self.nhdp.neighbours().map(move |(id, neighbour)| {
            (
                id,
                NeighbourView::of(&self.nhdp, family, id, neighbour, metric),
            )
        })
    }

    /// Reports the differences of the link and neighbour sets as events.
    pub(super) fn publish(&mut self, ctx: &mut Context) {
        let links: BTreeMap<_, _> = self.link_views(ctx.config).collect();
        let neighbours: BTreeMap<_, _> = self.neighbour_views(ctx.config).collect();
        let old_links = core::mem::replace(&mut self.link_views, links);
        let old_neighbours = core::mem::replace(&mut self.neighbour_views, neighbours);
        for (id, view) in &self.neighbour_views {
            if old_neighbours.get(id) != Some(view) {
                ctx.events.push_back(Event::NeighbourSet(view.clone()));
            }
        }
        for (id, view) in &self.link_views {
            if !old_links
                .get(id)
                .is_some_and(|old| old.differs_in_time_only(view))
            {
                ctx.events.push_back(Event::LinkSet(view.clone()));
            }
        }
        let links_gone = old_links
            .into_iter()
            .filter(|(id, _)| !self.link_views.contains_key(id));
        ctx.events
            .extend(links_gone.map(|(_, view)| Event::LinkRemoved(view)));
        let neighbours_gone = old_neighbours
            .into_iter()
            .filter(|(id, _)| !self.neighbour_views.contains_key(id));
        ctx.events
            .extend(neighbours_gone.map(|(_, view)| Event::NeighbourRemoved(view)));
    }

    /// Reports that all information is gone, because the instance is about to end.
    pub(crate) fn retire(self, events: &mut VecDeque<Event>) {
        events.extend(self.routes.into_keys().map(Event::RouteRemoved));
        events.extend(self.topology.attached_views().map(Event::AttachedRemoved));
        events.extend(self.topology.edge_views().map(Event::EdgeRemoved));
        events.extend(self.topology.node_views().map(Event::NodeRemoved));
        events.extend(self.link_views.into_values().map(Event::LinkRemoved));
        events.extend(
            self.neighbour_views
                .into_values()
                .map(Event::NeighbourRemoved),
        );
    }
}
