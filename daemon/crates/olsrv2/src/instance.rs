//! One address family of a router: neighbourhood, topology and routing set,
//! and the messages that this router originates.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use nhdp::{
    jitter, Changes, Family, Hello, InterfaceId, LinkId, MessageTimer, NeighbourId, Pace, Params,
    Piece, Refresh, Rejected, Time,
};
use rfc5444::iana::willingness;
use rfc5444::{Message, Metric, Prefix};

use crate::address::is_routable;
use crate::belief::{self, Witnesses};
use crate::config::{Config, HelloTiming};
use crate::event::{Counters, Event};
use crate::evict::{Gate, Standing};
use crate::extension::{
    link_metric_out, neighbour_metrics, symmetric_links, Neighbours, OlsrNeighbour,
};
use crate::hello::{decorate, mac_tlv, willingness_tlv, HelloInfo};
use crate::mpr::NeighbourGraph;
use crate::own_seqno::{OwnMessage, OwnNumbers};
use crate::pause::{Paused, Spacing};
use crate::rate::Bucket;
use crate::routing::{self, FirstHop, Network, RoutingSet};
use crate::tc::{AttachedNetwork, Content, NeighbourAddress, Tc};
use crate::topology::{Outcome, Topology};
use crate::view::{LinkView, NeighbourView};

/// The shortest time between two TCs that only serve newcomers.
const NEWCOMER_INTERVAL: Duration = Duration::from_secs(1);

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

/// What a selection of MPRs changed.
#[derive(Debug, Default)]
struct MprChanges {
    /// A flooding MPR was added.
    flooding_gain: bool,
    /// The interfaces whose HELLOs change.
    interfaces: BTreeSet<InterfaceId>,
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

    /// Processes a HELLO (RFC 6130, section 12; RFC 7181, section 15.3).
    pub(crate) fn process_hello(
        &mut self,
        ctx: &mut Context,
        interface: InterfaceId,
        source: IpAddr,
        mut hello: Hello,
        info: &HelloInfo,
    ) {
        if hello
            .local_addresses()
            .chain(info.originator)
            .any(|address| self.owns(ctx.config, address))
        {
            return self.own_address_used(ctx, interface, source, info.originator);
        }
        if self.is_of_another(source, &hello, info.originator) {
            ctx.counters.disbelieved += 1;
            return;
        }
        ctx.counters.disbelieved += self.strip_foreign_originators(&mut hello, info.originator);
        let longest = belief::HELLO_INTERVAL_MAX.max(ctx.hello_timing(interface).interval);
        hello.validity = belief::bounded(hello.validity, hello.interval, longest);
        let own = self.nhdp.interface_addresses(interface);
        let Ok(metric_out) = info.metric_out(own) else {
            ctx.counters.invalid += 1;
            return;
        };
        if metric_out.is_none() {
            // A link without L_out_metric must not be symmetric (RFC 7181, section 17.2).
            hello.refuse_link(own);
        }
        self.nhdp_touched = true;
        match self.nhdp.process(ctx.now, interface, source, &hello) {
            Ok(link) => {
                ctx.counters.hellos_received += 1;
                self.dirty |= info.apply(ctx.now, &mut self.nhdp, link, metric_out);
            }
            Err(Rejected::OwnAddress(_)) => {
                ctx.counters.invalid += 1;
                ctx.counters.spoofed += 1;
            }
            Err(Rejected::UnknownInterface | Rejected::TooManyLinks) => {}
        }
    }

    /// Returns whether a HELLO from `source` claims addresses of a symmetric neighbour that has not announced `source`.
    /// A router announces all its addresses on each interface (RFC 6130, section 11.1).
    fn is_of_another(&self, source: IpAddr, hello: &Hello, originator: Option<IpAddr>) -> bool {
        let claims = |neighbour: &OlsrNeighbour| {
            let same = originator.is_some() && neighbour.ext.originator == originator;
            let mut addresses = hello.local_addresses();
            same || addresses.any(|address| {
                let theirs = neighbour.ext.originator == Some(address);
                !theirs && neighbour.addresses.contains(&address)
            })
        };
        self.nhdp.neighbours().any(|(id, neighbour)| {
            neighbour.symmetric && claims(neighbour) && !self.speaks_for(id, neighbour, source)
        })
    }

    /// Returns whether a neighbour sends from `source`, on any interface.
    fn speaks_for(&self, id: NeighbourId, neighbour: &OlsrNeighbour, source: IpAddr) -> bool {
        let mut links = self.nhdp.links();
        neighbour.addresses.contains(&source)
            || links.any(|(_, link)| link.neighbour == id && link.source == source)
    }

    /// Removes other routers' originators from the addresses that a HELLO claims for its sender. Returns how many.
    fn strip_foreign_originators(&self, hello: &mut Hello, originator: Option<IpAddr>) -> u64 {
        let before = hello.local_addresses().count();
        let neighbours = || self.nhdp.neighbours().filter(|(_, one)| one.symmetric);
        let is_own = |address: &IpAddr| {
            let neighbours = &mut neighbours();
            originator == Some(*address)
                || !self.topology.contains(*address)
                    && !neighbours.any(|(_, one)| one.ext.originator == Some(*address))
        };
        hello.this_interface.retain(is_own);
        hello.other_interfaces.retain(is_own);
        (before - hello.local_addresses().count()) as u64
    }

    /// Returns whether an address is the originator of a symmetric neighbour.
    pub(crate) fn is_neighbour(&self, originator: IpAddr) -> bool {
        let mut neighbours = self.nhdp.neighbours();
        neighbours.any(|(_, one)| one.symmetric && one.ext.originator == Some(originator))
    }

    /// Returns whether the neighbour with this originator, of the other family if `other_family`, sends from `source`.
    pub(crate) fn is_from(&self, originator: IpAddr, source: IpAddr, other_family: bool) -> bool {
        self.nhdp.neighbours().any(|(id, neighbour)| {
            let ext = &neighbour.ext;
            let own = if other_family {
                ext.other_originator
            } else {
                ext.originator
            };
            own == Some(originator) && self.speaks_for(id, neighbour, source)
        })
    }

    /// Returns whether a symmetric neighbour with this originator announces a link with the neighbour that sends from
    /// `source`.
    pub(crate) fn is_heard_by(&self, originator: IpAddr, source: IpAddr) -> bool {
        let mut neighbours = self.symmetric_neighbours();
        let sender = neighbours.find(|(id, one)| self.speaks_for(*id, one, source));
        let Some((_, sender)) = sender else {
            return false;
        };
        let mut neighbours = self.symmetric_neighbours();
        let theirs = neighbours.find(|(_, one)| one.ext.originator == Some(originator));
        theirs.is_some_and(|(id, _)| {
            let mut names = sender.addresses.iter().chain(&sender.ext.originator);
            names.any(|name| {
                symmetric_links(&self.nhdp, id).any(|link| link.two_hops.contains_key(name))
            })
        })
    }

    /// Whether an address is partially owned by this router, former originators aside (RFC 7181, section 12.2).
    pub(crate) fn owns(&self, config: &Config, address: IpAddr) -> bool {
        let host = Prefix::host(address);
        let mut attached = config.attached.iter();
        address == self.originator
            || self.nhdp.is_own(address)
            || attached.any(|network| network.prefix.canonical() == host)
    }

    /// Processes a TC (RFC 7181, section 16.3).
    pub(crate) fn process_tc(&mut self, ctx: &mut Context, mut tc: Tc, source: IpAddr) {
        if !self.admits(ctx, &tc) {
            ctx.counters.over_limit += 1;
            return;
        }
        let longest = belief::TC_INTERVAL_MAX.max(ctx.config.timing.tc_interval);
        tc.validity = belief::bounded(tc.validity, tc.interval, longest);
        let first_hand = self.is_from(tc.originator, source, false);
        match self
            .topology
            .process(ctx.now, &tc, source, first_hand, &ctx.config.limits)
        {
            Outcome::Processed => ctx.counters.tcs_received += 1,
            Outcome::Stale => ctx.counters.stale += 1,
            Outcome::Disbelieved => ctx.counters.disbelieved += 1,
            Outcome::OverLimit => ctx.counters.over_limit += 1,
        }
    }

    /// Makes space for a TC. Returns whether its originator may be in the topology.
    fn admits(&mut self, ctx: &Context, tc: &Tc) -> bool {
        let (nhdp, routes) = (&self.nhdp, &self.routes);
        let standing = |originator: IpAddr| match routes.get(&Prefix::host(originator)) {
            _ if nhdp.is_trusted(originator) => Standing::Trusted(originator),
            Some(route) => Standing::Via(route.next_originator),
            None => Standing::Orphan,
        };
        let limits = &ctx.config.limits;
        self.gate
            .admit(ctx.now, tc, &mut self.topology, limits, standing)
    }

    /// Handles a message with this router's originator; `ansn` is set if it is a TC.
    pub(crate) fn own_message_heard(
        &mut self,
        ctx: &mut Context,
        interface: InterfaceId,
        source: IpAddr,
        seq: u16,
        ansn: Option<u16>,
    ) {
        let judgement = self.own.judge(ctx.now, seq, ansn);
        if judgement == OwnMessage::Duplicate {
            ctx.counters.spoofed += 1;
            let originator = self.originator;
            ctx.events.push_back(Event::DuplicateOriginator {
                originator,
                interface,
                source,
            });
        }
        if matches!(judgement, OwnMessage::Duplicate | OwnMessage::Predecessor) {
            self.trigger_tc(ctx);
        }
    }

    /// Whether the neighbour that sends from `source` selected this router as flooding MPR; `None` when it
    /// is no symmetric neighbour.
    pub(crate) fn is_flooding_selector(
        &self,
        interface: InterfaceId,
        source: IpAddr,
    ) -> Option<bool> {
        let link = self.nhdp.link(self.nhdp.find_link(interface, source)?)?;
        link.is_symmetric().then_some(link.ext.selector)
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

    /// The HELLO that is due on an interface, encoded.
    pub(crate) fn due_hello(
        &mut self,
        ctx: &mut Context,
        interface: InterfaceId,
    ) -> Option<Vec<u8>> {
        let schedule = self.hellos.get(&interface)?;
        if schedule.timer.next() > ctx.now {
            return None;
        }
        let hello = self.hello(ctx, interface);
        let once = self.nhdp.heard_once();
        let schedule = self.hellos.get_mut(&interface)?;
        let pace = ctx.hello_pace(interface);
        schedule.timer.sent(ctx.now, &pace, ctx.rng);
        let (limit, max_pieces) = (message_limit(ctx.config), pace.messages_per_interval());
        let piece = schedule
            .refresh
            .encode(ctx.now, hello, &once, limit, max_pieces)?;
        let Piece { octets, pieces } = piece;
        if pieces > 1 {
            let share = (pace.interval - pace.periodic_jitter) / (pieces as u32);
            schedule.timer.plan(ctx.now + share);
        }
        ctx.counters.hellos_sent += 1;
        Some(octets)
    }

    fn hello(&self, ctx: &Context, interface: InterfaceId) -> Message {
        let HelloTiming { interval, validity } = ctx.hello_timing(interface);
        let (nhdp, metric) = (&self.nhdp, ctx.config.link_metric);
        let mut hello = nhdp.hello(
            interface,
            self.family,
            interval,
            validity,
            |link, neighbour, entry| decorate(nhdp, metric, link, neighbour, entry),
        );
        hello.originator = Some(self.originator);
        hello.tlvs.push(willingness_tlv(ctx.config));
        let mac = ctx.hardware_addresses.get(&interface);
        hello.tlvs.extend(mac.map(|mac| mac_tlv(*mac)));
        hello
    }

    /// The TC messages that are due (RFC 7181, section 16.2); none when there is nothing to advertise.
    pub(crate) fn due_tc(&mut self, ctx: &mut Context) -> Vec<Vec<u8>> {
        if self.tc_timer.next() > ctx.now || self.hellos.is_empty() {
            return Vec::new();
        }
        let content = self.content(ctx.config);
        if content != self.advertised {
            self.own.raise_ansn();
            self.advertised = content;
        }
        if !self.advertised.is_empty() {
            self.empty_tcs_until = ctx.now + ctx.config.timing.tc_validity;
        } else if ctx.now >= self.empty_tcs_until {
            self.tc_timer.skip(ctx.now, &tc_pace(ctx.config), ctx.rng);
            return Vec::new();
        }
        self.tc_timer.sent(ctx.now, &tc_pace(ctx.config), ctx.rng);
        ctx.counters.tcs_sent += 1;
        self.encode_tc(ctx.config)
    }

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

    fn own_address_used(
        &mut self,
        ctx: &mut Context,
        interface: InterfaceId,
        source: IpAddr,
        originator: Option<IpAddr>,
    ) {
        ctx.counters.invalid += 1;
        ctx.counters.spoofed += u64::from(!self.nhdp.is_local(source));
        let foreign = originator == Some(self.originator) && !self.nhdp.is_local(source);
        if foreign && self.own.reactions.start(ctx.now) {
            let originator = self.originator;
            ctx.events.push_back(Event::DuplicateOriginator {
                originator,
                interface,
                source,
            });
        }
    }

    fn settle_neighbourhood(&mut self, ctx: &mut Context, changes: &Changes) {
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
        if self.content(ctx.config) != self.advertised {
            self.trigger_tc(ctx);
        }
        self.publish(ctx);
        self.routing.request(ctx.now);
    }

    /// Triggers HELLOs on those interfaces to which the change matters (RFC 6130, section 13).
    fn trigger_hellos(&mut self, ctx: &mut Context, matters: impl Fn(InterfaceId) -> bool) {
        for (interface, schedule) in &mut self.hellos {
            if matters(*interface) {
                let pace = ctx.hello_pace(*interface);
                schedule.timer.trigger(ctx.now, &pace, ctx.rng);
            }
        }
    }

    fn trigger_tc(&mut self, ctx: &mut Context) {
        self.tc_timer
            .trigger(ctx.now, &tc_pace(ctx.config), ctx.rng);
    }

    /// Selects flooding and routing MPRs and ends the selector state of what
    /// is not symmetric (RFC 7181, sections 17.2, 17.3 and 18).
    fn select_mprs(&mut self, metric: Metric) -> MprChanges {
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
            let told = link.is_symmetric() && changed.contains(&link.neighbour);
            if told || is_mpr != was_mpr {
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

    fn symmetric_neighbours(&self) -> impl Iterator<Item = (NeighbourId, &OlsrNeighbour)> {
        self.nhdp
            .neighbours()
            .filter(|(_, neighbour)| neighbour.symmetric && neighbour.ext.originator.is_some())
    }

    /// The 2-hop addresses that a neighbour offers on any link, each with its least metric.
    fn two_hops(
        &self,
        id: NeighbourId,
        metric: impl Fn(&crate::extension::TwoHopExt) -> Option<Metric>,
    ) -> BTreeMap<IpAddr, Metric> {
        let mut two_hops: BTreeMap<IpAddr, Metric> = BTreeMap::new();
        for (address, two_hop) in symmetric_links(&self.nhdp, id).flat_map(|link| &link.two_hops) {
            if let Some(metric) = metric(&two_hop.ext) {
                let least = two_hops.entry(*address).or_insert(metric);
                *least = metric.min(*least);
            }
        }
        two_hops
    }

    /// What a TC has to advertise (RFC 7181, sections 16.1 and 17.3): all
    /// neighbours if that is wanted and fits into a packet, or selectors alone.
    fn content(&self, config: &Config) -> Content {
        // Neighbours expect a router that advertises them to forward to them.
        let willing = config.routing_willingness != willingness::NEVER;
        if config.advertise_all && willing {
            let mut content = self.content_of(config, |_| true);
            content.all = true;
            if content.fits(self.originator, message_limit(config)) {
                return content;
            }
        }
        self.content_of(config, |neighbour| neighbour.ext.selector)
    }

    fn content_of(&self, config: &Config, advertised: impl Fn(&OlsrNeighbour) -> bool) -> Content {
        let mut content = Content::default();
        for (id, neighbour) in self
            .symmetric_neighbours()
            .filter(|(_, neighbour)| advertised(neighbour))
        {
            let metrics = neighbour_metrics(&self.nhdp, id, config.link_metric);
            if let Some(metric) = metrics.metric_out {
                let addresses = neighbour.addresses.iter().chain(&neighbour.ext.originator);
                content.neighbours.extend(addresses.filter_map(|address| {
                    let originator = neighbour.ext.originator == Some(*address);
                    let routable = is_routable(*address);
                    (originator || routable).then_some((
                        *address,
                        NeighbourAddress {
                            originator,
                            routable,
                            metric,
                            metric_in: metrics.metric_in,
                        },
                    ))
                }));
            }
        }
        let attached = config
            .attached
            .iter()
            .filter(|attached| Family::of(attached.prefix.addr) == self.family);
        content.attached.extend(attached.map(|attached| {
            let network = AttachedNetwork {
                distance: attached.distance,
                metric: attached.metric,
            };
            (attached.prefix.canonical(), network)
        }));
        content
    }

    fn encode_tc(&mut self, config: &Config) -> Vec<Vec<u8>> {
        let times = [config.timing.tc_interval, config.timing.tc_validity];
        let ansn = self.own.ansn();
        let own = &mut self.own;
        let messages =
            self.advertised
                .encode(self.originator, ansn, times, message_limit(config), || {
                    own.next_seq()
                });
        // A TC fails to encode only when it exceeds 64 KiB, and those are cut to a packet's size.
        messages.unwrap_or_default()
    }

    /// Reports the differences of the link and neighbour sets as events.
    fn publish(&mut self, ctx: &mut Context) {
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

    fn calculate_routes(&mut self, ctx: &mut Context) {
        ctx.counters.route_calculations += 1;
        let neighbours = self.first_hops(ctx.config.link_metric);
        let witnesses = Witnesses::new(&self.nhdp, &self.topology);
        let network = Network {
            originator: self.originator,
            neighbours: &neighbours,
            topology: &self.topology,
            witnesses: &witnesses,
            accept: &ctx.config.accept,
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

    /// Sends the own TC again so that a router that has just appeared need not
    /// wait for the next one. The delay lets MPR selection settle first.
    fn serve_newcomers(&mut self, ctx: &mut Context) {
        let settling = 2 * ctx.config.timing.hello_min_interval;
        let wanted = ctx.now + settling + jitter(settling, ctx.rng);
        let allowed = self
            .newcomer_tc
            .map_or(Time::ZERO, |last| last + NEWCOMER_INTERVAL);
        let pending = self.newcomer_tc.filter(|last| *last > ctx.now);
        let at = pending.map_or(wanted.max(allowed), |pending| pending.max(wanted));
        self.newcomer_tc = Some(at);
        self.tc_timer.plan(at);
    }

    fn first_hops(&self, default: Metric) -> Vec<FirstHop> {
        let hops = self.symmetric_neighbours().filter_map(|(id, neighbour)| {
            let links = symmetric_links(&self.nhdp, id)
                .filter_map(|link| Some((link_metric_out(link, default)?, link)));
            let (metric, link) =
                links.min_by_key(|(metric, link)| (*metric, link.interface, link.source))?;
            Some(FirstHop {
                originator: neighbour.ext.originator?,
                metric,
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

/// The RFC 5444 packet header with a sequence number.
const PACKET_OVERHEAD: usize = 3;

fn params(config: &Config) -> Params {
    Params {
        hold_time: config.timing.hello_validity,
        max_links: config.limits.links,
        max_two_hops: config.limits.two_hops,
    }
}

/// The most octets of a message that shares a packet with others.
fn message_limit(config: &Config) -> usize {
    config.packet_size.saturating_sub(PACKET_OVERHEAD)
}

impl Context<'_> {
    fn hello_timing(&self, interface: InterfaceId) -> HelloTiming {
        let own = self.hello_timings.get(&interface).copied();
        own.unwrap_or_else(|| self.config.hello_timing())
    }

    fn hello_pace(&self, interface: InterfaceId) -> Pace {
        let interval = self.hello_timing(interface).interval;
        pace(self.config, interval, self.config.timing.hello_min_interval)
    }
}

fn tc_pace(config: &Config) -> Pace {
    pace(
        config,
        config.timing.tc_interval,
        config.timing.tc_min_interval,
    )
}

fn pace(config: &Config, interval: Duration, min_interval: Duration) -> Pace {
    let timing = &config.timing;
    // RFC 6130, section 5.3.1, and RFC 7181, section 5.4.3: the minimum is not the longer one.
    let min_interval = min_interval.min(interval);
    let share = interval / timing.periodic_jitter_divisor.max(2);
    let periodic_jitter = if min_interval.is_zero() {
        share
    } else {
        share.min(min_interval / 2)
    };
    Pace {
        interval,
        min_interval,
        periodic_jitter,
        triggered_jitter: timing.triggered_jitter,
    }
}

fn first_numbers(ctx: &mut Context) -> OwnNumbers {
    let [ansn, seq] = match ctx.config.first_sequence_number {
        Some(first) => [first; 2],
        None => [ctx.rng.u16(..), ctx.rng.u16(..)],
    };
    OwnNumbers::new(ctx.now, ansn, seq)
}
