//! The router: both families, all interfaces, and their timers.

use alloc::vec::Vec;
use core::net::IpAddr;

use nhdp::{InterfaceId, Time};
use rfc5444::Metric;

use crate::config::Config;
use crate::event::{Counters, Event, InterfaceEvent, Transmit};
use crate::view::{
    AttachedView, EdgeView, InterfaceView, LinkView, NeighbourView, NodeView, RouteView, TwoHopView,
};

/// An OLSRv2 router.
///
/// After each call that takes `now`, drain [`Router::poll_transmit`] and
/// [`Router::poll_event`] and set a timer for [`Router::poll_timeout`].
/// `now` must not go back.
pub struct Router {
    config: Config,
}

impl Router {
    /// A router without interfaces. `seed` feeds jitter and, unless the
    /// configuration gives one, the first sequence numbers.
    pub fn new(config: Config, now: Time, seed: u64) -> Self {
        let _ = (now, seed);
        Self { config }
    }

    /// Takes in a UDP payload that came on `interface` from `source`. No content can make it panic.
    pub fn handle_packet(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        bytes: &[u8],
    ) {
        let _ = (now, interface, source, bytes);
        unimplemented!()
    }

    /// Takes in what the kernel says of an interface.
    pub fn handle_interface(&mut self, now: Time, event: InterfaceEvent) {
        let _ = (now, event);
        unimplemented!()
    }

    /// Changes the configuration in place; an originator that changes restarts its family.
    pub fn reconfigure(&mut self, now: Time, config: Config) {
        let _ = (now, config);
        unimplemented!()
    }

    /// Sets the incoming metric of the link to the neighbour that sends from
    /// `address`, as measured (the place of RFC 7779); `None` goes back to the
    /// configured one. Says whether there is such a link.
    pub fn set_link_metric(
        &mut self,
        now: Time,
        interface: InterfaceId,
        address: IpAddr,
        metric: Option<Metric>,
    ) -> bool {
        let _ = (now, interface, address, metric);
        unimplemented!()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
        unimplemented!()
    }

    /// When to call [`Router::handle_timeout`] next; `None` without interfaces or originators.
    pub fn poll_timeout(&self) -> Option<Time> {
        unimplemented!()
    }

    /// The next packet to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        unimplemented!()
    }

    /// The next change.
    pub fn poll_event(&mut self) -> Option<Event> {
        unimplemented!()
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The originators in use, IPv4 first.
    pub fn originators(&self) -> Vec<IpAddr> {
        unimplemented!()
    }

    /// The ANSN of the family of `originator`, if it is one of this router's.
    pub fn ansn(&self, originator: IpAddr) -> Option<u16> {
        let _ = originator;
        unimplemented!()
    }

    /// What was counted since the start.
    pub fn counters(&self) -> Counters {
        unimplemented!()
    }

    /// The interfaces that are up.
    pub fn interfaces(&self) -> Vec<InterfaceView> {
        unimplemented!()
    }

    /// The link sets of all interfaces. `now` decides which timers have run out.
    pub fn links(&self, now: Time) -> Vec<LinkView> {
        let _ = now;
        unimplemented!()
    }

    /// The neighbour sets.
    pub fn neighbours(&self) -> Vec<NeighbourView> {
        unimplemented!()
    }

    /// The 2-hop sets.
    pub fn two_hops(&self) -> Vec<TwoHopView> {
        unimplemented!()
    }

    /// The advertising remote router sets.
    pub fn nodes(&self) -> Vec<NodeView> {
        unimplemented!()
    }

    /// The router topology and routable address topology sets.
    pub fn edges(&self) -> Vec<EdgeView> {
        unimplemented!()
    }

    /// The attached network sets.
    pub fn attached(&self) -> Vec<AttachedView> {
        unimplemented!()
    }

    /// The routing sets.
    pub fn routes(&self) -> Vec<RouteView> {
        unimplemented!()
    }
}
