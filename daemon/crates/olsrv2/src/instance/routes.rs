//! Calculation of the routing set (RFC 7181, section 19).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;

use nhdp::NeighbourId;
use rfc5444::iana::willingness;
use rfc5444::{Metric, Prefix};

use super::{Context, Instance};
use crate::belief::Witnesses;
use crate::event::Event;
use crate::extension::{link_metric_out, symmetric_links, OlsrNeighbour};
use crate::routing::{self, FirstHop, Network};
use crate::tier::Signed;

impl Instance {
    pub(super) fn calculate_routes(&mut self, ctx: &mut Context) {
        ctx.counters.route_calculations += 1;
        let neighbours = self.first_hops(ctx.config.link_metric);
        let witnesses = Witnesses::new(&self.nhdp, &self.topology, ctx.speakers);
        let network = Network {
            originator: self.originator,
            neighbours: &neighbours,
            topology: &self.topology,
            witnesses: &witnesses,
            accept: &ctx.config.accept,
            signed: Signed {
                signatures: ctx.config.signatures,
                speakers: ctx.speakers,
                now: ctx.now,
            },
        };
        let attached: BTreeSet<Prefix> = ctx
            .config
            .attached
            .iter()
            .map(|own| own.prefix.canonical())
            .collect();
        let is_local = |prefix: Prefix| {
            attached.contains(&prefix) || prefix.is_host() && self.nhdp.is_own(prefix.addr)
        };
        let routes = routing::calculate(&network, is_local);
        let old = core::mem::replace(&mut self.routes, routes);
        let gone = old
            .keys()
            .filter(|destination| !self.routes.contains_key(destination));
        ctx.events
            .extend(gone.map(|destination| Event::RouteRemoved(*destination)));
        let set = self
            .routes
            .values()
            .filter(|route| old.get(&route.destination) != Some(route));
        ctx.events.extend(set.map(|route| Event::RouteSet(*route)));
        let newcomer = self.routes.values().any(|route| {
            route.destination.addr == route.originator && !old.contains_key(&route.destination)
        });
        if newcomer {
            self.serve_newcomers(ctx);
        }
    }

    /// Returns the neighbour with which the confirmed route to a router begins, if there is one.
    pub(crate) fn first_hop_to(&self, originator: IpAddr) -> Option<IpAddr> {
        let route = self.routes.get(&Prefix::host(originator));
        let route = route.filter(|route| route.confirmed);
        route.map(|route| route.next_originator)
    }

    fn first_hops(&self, default: Metric) -> Vec<FirstHop> {
        let hops = self.symmetric_neighbours().filter_map(|(id, neighbour)| {
            let links = symmetric_links(&self.nhdp, id)
                .filter_map(|link| Some((link_metric_out(link, default)?, link)));
            let (metric, link) =
                links.min_by_key(|(metric, link)| (*metric, link.interface, link.source))?;
            Some(FirstHop {
                originator: neighbour.ext.originator?,
                signed: neighbour.ext.signed,
                metric: neighbour.ext.metric_unless_avoided(metric),
                interface: link.interface,
                next_hop: link.source,
                addresses: neighbour.addresses.iter().copied().collect(),
                two_hops: self.routed_two_hops(id, neighbour),
            })
        });
        hops.collect()
    }

    /// The 2-hop addresses to which a neighbour is willing to route (RFC 7181, section 19.1).
    fn routed_two_hops(&self, id: NeighbourId, neighbour: &OlsrNeighbour) -> Vec<(IpAddr, Metric)> {
        if neighbour.ext.will_routing == willingness::NEVER {
            return Vec::new();
        }
        self.two_hops(id, |n2| n2.metric_out).into_iter().collect()
    }
}
