//! The configuration of a node.

use alloc::collections::BTreeSet;
use core::time::Duration;

use cryptoauth::{Address, Ciphers, PrivateKey};

/// The configuration with which a node starts.
pub struct Config {
    /// The node's private key. The address of its public key must be in fc00::/8.
    pub key: PrivateKey,
    /// The implementation that seals and opens data frames.
    pub ciphers: &'static dyn Ciphers,
    /// The time since the UNIX epoch at [`Time`](crate::Time) zero, for the timestamps of Noise INITs. It must not be
    /// earlier after a restart than before.
    pub unix_at_zero: Duration,
    /// Whether to start the Noise handshake with neighbours that announce a version with it. It is always answered.
    pub noise: bool,
    /// The nodes with which user data is exchanged.
    pub admission: Admission,
    /// Bounds on what is stored, and on the work that others can cause.
    pub limits: Limits,
    /// When neighbours are pinged and given up.
    pub timing: Timing,
}

/// The nodes with which user data is exchanged. Frames of all nodes are forwarded, and DHT messages are exchanged with
/// all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// All nodes.
    Anybody,
    /// The nodes with these addresses.
    Only(BTreeSet<Address>),
}

/// Bounds on what is stored, and on how often others can cause work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Neighbours in any state. At most 256, as many as a label can name.
    pub peers: usize,
    /// Of these, incoming and beacon neighbours that have not proved that they hold their key.
    pub unconfirmed_peers: usize,
    /// Nodes to which paths are stored.
    pub nodes: usize,
    /// Inner sessions.
    pub sessions: usize,
    /// Inner sessions that the other end has not confirmed.
    pub unconfirmed_sessions: usize,
    /// Packets that wait for their session, one per destination.
    pub waiting_packets: usize,
    /// Handshakes of strangers per second on each interface, and additionally as many of strangers that prove their
    /// address. Each takes up to half a millisecond. Handshakes of unknown users take no time and do not count.
    pub link_handshakes: u32,
    /// Handshakes of strangers per second from one address.
    pub link_handshakes_by_source: u32,
    /// Handshakes of inner sessions per second.
    pub inner_handshakes: u32,
    /// DHT messages accepted per second.
    pub dht_messages: u32,
    /// Control frames answered per second.
    pub control_answers: u32,
    /// ERROR frames sent per second.
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

/// When neighbours are pinged and given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Silence after which a neighbour is pinged.
    pub ping_after: Duration,
    /// The same while this node sends frames to the neighbour.
    pub suspect_after: Duration,
    /// Longest time between two such pings.
    pub ping_interval: Duration,
    /// Silence after which a neighbour counts as gone.
    pub dead_after: Duration,
    /// Time after which a neighbour that is gone and not configured is removed. If it returns before, it gets its old
    /// label.
    pub forget_after: Duration,
    /// Longest time between two handshakes with a configured neighbour that does not answer.
    pub retry_interval: Duration,
    /// Longest time between two beacons. The first ones of an interface follow faster.
    pub beacon_interval: Duration,
}

/// Faster than cjdns, which pings after 3 s, gives up after 20 s, and sends beacons every 32 s.
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
    /// Returns whether user data is exchanged with the node that has this address.
    #[must_use]
    pub fn permits(&self, address: Address) -> bool {
        match self {
            Self::Anybody => true,
            Self::Only(addresses) => addresses.contains(&address),
        }
    }
}
