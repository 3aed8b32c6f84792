//! The state that the management interfaces show: one view of the router and of the kernel, with tables for lookups in
//! it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{
    Attached, AttachedView, Counters, EdgeView, Family, InterfaceId, LinkView, Metric,
    NeighbourView, NodeView, Prefix, Refusal, RouteView, Router, Time, TwoHopView,
};

use crate::config::Config;
use crate::fib::Fib;
use crate::manet::{name, Interface, Manet};
use crate::nl80211::{Entry, Radio, Station};
use crate::signer::Signer;

/// A station of the link layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StationView {
    /// Interface to which the station belongs.
    pub interface: InterfaceId,
    /// The station as its driver reports it.
    pub station: Station,
    /// Whether it is believed to be in reach.
    pub reachable: bool,
    /// The metric of the link from it.
    pub metric: Option<Metric>,
}

/// The state at one moment.
#[derive(Clone, Debug)]
pub struct State {
    /// The moment.
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
    /// The local attached network set: what this router announces.
    pub local_attached: Vec<Attached>,
    /// Routing sets.
    pub routes: Vec<RouteView>,
    /// Destinations whose route the kernel has.
    pub installed: BTreeSet<Prefix>,
    /// Stations of the link layer.
    pub stations: Vec<StationView>,
    /// Counters of the router.
    pub counters: Counters,
    /// Recent refusals.
    pub refusals: Vec<Refusal>,
    /// Addresses of trusted routers, which keep their place when a set is full.
    pub trusted: Vec<IpAddr>,
    /// Whether this router's messages are signed: `connected`, `away` (nothing is sent) or `off`.
    pub signer: &'static str,
    /// Lookup tables, built when they are first needed.
    pub index: OnceCell<Index>,
}

impl State {
    /// Takes a view of a router, its link layer and its kernel routes.
    pub fn observe(
        now: Time,
        router: &Router,
        radio: Option<&Radio>,
        fib: &Fib,
        config: &Config,
        manet: &Manet,
        signer: Option<&Signer>,
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
            local_attached: router.config().attached.clone(),
            routes,
            installed,
            stations: radio.map(stations).unwrap_or_default(),
            counters: router.counters(),
            refusals: router.refusals(now),
            trusted: router.trusted().iter().copied().collect(),
            signer: signer.map_or("off", Signer::standing),
            index: OnceCell::new(),
        }
    }

    /// Returns the lookup tables.
    pub fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(self))
    }

    /// Returns the name of an interface.
    pub fn name(&self, interface: InterfaceId) -> String {
        name(&self.names, interface)
    }

    /// Returns this router's originator of a family.
    pub fn originator(&self, family: Family) -> Option<IpAddr> {
        self.originators
            .iter()
            .map(|(address, _)| *address)
            .find(|address| Family::of(*address) == family)
    }

    /// Returns the originator in the other family of the router that has `originator`, if it is known.
    pub fn dualstack(&self, originator: IpAddr) -> Option<IpAddr> {
        self.index().dualstack.get(&originator).copied()
    }

    /// Returns the link of the other family to the same router over the same interface.
    pub fn other_family(&self, link: &LinkView) -> Option<&LinkView> {
        let other = self.dualstack(link.originator?)?;
        self.links
            .iter()
            .find(|known| known.interface == link.interface && known.originator == Some(other))
    }

    /// Returns the time left until `end`; zero if it has passed.
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

/// A router of the mesh in olsrd2's table of nodes.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its originator.
    pub originator: IpAddr,
    /// Its ANSN; 0 if no TC of it has arrived.
    pub ansn: u16,
    /// When the entry expires.
    pub expires: Time,
    /// Whether it is known only from what other routers announce.
    pub is_virtual: bool,
}

/// Lookup tables of a view.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Metrics of edges.
    pub metrics: BTreeMap<(IpAddr, IpAddr), u32>,
    /// The last edge of the path to each router: the router before it, and it.
    pub last_hops: BTreeSet<(IpAddr, IpAddr)>,
    /// The originator in the other family, by originator.
    pub dualstack: BTreeMap<IpAddr, IpAddr>,
    /// Symmetric neighbours, by originator.
    pub neighbours: BTreeSet<IpAddr>,
    /// Routers as the table of nodes shows them.
    pub nodes: Vec<Node>,
    /// All routers except this one, as the graph of a family shows them.
    pub remote: BTreeMap<Family, Vec<IpAddr>>,
}

impl Index {
    pub(super) fn new(state: &State) -> Self {
        let symmetric = || state.neighbours.iter().filter(|known| known.symmetric);
        let originators = |known: &NeighbourView| known.originator;
        let metrics = state.edges.iter();
        let hops = state.routes.iter().filter(|route| route.hops > 1);
        let hosts = hops.filter(|route| route.destination.is_host());
        Self {
            metrics: metrics
                .map(|edge| ((edge.from, edge.to), edge.metric.get()))
                .collect(),
            last_hops: hosts
                .map(|route| (route.last_originator, route.destination.addr))
                .collect(),
            dualstack: dualstack(state),
            neighbours: symmetric().filter_map(originators).collect(),
            nodes: nodes(state),
            remote: Family::ALL
                .map(|family| (family, remote(state, family)))
                .into(),
        }
    }
}

/// Returns the originators in the other family, by originator. The first neighbour that has an originator decides;
/// those of this router are known.
fn dualstack(state: &State) -> BTreeMap<IpAddr, IpAddr> {
    let mut found = BTreeMap::new();
    for known in &state.neighbours {
        if let Some(originator) = known.originator {
            found.entry(originator).or_insert(known.other_originator);
        }
    }
    let mut found: BTreeMap<_, _> = found
        .into_iter()
        .filter_map(|(originator, other)| Some((originator, other?)))
        .collect();
    if let [(first, _), (second, _)] = state.originators[..] {
        found.extend([(first, second), (second, first)]);
    }
    found
}

fn nodes(state: &State) -> Vec<Node> {
    let mut nodes: BTreeMap<IpAddr, Node> = BTreeMap::new();
    for node in &state.nodes {
        let of_node = Node {
            originator: node.originator,
            ansn: node.ansn,
            expires: node.expires,
            is_virtual: false,
        };
        nodes.insert(node.originator, of_node);
    }
    for edge in state.edges.iter().filter(|edge| edge.to_originator) {
        nodes.entry(edge.to).or_insert(Node {
            originator: edge.to,
            ansn: 0,
            expires: edge.expires,
            is_virtual: true,
        });
    }
    nodes.into_values().collect()
}

fn remote(state: &State, family: Family) -> Vec<IpAddr> {
    let symmetric = state.neighbours.iter().filter(|known| known.symmetric);
    let neighbours = symmetric.filter_map(|known| known.originator);
    let edges = state.edges.iter().filter(|edge| edge.to_originator);
    let own = state.originator(family);
    let all: BTreeSet<IpAddr> = neighbours
        .chain(edges.flat_map(|edge| [edge.from, edge.to]))
        .filter(|address| Family::of(*address) == family && Some(*address) != own)
        .collect();
    all.into_iter().collect()
}
