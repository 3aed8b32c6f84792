//! One address family of a router: neighbourhood, topology and routing set, and the messages that it originates.

mod avoid;
mod mprs;
mod neighbours;
mod origination;
mod processing;
mod routes;
mod spoofing;
mod timing;
mod views;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use nhdp::{Changes, Family, InterfaceId, LinkId, MessageTimer, NeighbourId, Refresh, Time};
use rfc5444::Metric;

use crate::config::{Config, HelloTiming};
use crate::event::{Counters, Event};
use crate::evict::Gate;
use crate::extension::Neighbours;
use crate::own_seqno::OwnNumbers;
use crate::pause::{Paused, Spacing};
use crate::rate::Bucket;
use crate::routing::RoutingSet;
use crate::speakers::Speakers;
use crate::tc::Content;
use crate::topology::Topology;
use crate::view::{LinkView, NeighbourView};

use origination::first_numbers;
use timing::{params, tc_pace};

/// How often changes of the neighbourhood are processed, at once and per second: MPR selection and the views of
/// hundreds of links are too expensive for every packet that invents neighbours.
const SETTLEMENTS: (u32, u32) = (64, 20);

/// Shortest time between two disbelieved messages that are sent to the router named as their originator.
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// What the router lends to an instance for one call.
pub(crate) struct Context<'a> {
    pub now: Time,
    pub config: &'a Config,
    /// Interfaces whose HELLO timing differs from the configuration.
    pub hello_timings: &'a BTreeMap<InterfaceId, HelloTiming>,
    /// The hardware addresses that HELLOs announce.
    pub hardware_addresses: &'a BTreeMap<InterfaceId, [u8; 6]>,
    /// Who signs, with which floors.
    pub speakers: &'a Speakers,
    /// The lowest counter that this router has used lately.
    pub own_floor: Option<u64>,
    /// Whether this router signs its messages.
    pub signing: bool,
    pub rng: &'a mut fastrand::Rng,
    pub counters: &'a mut Counters,
    pub events: &'a mut VecDeque<Event>,
}

/// The HELLOs of an interface.
#[derive(Debug)]
struct HelloSchedule {
    timer: MessageTimer,
    refresh: Refresh,
}

/// A family of a router.
#[derive(Debug)]
pub(crate) struct Instance {
    pub family: Family,
    pub originator: IpAddr,
    pub nhdp: Neighbours,
    pub topology: Topology,
    gate: Gate,
    pub routes: RoutingSet,
    own: OwnNumbers,
    hellos: BTreeMap<InterfaceId, HelloSchedule>,
    tc_timer: MessageTimer,
    /// What the last TC advertised.
    advertised: Content,
    /// Until when TCs go out although there is nothing to advertise (A_HOLD_TIME).
    empty_tcs_until: Time,
    newcomer_tc: Option<Time>,
    /// Neighbours to avoid, by originator, and until when.
    avoided: BTreeMap<IpAddr, Time>,
    /// Disbelieved messages sent to the router named as their originator.
    pub(crate) shows: Spacing,
    routing: Paused,
    /// Changes of the neighbourhood that are not processed yet.
    changes: Changes,
    settlements: Bucket,
    settlement_due: Option<Time>,
    nhdp_expiry: Option<Time>,
    /// Whether `nhdp_expiry` must be calculated again. A TC does not change it.
    nhdp_touched: bool,
    /// Whether metrics, willingness, selectors or the configuration have changed.
    dirty: bool,
    /// Whether an incoming metric has changed, which all HELLOs announce.
    metrics_changed: bool,
    link_views: BTreeMap<LinkId, LinkView>,
    neighbour_views: BTreeMap<NeighbourId, NeighbourView>,
}

impl Instance {
    pub(crate) fn new(ctx: &mut Context, originator: IpAddr) -> Self {
        let mut instance = Self {
            family: Family::of(originator),
            originator,
            nhdp: Neighbours::new(params(ctx.config)),
            topology: Topology::default(),
            gate: Gate::new(ctx.now),
            routes: RoutingSet::new(),
            own: first_numbers(ctx),
            hellos: BTreeMap::new(),
            tc_timer: MessageTimer::start(ctx.now, &tc_pace(ctx.config), ctx.rng),
            advertised: Content::default(),
            empty_tcs_until: Time::ZERO,
            newcomer_tc: None,
            avoided: BTreeMap::new(),
            shows: Spacing::new(SHOW_INTERVAL),
            routing: Paused::default(),
            changes: Changes::default(),
            settlements: Bucket::new(ctx.now, SETTLEMENTS.0, SETTLEMENTS.1),
            settlement_due: None,
            nhdp_expiry: None,
            nhdp_touched: true,
            dirty: true,
            metrics_changed: false,
            link_views: BTreeMap::new(),
            neighbour_views: BTreeMap::new(),
        };
        instance
            .nhdp
            .set_other_addresses(ctx.now, BTreeSet::from([originator]));
        instance
    }

    pub(crate) fn ansn(&self) -> u16 {
        self.own.ansn()
    }

    /// Changes the originator, also on interfaces that borrow it. The routes stay, because other routers' tuples do.
    pub(crate) fn rename(
        &mut self,
        ctx: &mut Context,
        originator: IpAddr,
        interfaces: &[(InterfaceId, Vec<IpAddr>)],
    ) {
        self.originator = originator;
        let own = BTreeSet::from([originator]);
        self.nhdp.set_other_addresses(ctx.now, own);
        self.topology.remove_node(originator);
        for (id, addresses) in interfaces {
            self.set_interface(ctx, *id, addresses);
        }
        self.nhdp_touched = true;
    }

    /// Applies a changed configuration, except for the originator.
    pub(crate) fn reconfigure(&mut self, ctx: &mut Context) {
        self.nhdp.set_params(params(ctx.config));
        self.dirty = true;
        self.trigger_hellos(ctx, |_| true);
        self.trigger_tc(ctx);
    }

    /// Calculates the routes again soon, because other links are believed.
    pub(crate) fn beliefs_changed(&mut self) {
        self.dirty = true;
    }

    /// Applies a changed HELLO timing. The next HELLO is sent at once and so within the old interval (RFC 6130, section
    /// 5.5).
    pub(crate) fn hello_timing_changed(&mut self, ctx: &mut Context, interface: InterfaceId) {
        self.trigger_hellos(ctx, |other| other == interface);
    }

    /// Sets the addresses of an interface, of both families. Without an IPv4
    /// address the interface borrows the originator; IPv6 needs an address,
    /// because its packets come from a link-local one.
    pub(crate) fn set_interface(
        &mut self,
        ctx: &mut Context,
        interface: InterfaceId,
        addresses: &[IpAddr],
    ) {
        let of_family = addresses
            .iter()
            .filter(|address| Family::of(**address) == self.family);
        let mut own: BTreeSet<IpAddr> = of_family.copied().collect();
        if own.is_empty() && self.family == Family::V4 {
            own.insert(self.originator);
        }
        if own.is_empty() {
            return self.remove_interface(ctx, interface);
        }
        self.nhdp.set_interface(ctx.now, interface, own);
        let pace = ctx.hello_pace(interface);
        let schedule = || HelloSchedule {
            timer: MessageTimer::start(ctx.now, &pace, ctx.rng),
            refresh: Refresh::default(),
        };
        self.hellos.entry(interface).or_insert_with(schedule);
    }

    pub(crate) fn remove_interface(&mut self, ctx: &mut Context, interface: InterfaceId) {
        self.nhdp.remove_interface(ctx.now, interface);
        self.hellos.remove(&interface);
    }

    pub(crate) fn interfaces(&self) -> impl Iterator<Item = InterfaceId> + '_ {
        self.hellos.keys().copied()
    }

    pub(crate) fn set_link_metric(
        &mut self,
        interface: InterfaceId,
        address: IpAddr,
        metric: Option<Metric>,
    ) -> bool {
        let found = self.nhdp.find_link(interface, address);
        let Some(link) = found.and_then(|id| self.nhdp.link_mut(id)) else {
            return false;
        };
        let changed = link.ext.measured != metric;
        self.dirty |= changed;
        self.metrics_changed |= changed;
        link.ext.measured = metric;
        true
    }

    pub(crate) fn set_link_usable(
        &mut self,
        now: Time,
        interface: InterfaceId,
        address: IpAddr,
        usable: bool,
    ) -> bool {
        let Some(id) = self.nhdp.find_link(interface, address) else {
            return false;
        };
        self.nhdp.set_link_usable(now, id, usable);
        true
    }

    /// When [`Instance::handle_timeout`] has something to do next.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let hellos = self.hellos.values().map(|schedule| schedule.timer.next());
        let tc = (!self.hellos.is_empty()).then(|| self.tc_timer.next());
        let rest = [
            tc,
            self.nhdp_expiry,
            self.topology.next_expiry(),
            self.routing.due(),
            self.settlement_due,
            self.avoided.values().min().copied(),
        ];
        hellos.chain(rest.into_iter().flatten()).min()
    }

    /// Removes expired tuples.
    pub(crate) fn handle_timeout(&mut self, ctx: &mut Context) {
        if self.nhdp_expiry.is_some_and(|expiry| expiry <= ctx.now) {
            self.nhdp.expire(ctx.now);
            self.nhdp_touched = true;
        }
        self.topology.expire(ctx.now);
        self.expire_avoided(ctx.now);
    }

    /// Processes all changes since the last call: MPRs, triggered messages, events, routes.
    pub(crate) fn settle(&mut self, ctx: &mut Context) {
        let changes = self.nhdp.take_changes();
        if core::mem::take(&mut self.nhdp_touched) || changes.links {
            self.nhdp_expiry = self.nhdp.next_expiry(ctx.now);
        }
        self.dirty |= changes.links || changes.two_hops;
        self.changes.add(changes);
        if self.dirty && self.may_settle(ctx.now) {
            self.dirty = false;
            let changes = core::mem::take(&mut self.changes);
            self.settle_neighbourhood(ctx, &changes);
        }
        ctx.counters.over_limit += self.nhdp.take_over_limit() + self.topology.take_over_limit();
        ctx.events.extend(self.topology.take_events());
        if self.topology.take_changed() {
            self.routing.request(ctx.now);
        }
        let timing = &ctx.config.timing;
        if self.routing.start(
            ctx.now,
            timing.route_min_interval,
            timing.route_max_interval,
        ) {
            self.calculate_routes(ctx);
        }
    }

    /// Returns whether changes may be processed now. If not, this happens when the rate allows it again.
    fn may_settle(&mut self, now: Time) -> bool {
        let allowed = self.settlements.take(now);
        self.settlement_due = (!allowed).then(|| self.settlements.next());
        allowed
    }

    fn settle_neighbourhood(&mut self, ctx: &mut Context, changes: &Changes) {
        self.mark_avoided();
        let mprs = self.select_mprs(ctx.config.link_metric);
        let all = changes.neighbours | core::mem::take(&mut self.metrics_changed);
        self.trigger_hellos(ctx, |interface| {
            all || changes.statuses.contains(&interface) || mprs.interfaces.contains(&interface)
        });
        if mprs.flooding_gain {
            // The HELLO that names the new MPR must arrive before the TC that it is to forward.
            let timing = &ctx.config.timing;
            let at = ctx.now + timing.hello_min_interval + 2 * timing.triggered_jitter;
            self.tc_timer.plan(at);
        }
        if self.content(ctx) != self.advertised {
            self.trigger_tc(ctx);
        }
        self.publish(ctx);
        match changes.statuses.is_empty() {
            true => self.routing.request(ctx.now),
            false => self.routing.hasten(ctx.now),
        }
    }
}
