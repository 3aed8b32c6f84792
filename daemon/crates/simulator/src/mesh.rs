//! The routers, the media between them and the clock.

mod keys;
mod links;
mod sharing;
mod views;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use olsrv2::{Config, Event, Family, InterfaceEvent, InterfaceId, Router, Time};

use keys::Key;

pub use sharing::verifications;

/// The radio interface of each node.
pub const RADIO: InterfaceId = InterfaceId(1);

/// The number of a node, from 0.
pub type NodeId = usize;

/// An interface of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// The node.
    pub node: NodeId,
    /// Its interface.
    pub interface: InterfaceId,
}

/// How packets are delivered.
#[derive(Clone, Debug)]
pub struct Radio {
    /// Probability that a receiver misses a packet, 0 to 1.
    pub loss: f64,
    /// Shortest delay of a packet.
    pub min_delay: Duration,
    /// Longest delay of a packet.
    pub max_delay: Duration,
}

/// The routers of a network in virtual time.
#[derive(Debug)]
pub struct Mesh {
    now: Time,
    config: Config,
    families: Vec<Family>,
    /// How packets are delivered. A change applies to the packets sent after it.
    pub radio: Radio,
    rng: fastrand::Rng,
    nodes: Vec<Node>,
    queue: BinaryHeap<Reverse<Entry>>,
    entries: u64,
    last_route_change: Time,
    /// What was sent since the recording began.
    recorded: Option<Vec<Recorded>>,
}

/// A packet as it was sent.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Who sent it.
    pub from: Port,
    /// Its source address.
    pub source: IpAddr,
    /// Its octets.
    pub bytes: Rc<[u8]>,
}

#[derive(Debug)]
struct Node {
    router: Option<Router>,
    interfaces: BTreeSet<InterfaceId>,
    /// The interfaces that receive what this node sends on an interface.
    listeners: BTreeSet<(InterfaceId, Port)>,
    duplicate_originators: usize,
    /// Signs the messages of the node, if they are signed.
    key: Option<Key>,
}

/// An event at a time. Of two events at the same time, the one added first happens first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Time,
    order: u64,
    happening: Happening,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Timer(NodeId),
    Arrival {
        port: Port,
        source: IpAddr,
        bytes: Rc<[u8]>,
    },
}

impl Default for Radio {
    fn default() -> Self {
        Self {
            loss: 0.0,
            min_delay: Duration::from_micros(500),
            max_delay: Duration::from_millis(2),
        }
    }
}

impl Mesh {
    /// Returns an empty network. All nodes have `config`, except for the originators.
    pub fn new(seed: u64, config: Config, families: &[Family]) -> Self {
        Self {
            now: Time::ZERO,
            config,
            families: families.to_vec(),
            radio: Radio::default(),
            rng: fastrand::Rng::with_seed(seed),
            nodes: Vec::new(),
            queue: BinaryHeap::new(),
            entries: 0,
            last_route_change: Time::ZERO,
            recorded: None,
        }
    }

    /// Adds nodes with running routers and without neighbours.
    pub fn add_nodes(&mut self, count: usize) {
        for _ in 0..count {
            self.nodes.push(Node {
                router: None,
                interfaces: BTreeSet::from([RADIO]),
                listeners: BTreeSet::new(),
                duplicate_originators: 0,
                key: None,
            });
            self.start(self.nodes.len() - 1);
        }
    }

    /// Starts or restarts the router of a node.
    pub fn start(&mut self, node: NodeId) {
        let mut config = self.config.clone();
        config.originator_v4 = self.families.contains(&Family::V4).then(|| v4(node));
        config.originator_v6 = self.families.contains(&Family::V6).then(|| self.v6(node));
        self.start_with(node, config);
    }

    /// Starts the router of a node with its own configuration.
    pub fn start_with(&mut self, node: NodeId, config: Config) {
        let seed = self.rng.u64(..);
        let mut router = Router::new(config, self.now, seed);
        if let Some(key) = &mut self.nodes[node].key {
            router.set_signing(true);
            key.restart();
        }
        self.nodes[node].router = Some(router);
        for interface in self.nodes[node].interfaces.clone() {
            self.interface_up(Port { node, interface });
        }
        self.last_route_change = self.now;
    }

    /// Stops the router of a node. It sends nothing more.
    pub fn stop(&mut self, node: NodeId) {
        self.nodes[node].router = None;
    }

    /// Takes an interface up.
    pub fn interface_up(&mut self, port: Port) {
        let addresses = vec![link_local(port)];
        self.notify(
            port.node,
            InterfaceEvent::Up {
                interface: port.interface,
                addresses,
            },
        );
    }

    /// Takes an interface down. Its router notices at once.
    pub fn interface_down(&mut self, port: Port) {
        self.notify(
            port.node,
            InterfaceEvent::Down {
                interface: port.interface,
            },
        );
    }

    /// Passes an interface event to the router of a node.
    pub fn notify(&mut self, node: NodeId, event: InterfaceEvent) {
        let now = self.now;
        self.act(node, |router| router.handle_interface(now, event));
    }

    /// Delivers a packet to a node that no router has sent.
    pub fn inject(&mut self, port: Port, source: IpAddr, bytes: &[u8]) {
        let now = self.now;
        self.act(port.node, |router| {
            router.handle_packet(now, port.interface, source, bytes)
        });
    }

    /// Calls `action` with the router of a node, and processes the results.
    pub fn act(&mut self, node: NodeId, action: impl FnOnce(&mut Router)) {
        if let Some(router) = &mut self.nodes[node].router {
            action(router);
            self.collect(node);
        }
    }

    /// Runs the network for `duration`.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self
            .queue
            .peek()
            .is_some_and(|Reverse(entry)| entry.at <= end)
        {
            let Some(Reverse(entry)) = self.queue.pop() else {
                break;
            };
            self.now = entry.at;
            self.happen(entry.happening);
        }
        self.now = end;
    }

    /// Returns when the routes of any router changed last.
    pub fn last_route_change(&self) -> Time {
        self.last_route_change
    }

    /// Returns the virtual time since the start.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the address families in use.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    fn happen(&mut self, happening: Happening) {
        let now = self.now;
        match happening {
            Happening::Timer(node) => {
                let due = self
                    .router(node)
                    .and_then(Router::poll_timeout)
                    .is_some_and(|due| due <= now);
                if due {
                    self.act(node, |router| router.handle_timeout(now));
                }
            }
            Happening::Arrival {
                port,
                source,
                bytes,
            } => self.inject(port, source, &bytes),
        }
    }

    /// Delivers the packets of a router, records its events, and sets its timer.
    fn collect(&mut self, node: NodeId) {
        let now = self.now;
        let Node { router, key, .. } = &mut self.nodes[node];
        let Some(router) = router else {
            return;
        };
        if let Some(key) = key {
            key.sign_all(now, router);
        }
        let mut duplicates = 0;
        let mut routes_changed = false;
        while let Some(event) = router.poll_event() {
            duplicates += usize::from(matches!(event, Event::DuplicateOriginator { .. }));
            routes_changed |= matches!(event, Event::RouteSet(_) | Event::RouteRemoved(_));
        }
        let transmits: Vec<_> = std::iter::from_fn(|| router.poll_transmit()).collect();
        let timeout = router.poll_timeout();
        self.nodes[node].duplicate_originators += duplicates;
        if routes_changed {
            self.last_route_change = self.now;
        }
        for transmit in transmits {
            self.carry(
                Port {
                    node,
                    interface: transmit.interface,
                },
                transmit.family,
                transmit.bytes.into(),
            );
        }
        if let Some(at) = timeout {
            self.enter(at.max(self.now), Happening::Timer(node));
        }
    }

    fn carry(&mut self, from: Port, family: Family, bytes: Rc<[u8]>) {
        let source = match family {
            Family::V4 => v4(from.node).into(),
            Family::V6 => link_local(from),
        };
        if let Some(recorded) = &mut self.recorded {
            let bytes = bytes.clone();
            recorded.push(Recorded {
                from,
                source,
                bytes,
            });
        }
        let listeners = self.nodes[from.node].listeners.iter();
        let ports: Vec<Port> = listeners
            .filter(|(own, _)| *own == from.interface)
            .map(|(_, port)| *port)
            .collect();
        for port in ports {
            if self.rng.f64() >= self.radio.loss {
                let delay = self.delay();
                self.enter(
                    self.now + delay,
                    Happening::Arrival {
                        port,
                        source,
                        bytes: bytes.clone(),
                    },
                );
            }
        }
    }

    fn delay(&mut self) -> Duration {
        let [min, max] =
            [self.radio.min_delay, self.radio.max_delay].map(|delay| delay.as_nanos() as u64);
        Duration::from_nanos(self.rng.u64(min..=max.max(min)))
    }

    fn enter(&mut self, at: Time, happening: Happening) {
        self.entries += 1;
        self.queue.push(Reverse(Entry {
            at,
            order: self.entries,
            happening,
        }));
    }
}

fn v4(node: NodeId) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0001 + node as u32)
}

/// Returns the IPv6 originator of a node without a key.
fn plain_v6(node: NodeId) -> Ipv6Addr {
    Ipv6Addr::from_bits((0xfd << 120) + 1 + node as u128)
}

/// Returns the link-local address of an interface.
fn link_local(port: Port) -> IpAddr {
    Ipv6Addr::from_bits(
        (0xfe80 << 112) + ((port.node as u128 + 1) << 16) + u128::from(port.interface.0),
    )
    .into()
}
