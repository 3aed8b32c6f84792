//! What the management interfaces show: one view of the router and of the kernel's side.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{
    AttachedView, Counters, EdgeView, Family, InterfaceId, LinkView, Metric, NeighbourView,
    NodeView, Prefix, Refusal, RouteView, Router, Time, TwoHopView,
};

use super::index::Index;
use crate::config::Config;
use crate::fib::Fib;
use crate::manet::Manet;
use crate::nl80211::{Entry, Radio, Station};

/// A MANET interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name in the kernel.
    pub name: String,
    /// Interface index.
    pub index: u32,
    /// Link-layer address.
    pub mac: Option<[u8; 6]>,
    /// The address that IPv4 packets are sent from.
    pub source_v4: Option<IpAddr>,
    /// The address that IPv6 packets are sent from.
    pub source_v6: Option<IpAddr>,
}

/// A station of the link layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StationView {
    /// The interface.
    pub interface: InterfaceId,
    /// As the driver tells it.
    pub station: Station,
    /// Whether it can be reached as far as is known.
    pub reachable: bool,
    /// The metric of the link from it.
    pub metric: Option<Metric>,
}

/// Everything at one moment.
#[derive(Clone, Debug)]
pub struct State {
    /// When.
    pub now: Time,
    /// The configuration in force.
    pub config: Config,
    /// Originators of this router, IPv4 first, each with its ANSN.
    pub originators: Vec<(IpAddr, u16)>,
    /// MANET interfaces that are up.
    pub interfaces: Vec<Interface>,
    /// Names of the interfaces that links and routes may still mention.
    pub names: BTreeMap<u32, String>,
    /// Link sets.
    pub links: Vec<LinkView>,
    /// Neighbour sets.
    pub neighbours: Vec<NeighbourView>,
    /// 2-hop sets.
    pub two_hops: Vec<TwoHopView>,
    /// Advertising remote router sets.
    pub nodes: Vec<NodeView>,
    /// Router topology sets.
    pub edges: Vec<EdgeView>,
    /// Attached network sets.
    pub attached: Vec<AttachedView>,
    /// Routing sets.
    pub routes: Vec<RouteView>,
    /// Destinations whose route the kernel has.
    pub installed: BTreeSet<Prefix>,
    /// What the link layer knows.
    pub stations: Vec<StationView>,
    /// What was counted.
    pub counters: Counters,
    /// What was refused lately.
    pub refusals: Vec<Refusal>,
    /// Whose addresses keep their place when a set is full.
    pub trusted: Vec<IpAddr>,
    /// Made when it is needed.
    pub index: OnceCell<Index>,
}

impl State {
    /// Looks at a router, its link layer and its kernel routes.
    pub fn observe(
        now: Time,
        router: &Router,
        radio: Option<&Radio>,
        fib: &Fib,
        config: &Config,
        manet: &Manet,
    ) -> Self {
        let routes = router.routes();
        let installed = routes
            .iter()
            .map(|route| route.destination)
            .filter(|key| fib.is_installed(key))
            .collect();
        let originators = router.originators();
        Self {
            now,
            config: config.clone(),
            originators: originators
                .iter()
                .map(|key| (*key, router.ansn(*key).unwrap_or(0)))
                .collect(),
            interfaces: manet.interfaces(),
            names: manet.names().clone(),
            links: router.links(),
            neighbours: router.neighbours(),
            two_hops: router.two_hops(),
            nodes: router.nodes(),
            edges: router.edges(),
            attached: router.attached(),
            routes,
            installed,
            stations: radio.map(stations).unwrap_or_default(),
            counters: router.counters(),
            refusals: router.refusals(now),
            trusted: router.trusted().iter().copied().collect(),
            index: OnceCell::new(),
        }
    }

    /// What is looked up in it.
    pub fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(self))
    }

    /// The name of an interface.
    pub fn name(&self, interface: InterfaceId) -> String {
        name(&self.names, interface)
    }

    /// This router's originator of a family.
    pub fn originator(&self, family: Family) -> Option<IpAddr> {
        self.originators
            .iter()
            .map(|(address, _)| *address)
            .find(|address| Family::of(*address) == family)
    }

    /// The other originator of the router that has `originator`, where it is known.
    pub fn dualstack(&self, originator: IpAddr) -> Option<IpAddr> {
        self.index().dualstack.get(&originator).copied()
    }

    /// The link of the other family to the same router over the same interface.
    pub fn other_family(&self, link: &LinkView) -> Option<&LinkView> {
        let other = self.dualstack(link.originator?)?;
        self.links
            .iter()
            .find(|known| known.interface == link.interface && known.originator == Some(other))
    }

    /// The time that is left until `end`; zero when it has passed.
    pub fn left(&self, end: Time) -> Duration {
        end.saturating_sub(self.now)
    }
}

fn stations(radio: &Radio) -> Vec<StationView> {
    let view = |(interface, entry): (u32, &Entry)| StationView {
        interface: InterfaceId(interface),
        station: entry.station,
        reachable: entry.is_there(),
        metric: entry.metric(),
    };
    radio.stations().map(view).collect()
}

/// The name of an interface; after it has gone, the last one it had.
pub fn name(names: &BTreeMap<u32, String>, interface: InterfaceId) -> String {
    names
        .get(&interface.0)
        .cloned()
        .unwrap_or_else(|| format!("if{interface}"))
}
