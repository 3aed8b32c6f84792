//! The known nodes, and the paths to them.
//!
//! A path is reported (another node named it) or proved (an answer arrived over it). Only proved paths are used for user
//! data. When the store is full, nodes without a proved path are removed first, so that nobody can displace proved
//! nodes by inventing others.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use cryptoauth::{Address, PublicKey};
use switch::{is_compatible, Label};

use crate::message::Contact;
use crate::Time;

/// Largest numbers of nodes and paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All nodes, including neighbours.
    pub nodes: usize,
    /// Paths to one node, at least one.
    pub ways: usize,
}

/// Enough for a cjdns network of today, in a few megabytes.
impl Default for Limits {
    fn default() -> Self {
        Self {
            nodes: 4096,
            ways: 4,
        }
    }
}

/// Time after which a path is removed that was neither proved nor reported again.
pub const FORGET_AFTER: Duration = Duration::from_secs(600);

/// Cost of a bit of a label in addition to latency. A switch adds 4 to 10 bits, processing time and contention, so that
/// of two paths with equal latency the shorter one is better.
const COST_PER_BIT: Duration = Duration::from_micros(250);

/// A path to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its label.
    pub label: Label,
    /// Smoothed time from query to answer, or `None` until the path is proved.
    pub latency: Option<Duration>,
    /// When it was last proved or reported.
    pub heard: Time,
    /// Number of consecutive queries without an answer.
    pub misses: u8,
}

/// A node and the paths to it, the best one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its public key.
    pub key: PublicKey,
    /// Its protocol version.
    pub version: u32,
    ways: Vec<Way>,
}

impl Way {
    /// Orders proved paths before reported ones, and reported ones by their length.
    fn rank(&self) -> (bool, u8, Duration, Label) {
        (self.latency.is_none(), self.misses, self.cost(), self.label)
    }

    fn cost(&self) -> Duration {
        self.latency.unwrap_or_default() + COST_PER_BIT * self.label.bits()
    }

    /// Returns whether an answer arrived over it, and none was missed since.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.latency.is_some() && self.misses == 0
    }
}

impl Node {
    /// Returns the paths to the node, the best one first. There is at least one.
    #[must_use]
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// Returns the path with this label.
    #[must_use]
    pub fn way(&self, label: Label) -> Option<&Way> {
        self.ways.iter().find(|way| way.label == label)
    }

    /// Returns the node with its best path for a reply, or `None` if no path is proved.
    #[must_use]
    pub fn proved(&self) -> Option<Contact> {
        let way = self.ways.first().filter(|way| way.latency.is_some())?;
        Some(self.by(way.label))
    }

    /// Returns the node with this label as its path.
    #[must_use]
    pub const fn by(&self, label: Label) -> Contact {
        Contact {
            key: self.key,
            path: label,
            version: self.version,
        }
    }
}

/// The known nodes, by their addresses.
#[derive(Clone, Debug)]
pub struct Store {
    own: Address,
    limits: Limits,
    nodes: BTreeMap<Address, Node>,
}

/// Returns the distance of two addresses. The last 8 octets count more than the first 8, as in every cjdns node.
#[must_use]
pub fn distance(one: Address, other: Address) -> u128 {
    let octets = |address: Address| u128::from_be_bytes(*address.octets());
    (octets(one) ^ octets(other)).rotate_left(64)
}

impl Store {
    /// Returns an empty store for the node `own`.
    #[must_use]
    pub const fn new(own: Address, limits: Limits) -> Self {
        Self {
            own,
            limits,
            nodes: BTreeMap::new(),
        }
    }

    /// Adds a node and a path that another node reported. Returns `None` if they are unusable: the node is this one,
    /// its key is not a node's, the label leads nowhere, or the protocol version is incompatible.
    pub fn learn(&mut self, now: Time, contact: Contact) -> Option<Address> {
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
        node.learn(now, path, self.limits.ways);
        Some(address)
    }

    /// Records that an answer arrived over a path, `latency` after the query.
    pub fn prove(&mut self, now: Time, address: Address, label: Label, latency: Duration) {
        let Some(node) = self.nodes.get_mut(&address) else {
            return;
        };
        if let Some(way) = node.ways.iter_mut().find(|way| way.label == label) {
            // Smoothed as in RFC 6298, section 2.3, with its alpha of 1/8.
            way.latency = Some(
                way.latency
                    .map_or(latency, |smooth| (smooth * 7 + latency) / 8),
            );
            way.heard = now;
            way.misses = 0;
        }
        node.sort();
    }

    /// Records that no answer arrived over a path. It then ranks behind its like, and is removed after `allowed`
    /// consecutive misses.
    pub fn miss(&mut self, address: Address, label: Label, allowed: u8) {
        self.each_way(address, |way| {
            if way.label == label {
                way.misses += 1;
            }
            way.misses < allowed
        });
    }

    /// Removes every path that leads through a label, and the nodes without another path.
    pub fn cut(&mut self, through: Label) {
        self.retain(|way| !way.label.leads_through(through));
    }

    /// Removes what was neither proved nor reported for [`FORGET_AFTER`].
    pub fn expire(&mut self, now: Time) {
        self.retain(|way| now.saturating_sub(way.heard) < FORGET_AFTER);
    }

    /// Returns a node.
    #[must_use]
    pub fn get(&self, address: Address) -> Option<&Node> {
        self.nodes.get(&address)
    }

    /// Returns all nodes, ordered by address.
    pub fn iter(&self) -> impl Iterator<Item = (Address, &Node)> {
        self.nodes.iter().map(|(address, node)| (*address, node))
    }

    /// Returns the number of known nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether no node is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the proved nodes nearest to an address that satisfy `useful`, the nearest first.
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

    /// Removes a node if the store is full and `newcomer` is about to be added. A neighbour is never removed, and a
    /// proved node only if all others are proved.
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
    /// Returns whether the node is behind one of this node's interfaces.
    fn is_neighbour(&self) -> bool {
        self.ways
            .iter()
            .any(|way| way.latency.is_some() && way.label.first_hop() == way.label)
    }

    /// Adds a path behind the existing ones. A path that leads through another path to this node and back is ignored.
    fn learn(&mut self, now: Time, label: Label, limit: usize) {
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

    /// Sorts the best path first. A sound path stays first until another costs less than three quarters of it, because
    /// each change may reorder packets.
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
