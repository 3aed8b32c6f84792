//! The state of neighbours and sessions, for management.

use core::time::Duration;

use cryptoauth::{Address, PublicKey, Received, UserId};
use overlay::SessionState;
use switch::Label;

use crate::interface::{InterfaceId, LinkAddress};
use crate::Time;

/// The state of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerState {
    /// It connected to this node, and has not yet proved that it holds its key.
    Unauthenticated,
    /// A handshake is in progress.
    Handshake,
    /// It can be used.
    Established,
    /// It no longer answers.
    Unresponsive,
}

impl PeerState {
    /// Returns its name in the admin API of cjdns (`InterfaceController_peerStats`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::Handshake => "HANDSHAKE",
            Self::Established => "ESTABLISHED",
            Self::Unresponsive => "UNRESPONSIVE",
        }
    }
}

/// The protocol that protects a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// CryptoAuth.
    CryptoAuth,
    /// Noise.
    Noise,
}

/// A neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// Its key.
    pub key: PublicKey,
    /// Its address in the overlay.
    pub address: Address,
    /// The interface on which it is reached.
    pub interface: InterfaceId,
    /// Its address on that interface.
    pub link_address: LinkAddress,
    /// Its state.
    pub state: PeerState,
    /// The label of one hop that leads to it, if it has one.
    pub label: Option<Label>,
    /// Its protocol version, if it announced one.
    pub version: Option<u32>,
    /// The user as which it authenticated itself, if any.
    pub user: Option<UserId>,
    /// Whether it connected to this node.
    pub incoming: bool,
    /// The protocol that protects the link.
    pub link: Link,
    /// When the last authentic frame arrived from it.
    pub heard: Time,
    /// Smoothed time from ping to answer.
    pub latency: Option<Duration>,
    /// Octets received from it, link overhead included.
    pub octets_in: u64,
    /// Octets sent to it, link overhead included.
    pub octets_out: u64,
    /// Kilobits per second received from it in the last seconds.
    pub kbps_in: u32,
    /// Kilobits per second sent to it in the last seconds.
    pub kbps_out: u32,
    /// Frames received from it.
    pub frames_in: u64,
    /// Frames sent to it.
    pub frames_out: u64,
    /// Counters of the frames received under the keys in use, and lost ones.
    pub received: Received,
}

/// An inner session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Ends, handles, state and counters.
    pub state: SessionState,
    /// The best path to the other end, if one is proved.
    pub way: Option<Label>,
}
