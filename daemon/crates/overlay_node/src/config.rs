//! What a node is told when it begins.

use alloc::collections::BTreeSet;
use core::time::Duration;

use cryptoauth::{Address, Ciphers, PrivateKey};

/// What a node is told when it begins.
pub struct Config {
    /// The node's key; its address must be in fc00::/8.
    pub key: PrivateKey,
    /// What seals and opens data frames.
    pub ciphers: &'static dyn Ciphers,
    /// The time since the UNIX epoch at [`Time`](crate::Time) zero: INITs of the Noise handshake carry it. It must not be
    /// earlier after a restart than before.
    pub unix_at_zero: Duration,
    /// Whether to begin the Noise handshake with neighbours that declare a version that knows it. It is always
    /// answered.
    pub noise: bool,
    /// With whom user data is exchanged.
    pub admission: Admission,
    /// What is kept, and how much others can cause.
    pub limits: Limits,
    /// When neighbours are asked and given up.
    pub timing: Timing,
}

/// With whom user data is exchanged. Frames of everybody are relayed, and routers of all nodes are talked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// With every node.
    Anybody,
    /// With the nodes that have these addresses.
    Only(BTreeSet<Address>),
}

/// What is kept at most, and how often others can cause work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Neighbours, whatever their state; at most 256, as many as a label can name.
    pub peers: usize,
    /// Of these, those that came by themselves or by beacons and have not proved that they hold their key.
    pub unconfirmed_peers: usize,
    /// Nodes whose ways are known.
    pub nodes: usize,
    /// Inner sessions.
    pub sessions: usize,
    /// Inner sessions that the other end has not confirmed.
    pub unconfirmed_sessions: usize,
    /// Packets that wait for their session, one for each destination.
    pub waiting_packets: usize,
    /// Handshakes of strangers on links, a second, of each interface, and of those in addition that prove their address; each
    /// takes up to half a millisecond. Those of users that do not exist take nothing, and are not counted in.
    pub link_handshakes: u32,
    /// The same from one address.
    pub link_handshakes_by_source: u32,
    /// Handshakes of inner sessions, a second.
    pub inner_handshakes: u32,
    /// DHT messages that are taken, a second.
    pub dht_messages: u32,
    /// Control frames that are answered, a second.
    pub control_answers: u32,
    /// ERROR frames that are sent, a second.
    pub errors: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers: 256,
            unconfirmed_peers: 64,
            nodes: 4096,
            sessions: 4096,
            unconfirmed_sessions: 256,
            waiting_packets: 64,
            link_handshakes: 100,
            link_handshakes_by_source: 10,
            inner_handshakes: 200,
            dht_messages: 1000,
            control_answers: 500,
            errors: 200,
        }
    }
}

/// When neighbours are asked and given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A neighbour that says nothing for so long is asked.
    pub ping_after: Duration,
    /// The same while this node sends it something.
    pub suspect_after: Duration,
    /// The longest time between two such questions.
    pub ping_interval: Duration,
    /// A neighbour that says nothing for so long is taken as gone.
    pub dead_after: Duration,
    /// A neighbour that is gone and not configured is forgotten after so long; until then it gets its old label back.
    pub forget_after: Duration,
    /// The longest time between two handshakes with a configured neighbour that does not answer.
    pub retry_interval: Duration,
    /// The longest time between beacons: the first ones of an interface follow each other sooner.
    pub beacon_interval: Duration,
}

/// A stock node asks after 3 s, gives up after 20 s, and sends beacons every 32 s.
impl Default for Timing {
    fn default() -> Self {
        Self {
            ping_after: Duration::from_secs(1),
            suspect_after: Duration::from_millis(300),
            ping_interval: Duration::from_millis(250),
            dead_after: Duration::from_secs(2),
            forget_after: Duration::from_secs(300),
            retry_interval: Duration::from_secs(1),
            beacon_interval: Duration::from_secs(2),
        }
    }
}

impl Admission {
    /// Whether user data is exchanged with the node that has this address.
    #[must_use]
    pub fn permits(&self, address: Address) -> bool {
        match self {
            Self::Anybody => true,
            Self::Only(addresses) => addresses.contains(&address),
        }
    }
}
