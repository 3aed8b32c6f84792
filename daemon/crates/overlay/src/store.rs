//! The nodes that are known, and the ways to them.
//!
//! A way is told (somebody said so) or proved (an answer came back by it).
//! Only proved ways are for user data. When the store is full, nodes that
//! were only told of make room first: nobody can push proved ones out by
//! telling of nodes that do not exist.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use cryptoauth::{Address, PublicKey};
use switch::{is_compatible, Label};

use crate::message::Contact;
use crate::Time;

/// How many nodes and ways are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes in all, neighbours included.
    pub nodes: usize,
    /// Ways to one node; one at least.
    pub ways: usize,
}

/// A cjdns network of today fits, in some megabytes.
impl Default for Limits {
    fn default() -> Self {
        Self {
            nodes: 4096,
            ways: 4,
        }
    }
}

/// A way that nobody has proved or told of again for so long is forgotten.
pub const FORGET_AFTER: Duration = Duration::from_secs(600);

/// What a bit of a label costs beside latency. A switch takes 4 to 10 of them and adds processing and
/// contention, so that of two ways with equal latency the shorter one wins.
const COST_PER_BIT: Duration = Duration::from_micros(250);

/// A way to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its label.
    pub label: Label,
    /// Smoothed time from question to answer; `None` until the way is proved.
    pub latency: Option<Duration>,
    /// When it was last proved or told of.
    pub heard: Time,
    /// How many questions in a row got no answer.
    pub misses: u8,
}

/// A node and the ways to it, the best one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its public key.
    pub key: PublicKey,
    /// Its protocol version.
    pub version: u32,
    ways: Vec<Way>,
}

impl Way {
    /// Proved ways before told ones, and these by their length.
    fn rank(&self) -> (bool, u8, Duration, Label) {
        (self.latency.is_none(), self.misses, self.cost(), self.label)
    }

    fn cost(&self) -> Duration {
        self.latency.unwrap_or_default() + COST_PER_BIT * self.label.bits()
    }

    /// Whether an answer came back by it, and none was missed since.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.latency.is_some() && self.misses == 0
    }
}

impl Node {
    /// The ways to it, the best one first; there is always one.
    #[must_use]
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// The way with that label.
    #[must_use]
    pub fn way(&self, label: Label) -> Option<&Way> {
        self.ways.iter().find(|way| way.label == label)
    }

    /// The node as this node would tell of it; `None` while nothing is proved.
    #[must_use]
    pub fn proved(&self) -> Option<Contact> {
        let way = self.ways.first().filter(|way| way.latency.is_some())?;
        Some(self.by(way.label))
    }

    /// The node, by one of its ways.
    #[must_use]
    pub const fn by(&self, label: Label) -> Contact {
        Contact {
            key: self.key,
            path: label,
            version: self.version,
        }
    }
}

/// The nodes that are known, by their addresses.
#[derive(Clone, Debug)]
pub struct Store {
    own: Address,
    limits: Limits,
    nodes: BTreeMap<Address, Node>,
}

/// How far apart two addresses are. The last 8 octets weigh more than the first 8, as in every cjdns node.
#[must_use]
pub fn distance(one: Address, other: Address) -> u128 {
    let octets = |address: Address| u128::from_be_bytes(*address.octets());
    (octets(one) ^ octets(other)).rotate_left(64)
}

impl Store {
    /// An empty store of the node `own`.
    #[must_use]
    pub const fn new(own: Address, limits: Limits) -> Self {
        Self {
            own,
            limits,
            nodes: BTreeMap::new(),
        }
    }

    /// Takes in what somebody told. `None` when it is of no use: this node itself, a key
    /// that is no node's, a label that leads nowhere, a version that cannot be spoken with.
    pub fn tell(&mut self, now: Time, contact: Contact) -> Option<Address> {
        let address = contact
            .key
            .node_address()
            .ok()
            .filter(|address| *address != self.own)?;
        if contact.path <= Label::SELF
            || contact.path.0 >> 63 != 0
            || !is_compatible(contact.version)
        {
            return None;
        }
        self.make_room(address);
        let Contact { key, version, path } = contact;
        let node = self.nodes.entry(address).or_insert(Node {
            key,
            version,
            ways: Vec::new(),
        });
        node.version = version;
        node.tell(now, path, self.limits.ways);
        Some(address)
    }

    /// An answer came back by a way, `latency` after the question.
    pub fn prove(&mut self, now: Time, address: Address, label: Label, latency: Duration) {
        let Some(node) = self.nodes.get_mut(&address) else {
            return;
        };
        if let Some(way) = node.ways.iter_mut().find(|way| way.label == label) {
            // RFC 6298, section 2.3, with its alpha of 1/8.
            way.latency = Some(
                way.latency
                    .map_or(latency, |smooth| (smooth * 7 + latency) / 8),
            );
            way.heard = now;
            way.misses = 0;
        }
        node.sort();
    }

    /// No answer came back by a way: it ranks behind its like, and is forgotten when that happens `allowed` times
    /// in a row.
    pub fn miss(&mut self, address: Address, label: Label, allowed: u8) {
        self.each_way(address, |way| {
            if way.label == label {
                way.misses += 1;
            }
            way.misses < allowed
        });
    }

    /// Forgets every way that leads through a label, and the nodes to which there is no other.
    pub fn cut(&mut self, through: Label) {
        self.retain(|way| !way.label.leads_through(through));
    }

    /// Forgets what nobody has proved or told of for [`FORGET_AFTER`].
    pub fn expire(&mut self, now: Time) {
        self.retain(|way| now.saturating_sub(way.heard) < FORGET_AFTER);
    }

    /// A node.
    #[must_use]
    pub fn get(&self, address: Address) -> Option<&Node> {
        self.nodes.get(&address)
    }

    /// All nodes, in the order of their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (Address, &Node)> {
        self.nodes.iter().map(|(address, node)| (*address, node))
    }

    /// How many nodes are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no node is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The proved nodes nearest to an address, of those that are useful, the nearest first.
    #[must_use]
    pub fn nearest(
        &self,
        target: Address,
        count: usize,
        useful: impl Fn(&Contact) -> bool,
    ) -> Vec<Contact> {
        let proved = self
            .iter()
            .filter_map(|(address, node)| Some((distance(address, target), node.proved()?)));
        let mut nodes: Vec<_> = proved.filter(|(_, contact)| useful(contact)).collect();
        if (1..nodes.len()).contains(&count) {
            nodes.select_nth_unstable_by_key(count - 1, |(distance, _)| *distance);
        }
        nodes.truncate(count);
        nodes.sort_unstable_by_key(|(distance, _)| *distance);
        nodes.into_iter().map(|(_, contact)| contact).collect()
    }

    /// Keeps the number of nodes in bounds when one is about to be added: a neighbour is never
    /// forgotten for that, a proved node only when all others are proved.
    fn make_room(&mut self, newcomer: Address) {
        if self.nodes.len() < self.limits.nodes || self.nodes.contains_key(&newcomer) {
            return;
        }
        let rank = |node: &Node| {
            let heard = node.ways.iter().map(|way| way.heard).max();
            (node.is_neighbour(), node.proved().is_some(), heard)
        };
        let least = self.nodes.iter().min_by_key(|(_, node)| rank(node));
        if let Some(address) = least.map(|(address, _)| *address) {
            self.nodes.remove(&address);
        }
    }

    fn each_way(&mut self, address: Address, keep: impl FnMut(&mut Way) -> bool) {
        let Some(node) = self.nodes.get_mut(&address) else {
            return;
        };
        node.ways.retain_mut(keep);
        node.sort();
        if node.ways.is_empty() {
            self.nodes.remove(&address);
        }
    }

    fn retain(&mut self, keep: impl Fn(&Way) -> bool) {
        self.nodes.retain(|_, node| {
            node.ways.retain(&keep);
            !node.ways.is_empty()
        });
    }
}

impl Node {
    /// Whether it is behind one of this node's interfaces.
    fn is_neighbour(&self) -> bool {
        self.ways
            .iter()
            .any(|way| way.latency.is_some() && way.label.first_hop() == way.label)
    }

    /// A new way goes behind those that are there; one that only goes on from another to come back is none.
    fn tell(&mut self, now: Time, label: Label, limit: usize) {
        if let Some(way) = self.ways.iter_mut().find(|way| way.label == label) {
            way.heard = now;
            return;
        }
        if self.ways.iter().any(|way| label.leads_through(way.label)) {
            return;
        }
        self.ways.push(Way {
            label,
            latency: None,
            heard: now,
            misses: 0,
        });
        self.sort();
        self.ways.truncate(limit.max(1));
    }

    /// The best way first. A sound one stays the best until another costs less than three quarters, because each
    /// change may put packets out of order.
    fn sort(&mut self) {
        let Some(best) = self.ways.first().copied() else {
            return;
        };
        self.ways.sort_unstable_by_key(Way::rank);
        let stays = best.is_sound() && best.cost() * 3 / 4 <= self.ways[0].cost();
        let index = self.ways.iter().position(|way| way.label == best.label);
        if let Some(index) = index.filter(|_| stays) {
            self.ways[..=index].rotate_right(1);
        }
    }
}
