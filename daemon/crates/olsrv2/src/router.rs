//! The router: both families, all interfaces, all input and output.

mod attached;
mod avoid;
mod failures;
mod flooding;
mod input;
mod interfaces;
mod judge;
mod signing;
mod views;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use icv::Claim;
use nhdp::{Family, InterfaceId, Time};
use rfc5444::Metric;

use crate::config::{Config, HelloTiming};
use crate::duplicate::DuplicateSet;
use crate::event::{Counters, Event, InterfaceEvent, Transmit};
use crate::expected::Expected;
use crate::instance::{Context, Instance};
use crate::outbox::Outbox;
use crate::own_counters::OwnCounters;
use crate::rate::RateLimiter;
use crate::refusal::Refusals;
use crate::speakers::Speakers;

use failures::Failures;
use interfaces::Interface;
use signing::OwnTokens;

pub use judge::Verify;
pub use signing::ToSign;

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
    /// Originators that sign, and whose keys are known.
    speakers: Speakers,
    failures: Failures,
    /// Messages that are verified although there are too many.
    expected: Expected,
    verify: Verify,
    /// Whether own messages are signed, the key that does it, those that wait for it, and the counters that were used.
    signing: bool,
    own_key: Option<[u8; icv::KEY_LENGTH]>,
    to_sign: VecDeque<ToSign>,
    own_counters: OwnCounters,
    own_tokens: OwnTokens,
    refusals: Refusals,
    counters: Counters,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
}

impl Router {
    /// Creates a router without interfaces. `seed` feeds jitter and, unless the configuration gives one, the first
    /// sequence numbers.
    pub fn new(config: Config, now: Time, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let digest_key = rng.u64(..) | 1;
        let mut router = Self {
            config,
            digest_key,
            rng,
            instances: Vec::new(),
            old_originators: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            hello_timings: BTreeMap::new(),
            hardware_addresses: BTreeMap::new(),
            duplicates: DuplicateSet::default(),
            limiter: RateLimiter::default(),
            trusted: BTreeSet::new(),
            speakers: Speakers::default(),
            failures: Failures::new(now, digest_key),
            expected: Expected::new(now),
            own_tokens: OwnTokens::new(digest_key),
            verify: Claim::verify,
            signing: false,
            own_key: None,
            to_sign: VecDeque::new(),
            own_counters: OwnCounters::default(),
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

    fn parts(&mut self, now: Time) -> (&mut Vec<Instance>, Context<'_>) {
        let ctx = Context {
            now,
            config: &self.config,
            hello_timings: &self.hello_timings,
            hardware_addresses: &self.hardware_addresses,
            speakers: &self.speakers,
            own_floor: self.own_counters.floor(),
            signing: self.signing,
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

    /// Removes expired tuples before anything else happens at `now`.
    fn advance(&mut self, now: Time) {
        let memory = 2 * self.config.timing.tc_validity;
        self.own_counters.forget(now, memory);
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
                    .for_each(|hello| self.publish(now, family, &[*id], hello));
            }
            let (instances, mut ctx) = self.parts(now);
            for tc in instances[index].due_tc(&mut ctx) {
                self.publish(now, family, &interfaces, tc);
            }
        }
    }
}
