//! The router: both families, all interfaces, all input and output.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use nhdp::{jitter, Family, Hello, InterfaceId, Time};
use rfc5444::{forward_copy, iana, last_hop_copy, MessageHeader, Metric, PacketView, RawMessage};

use crate::config::{Config, HelloTiming};
use crate::duplicate::{DuplicateSet, MessageKey, Sender};
use crate::event::{Counters, Event, InterfaceEvent, Transmit};
use crate::hello::HelloInfo;
use crate::instance::{Context, Instance};
use crate::outbox::Outbox;
use crate::rate::RateLimiter;
use crate::refusal::{Refusal, Refusals};
use crate::tc::Tc;
use crate::view::{
    AttachedView, EdgeView, InterfaceView, LinkView, NeighbourView, NodeView, RouteView, TwoHopView,
};

/// Largest number of interfaces. The received sets have one bit for each.
const MAX_INTERFACES: u32 = u64::BITS;

/// An OLSRv2 router.
///
/// After each call that takes `now`, drain [`Router::poll_transmit`] and
/// [`Router::poll_event`] and set a timer for [`Router::poll_timeout`].
/// `now` must not go back.
#[derive(Debug)]
pub struct Router {
    config: Config,
    rng: fastrand::Rng,
    /// Secret, so that nobody can make two messages with the same digest.
    digest_key: u64,
    /// At most one for each family, IPv4 first.
    instances: Vec<Instance>,
    /// The originator set: O_time by O_orig_addr (RFC 7181, section 7.1).
    old_originators: BTreeMap<IpAddr, Time>,
    interfaces: BTreeMap<InterfaceId, Interface>,
    /// Interfaces whose HELLO timing differs from the configuration.
    hello_timings: BTreeMap<InterfaceId, HelloTiming>,
    /// The hardware addresses that HELLOs announce.
    hardware_addresses: BTreeMap<InterfaceId, [u8; 6]>,
    duplicates: DuplicateSet,
    limiter: RateLimiter,
    /// Addresses that keep their place when a set is full.
    trusted: BTreeSet<IpAddr>,
    refusals: Refusals,
    counters: Counters,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
}

/// An interface that is up.
#[derive(Debug)]
struct Interface {
    /// Its bit in the received sets.
    slot: u32,
    addresses: Vec<IpAddr>,
    outboxes: BTreeMap<Family, Outbox>,
    /// The sequence number of the last packet.
    packet_seq: u16,
}

impl Router {
    /// Creates a router without interfaces. `seed` feeds jitter and, unless the configuration gives one, the first
    /// sequence numbers.
    pub fn new(config: Config, now: Time, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut router = Self {
            config,
            digest_key: rng.u64(..) | 1,
            rng,
            instances: Vec::new(),
            old_originators: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            hello_timings: BTreeMap::new(),
            hardware_addresses: BTreeMap::new(),
            duplicates: DuplicateSet::default(),
            limiter: RateLimiter::default(),
            trusted: BTreeSet::new(),
            refusals: Refusals::default(),
            counters: Counters::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        };
        router.restart_instances(now);
        router
    }

    /// Processes a UDP payload that arrived on `interface` from `source`. No content can make it panic.
    pub fn handle_packet(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        bytes: &[u8],
    ) {
        self.advance(now);
        self.counters.packets_received += 1;
        let before = self.counters;
        if self.interfaces.contains_key(&interface) {
            self.handle_messages(now, interface, source, bytes);
        }
        self.settle(now);
        let origin = (interface, source);
        self.refusals.note(now, origin, &before, &self.counters);
    }

    /// Processes a change of an interface.
    pub fn handle_interface(&mut self, now: Time, event: InterfaceEvent) {
        self.advance(now);
        match event {
            InterfaceEvent::Up {
                interface,
                addresses,
            }
            | InterfaceEvent::Addresses {
                interface,
                addresses,
            } => {
                self.set_interface(now, interface, addresses);
            }
            InterfaceEvent::Down { interface } => self.remove_interface(now, interface),
            InterfaceEvent::NeighbourLost { interface, address } => {
                for instance in &mut self.instances {
                    instance.nhdp.neighbour_lost(now, interface, address);
                }
            }
        }
        self.settle(now);
    }

    /// Sets the addresses of trusted routers, which keep their place when a set is full. They are not believed more.
    pub fn set_trusted(&mut self, addresses: BTreeSet<IpAddr>) {
        for instance in &mut self.instances {
            instance.nhdp.set_trusted(addresses.clone());
        }
        self.trusted = addresses;
    }

    /// Returns the addresses that keep their place when a set is full.
    pub fn trusted(&self) -> &BTreeSet<IpAddr> {
        &self.trusted
    }

    /// Changes the configuration in place, the originators among it.
    pub fn reconfigure(&mut self, now: Time, config: Config) {
        self.advance(now);
        self.config = config;
        self.restart_instances(now);
        let (instances, mut ctx) = self.parts(now);
        instances
            .iter_mut()
            .for_each(|instance| instance.reconfigure(&mut ctx));
        self.settle(now);
    }

    /// Sets HELLO_INTERVAL and H_HOLD_TIME of an interface, up or not (RFC
    /// 6130, section 5.3); `None` goes back to the configured ones.
    pub fn set_hello_timing(
        &mut self,
        now: Time,
        interface: InterfaceId,
        timing: Option<HelloTiming>,
    ) {
        let old = match timing {
            Some(timing) => self.hello_timings.insert(interface, timing),
            None => self.hello_timings.remove(&interface),
        };
        if old == timing {
            return;
        }
        self.advance(now);
        let (instances, mut ctx) = self.parts(now);
        for instance in instances {
            instance.hello_timing_changed(&mut ctx, interface);
        }
        self.settle(now);
    }

    /// Sets the hardware address that the HELLOs on an interface announce from the next one on; `None` for none.
    /// Neighbours recognise this router's station of their link layer by it.
    pub fn set_hardware_address(&mut self, interface: InterfaceId, mac: Option<[u8; 6]>) {
        match mac {
            Some(mac) => self.hardware_addresses.insert(interface, mac),
            None => self.hardware_addresses.remove(&interface),
        };
    }

    /// Sets the incoming metric of the link to the neighbour that sends from
    /// `address`, as measured (see [`Airtime`](crate::Airtime)); `None` goes back to the
    /// configured one. Says whether there is such a link.
    pub fn set_link_metric(
        &mut self,
        now: Time,
        interface: InterfaceId,
        address: IpAddr,
        metric: Option<Metric>,
    ) -> bool {
        self.advance(now);
        let mut instances = self.instances.iter_mut();
        let found = instances.any(|instance| instance.set_link_metric(interface, address, metric));
        self.settle(now);
        found
    }

    /// Applies a link quality process's result to the link from `address` (RFC 6130, section 14). Returns whether there
    /// is one.
    pub fn set_link_usable(
        &mut self,
        now: Time,
        interface: InterfaceId,
        address: IpAddr,
        usable: bool,
    ) -> bool {
        self.advance(now);
        let mut instances = self.instances.iter_mut();
        let found =
            instances.any(|instance| instance.set_link_usable(now, interface, address, usable));
        self.settle(now);
        found
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now);
        self.settle(now);
    }

    /// When to call [`Router::handle_timeout`] next; `None` without interfaces or originators.
    pub fn poll_timeout(&self) -> Option<Time> {
        let instances = self.instances.iter().filter_map(Instance::next_timeout);
        let outboxes = self
            .interfaces
            .values()
            .flat_map(|interface| interface.outboxes.values());
        instances.chain(outboxes.filter_map(Outbox::due)).min()
    }

    /// The next packet to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next change.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

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

    fn views<'a, V, I: Iterator<Item = V>>(&'a self, views: impl Fn(&'a Instance) -> I) -> Vec<V> {
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

    fn parts(&mut self, now: Time) -> (&mut Vec<Instance>, Context<'_>) {
        let ctx = Context {
            now,
            config: &self.config,
            hello_timings: &self.hello_timings,
            hardware_addresses: &self.hardware_addresses,
            rng: &mut self.rng,
            counters: &mut self.counters,
            events: &mut self.events,
        };
        (&mut self.instances, ctx)
    }

    /// Starts and ends instances so that each family with an originator has one, and updates their originators. Former
    /// ones stay in the originator set (RFC 7181, section 7.1).
    fn restart_instances(&mut self, now: Time) {
        let mut old = core::mem::take(&mut self.instances);
        self.old_originators.retain(|_, expires| *expires > now);
        let expires = now + self.config.timing.duplicate_hold_time;
        for family in Family::ALL {
            let position = old.iter().position(|instance| instance.family == family);
            let before = position.map(|index| old.remove(index));
            let former = before.as_ref().map(|instance| instance.originator);
            let originator = self.config.originator(family);
            let is_kept = former == originator;
            match (before, originator) {
                (Some(instance), Some(_)) if is_kept => self.instances.push(instance),
                (Some(mut instance), Some(originator)) => {
                    let interfaces = self.interface_addresses();
                    instance.rename(&mut self.parts(now).1, originator, &interfaces);
                    self.instances.push(instance);
                }
                (None, Some(originator)) => {
                    let instance = self.new_instance(now, originator);
                    self.instances.push(instance);
                }
                (Some(instance), None) => instance.retire(&mut self.events),
                (None, None) => {}
            }
            if !is_kept {
                self.old_originators
                    .extend(former.map(|address| (address, expires)));
            }
        }
    }

    fn interface_addresses(&self) -> Vec<(InterfaceId, Vec<IpAddr>)> {
        let interfaces = self.interfaces.iter();
        interfaces
            .map(|(id, own)| (*id, own.addresses.clone()))
            .collect()
    }

    fn new_instance(&mut self, now: Time, originator: IpAddr) -> Instance {
        let interfaces = self.interface_addresses();
        let (_, mut ctx) = self.parts(now);
        let mut instance = Instance::new(&mut ctx, originator);
        for (id, addresses) in interfaces {
            instance.set_interface(&mut ctx, id, &addresses);
        }
        instance.nhdp.set_trusted(self.trusted.clone());
        instance
    }

    fn set_interface(&mut self, now: Time, id: InterfaceId, addresses: Vec<IpAddr>) {
        let Some(slot) = self.slot_for(id) else {
            self.counters.over_limit += 1;
            return;
        };
        let (instances, mut ctx) = self.parts(now);
        for instance in instances {
            instance.set_interface(&mut ctx, id, &addresses);
        }
        let packet_seq = self.rng.u16(..);
        let new = Interface {
            slot,
            addresses: Vec::new(),
            outboxes: BTreeMap::new(),
            packet_seq,
        };
        self.interfaces.entry(id).or_insert(new).addresses = addresses;
    }

    /// The slot of an interface, or the lowest free one.
    fn slot_for(&self, id: InterfaceId) -> Option<u32> {
        if let Some(interface) = self.interfaces.get(&id) {
            return Some(interface.slot);
        }
        let is_free = |slot: &u32| {
            self.interfaces
                .values()
                .all(|interface| interface.slot != *slot)
        };
        (0..MAX_INTERFACES).find(is_free)
    }

    fn remove_interface(&mut self, now: Time, id: InterfaceId) {
        self.interfaces.remove(&id);
        let (instances, mut ctx) = self.parts(now);
        for instance in instances {
            instance.remove_interface(&mut ctx, id);
        }
    }

    /// Removes expired tuples before anything else happens at `now`.
    fn advance(&mut self, now: Time) {
        let (instances, mut ctx) = self.parts(now);
        instances
            .iter_mut()
            .for_each(|instance| instance.handle_timeout(&mut ctx));
    }

    /// Processes the changes at `now` and sends what is due.
    fn settle(&mut self, now: Time) {
        let (instances, mut ctx) = self.parts(now);
        instances
            .iter_mut()
            .for_each(|instance| instance.settle(&mut ctx));
        self.originate(now);
        self.transmit_due(now);
    }

    fn handle_messages(&mut self, now: Time, interface: InterfaceId, source: IpAddr, bytes: &[u8]) {
        let Ok(packet) = PacketView::new(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        // One jitter for all messages of a packet keeps them together (RFC 5148, section 5.3).
        let due = now + jitter(self.config.timing.forward_jitter, &mut self.rng);
        for message in packet.messages() {
            match message {
                Err(_) => self.counters.malformed += 1,
                Ok(message) if !self.admits(now, interface, source, &message) => {
                    self.counters.rate_limited += 1;
                }
                Ok(message) if message.header.typ == iana::message::HELLO => {
                    self.handle_hello(now, interface, source, &message);
                }
                Ok(message) => self.handle_flooded(now, interface, source, &message, due),
            }
        }
    }

    /// Returns whether a message is within the budgets of its source.
    fn admits(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        message: &RawMessage,
    ) -> bool {
        let instances = &self.instances;
        self.limiter.admit(
            now,
            (interface, source),
            message.header.typ == iana::message::HELLO,
            self.config.limits.messages_per_second,
            || is_neighbour(instances, interface, source),
        )
    }

    fn handle_hello(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        raw: &RawMessage,
    ) {
        let Ok(message) = raw.decode() else {
            self.counters.malformed += 1;
            return;
        };
        let Ok(hello) = Hello::read(&message) else {
            self.counters.invalid += 1;
            return;
        };
        let Some(source) = hello_source(&hello, source) else {
            self.counters.invalid += 1;
            return;
        };
        let Ok(info) = HelloInfo::read(&message, &hello, source) else {
            self.counters.invalid += 1;
            return;
        };
        if hello
            .local_addresses()
            .chain(info.originator)
            .any(|address| self.is_former_originator(now, address))
        {
            self.counters.invalid += 1;
            return;
        }
        let (instances, mut ctx) = self.parts(now);
        if let Some(instance) = instances
            .iter_mut()
            .find(|instance| instance.family == hello.family)
        {
            instance.process_hello(&mut ctx, interface, source, hello, &info);
        }
    }

    fn is_former_originator(&self, now: Time, address: IpAddr) -> bool {
        let expires = self.old_originators.get(&address);
        expires.is_some_and(|expires| *expires > now)
    }

    /// Handles a message that may be forwarded at `due` (RFC 7181, section 14).
    fn handle_flooded(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        raw: &RawMessage,
        due: Time,
    ) {
        let MessageHeader {
            typ,
            originator: Some(originator),
            seq: Some(seq),
            ..
        } = raw.header
        else {
            self.counters.invalid += 1;
            return;
        };
        if self
            .instances
            .iter()
            .any(|instance| instance.originator == originator)
        {
            return self.handle_own(now, interface, source, originator, seq, raw);
        }
        if self.is_former_originator(now, originator) {
            return;
        }
        let mut instances = self.instances.iter();
        if instances.any(|instance| instance.owns(&self.config, originator)) {
            self.counters.invalid += 1;
            self.counters.spoofed += 1;
            return;
        }
        let is_neighbour = is_neighbour(&self.instances, interface, source);
        let sender = (interface, is_neighbour.then_some(source));
        let key = MessageKey {
            originator,
            seq,
            typ,
            digest: self.digest(raw),
        };
        if !self.duplicates.is_processed(&key) && self.is_disbelieved(now, originator, source, raw)
        {
            self.counters.disbelieved += 1;
            return self.show_originator(now, originator, raw, due);
        }
        let (hold, limit) = (
            self.config.timing.duplicate_hold_time,
            self.config.limits.duplicates,
        );
        let seen = self.duplicates.entry(now, key, sender, hold, limit);
        if core::mem::replace(&mut seen.processed, true) {
            self.counters.duplicates += 1;
            let instances = self.instances.iter_mut();
            instances
                .for_each(|instance| instance.topology.heard_again(now, originator, seq, source));
        } else if typ == iana::message::TC {
            self.handle_tc(now, source, raw);
        }
        // Only messages that may be forwarded count as received or forwarded (RFC 7181, section 14.1).
        if let Some(copy) = forward_copy(raw.octets) {
            if self.may_forward(now, interface, source, key, sender) {
                self.forward(now, raw, copy, due);
            }
        }
    }

    /// Returns whether a message contradicts its claimed originator, which no signature proves (docs/development/adr/0050).
    fn is_disbelieved(
        &self,
        now: Time,
        originator: IpAddr,
        source: IpAddr,
        raw: &RawMessage,
    ) -> bool {
        let any = |is: &dyn Fn(&Instance) -> bool| self.instances.iter().any(is);
        let is_neighbour = any(&|one| one.is_neighbour(originator));
        // olsrd2, but not olsrv2d, sends the TCs of both families in one packet, and names the other family's
        // originator.
        let of_olsrd2 = || !any(&|one| one.topology.tells_all(originator));
        let first_hand = any(&|one| one.is_from(originator, source, false))
            || any(&|one| one.is_from(originator, source, true)) && of_olsrd2();
        let last_hop = raw.header.hop_limit.is_none_or(|limit| limit <= 1);
        let relayed = || !last_hop && any(&|one| one.is_heard_by(originator, source));
        let contested = || any(&|one| one.topology.is_contested(now, originator, source));
        !first_hand && (is_neighbour && !relayed() || last_hop || contested())
    }

    /// Sends a disbelieved message to its alleged originator, a neighbour, which then raises its numbers. With a hop
    /// limit of 1, nobody else believes it.
    fn show_originator(&mut self, now: Time, originator: IpAddr, raw: &RawMessage, due: Time) {
        let mut instances = self.instances.iter_mut();
        if instances.any(|one| one.is_neighbour(originator) && one.shows.start(now)) {
            if let Some(copy) = last_hop_copy(raw.octets) {
                self.forward(now, raw, copy, due);
            }
        }
    }

    /// Hashes the parts of a message that no router changes on the way.
    fn digest(&self, raw: &RawMessage) -> u64 {
        let octets = raw.lasting_octets();
        octets.fold(self.digest_key, |digest, octet| {
            let mixed = (digest ^ u64::from(octet)).wrapping_mul(self.digest_key);
            mixed.rotate_left(29)
        })
    }

    fn handle_own(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        originator: IpAddr,
        seq: u16,
        raw: &RawMessage,
    ) {
        let tc = Some(raw).filter(|raw| raw.header.typ == iana::message::TC);
        let ansn = tc.and_then(|raw| Some(Tc::read(&raw.decode().ok()?).ok()??.ansn));
        let (instances, mut ctx) = self.parts(now);
        if let Some(instance) = instances
            .iter_mut()
            .find(|instance| instance.originator == originator)
        {
            instance.own_message_heard(&mut ctx, interface, source, seq, ansn);
        }
    }

    fn handle_tc(&mut self, now: Time, source: IpAddr, raw: &RawMessage) {
        let Ok(message) = raw.decode() else {
            self.counters.malformed += 1;
            return;
        };
        let tc = match Tc::read(&message) {
            Ok(Some(tc)) => tc,
            Ok(None) => return,
            Err(_) => {
                self.counters.invalid += 1;
                return;
            }
        };
        let (instances, mut ctx) = self.parts(now);
        let family = Family::of(tc.originator);
        if let Some(instance) = instances
            .iter_mut()
            .find(|instance| instance.family == family)
        {
            instance.process_tc(&mut ctx, tc, source);
        }
    }

    /// Returns whether to forward a message now, and records the answer in the sets (RFC 7181, section 14.3).
    ///
    /// The link is that of the IP source. In a dual-stack packet it may have another family than the message.
    fn may_forward(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        key: MessageKey,
        sender: Sender,
    ) -> bool {
        let transport = Family::of(source);
        let instance = self
            .instances
            .iter()
            .find(|instance| instance.family == transport);
        let Some(selector) =
            instance.and_then(|instance| instance.is_flooding_selector(interface, source))
        else {
            return false;
        };
        let Some(slot) = self
            .interfaces
            .get(&interface)
            .map(|interface| interface.slot)
        else {
            return false;
        };
        let (hold, limit) = (
            self.config.timing.duplicate_hold_time,
            self.config.limits.duplicates,
        );
        let seen = self.duplicates.entry(now, key, sender, hold, limit);
        let received = seen.received & (1 << slot) != 0;
        seen.received |= 1 << slot;
        let forward = selector && !received && !seen.forwarded;
        seen.forwarded |= forward;
        forward
    }

    /// Queues a copy of a message on all interfaces of its family.
    fn forward(&mut self, now: Time, raw: &RawMessage, copy: Vec<u8>, due: Time) {
        let family = if raw.header.addr_len == Family::V4.address_length() {
            Family::V4
        } else {
            Family::V6
        };
        for id in self.interfaces_of(family) {
            self.counters.forwarded += 1;
            self.push(id, family, copy.clone(), now, due);
        }
    }

    fn interfaces_of(&self, family: Family) -> Vec<InterfaceId> {
        let instance = self
            .instances
            .iter()
            .find(|instance| instance.family == family);
        instance
            .into_iter()
            .flat_map(Instance::interfaces)
            .collect()
    }

    /// Generates the HELLOs and TCs that are due.
    fn originate(&mut self, now: Time) {
        for index in 0..self.instances.len() {
            let (family, interfaces) = (
                self.instances[index].family,
                self.interfaces_of(self.instances[index].family),
            );
            for id in &interfaces {
                let (instances, mut ctx) = self.parts(now);
                let hello = instances[index].due_hello(&mut ctx, *id);
                hello
                    .into_iter()
                    .for_each(|hello| self.push(*id, family, hello, now, now));
            }
            let (instances, mut ctx) = self.parts(now);
            for tc in instances[index].due_tc(&mut ctx) {
                interfaces
                    .iter()
                    .for_each(|id| self.push(*id, family, tc.clone(), now, now));
            }
        }
    }

    fn push(&mut self, id: InterfaceId, family: Family, message: Vec<u8>, now: Time, due: Time) {
        if let Some(interface) = self.interfaces.get_mut(&id) {
            interface
                .outboxes
                .entry(family)
                .or_default()
                .push(message, now, due);
        }
    }

    fn transmit_due(&mut self, now: Time) {
        for (id, interface) in &mut self.interfaces {
            let Interface {
                outboxes,
                packet_seq,
                ..
            } = interface;
            for (family, outbox) in outboxes {
                for bytes in outbox.take_due(now, self.config.packet_size, packet_seq) {
                    self.counters.packets_sent += 1;
                    self.counters.octets_sent += bytes.len() as u64;
                    self.transmits.push_back(Transmit {
                        interface: *id,
                        family: *family,
                        bytes,
                    });
                }
            }
        }
    }
}

/// Returns whether there is a symmetric link to the interface that sends from `source`.
fn is_neighbour(instances: &[Instance], interface: InterfaceId, source: IpAddr) -> bool {
    let family = Family::of(source);
    let instance = instances.iter().find(|instance| instance.family == family);
    instance.is_some_and(|instance| instance.is_flooding_selector(interface, source).is_some())
}

/// The address to send to when answering a HELLO. A HELLO in a packet of the
/// other family names it itself.
fn hello_source(hello: &Hello, source: IpAddr) -> Option<IpAddr> {
    if Family::of(source) == hello.family {
        Some(source)
    } else {
        hello.this_interface.first().copied()
    }
}
