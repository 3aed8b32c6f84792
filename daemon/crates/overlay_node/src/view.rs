//! What management sees.

use core::time::Duration;

use cryptoauth::{Address, PublicKey, Received, UserId};
use overlay::SessionState;
use switch::Label;

use crate::interface::{InterfaceId, LinkAddress};
use crate::Time;

/// How a neighbour is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerState {
    /// It came by itself and has not proved yet that it holds its key.
    Unauthenticated,
    /// A handshake goes on.
    Handshake,
    /// It can be spoken with.
    Established,
    /// It says nothing any more.
    Unresponsive,
}

impl PeerState {
    /// Its name in the admin API of cjdns (`InterfaceController_peerStats`).
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

/// What protects a link.
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
    /// By which interface it is reached.
    pub interface: InterfaceId,
    /// Its address there.
    pub link_address: LinkAddress,
    /// How it is doing.
    pub state: PeerState,
    /// The label of one hop that leads to it, when it has one.
    pub label: Option<Label>,
    /// Its protocol version, when it told it.
    pub version: Option<u32>,
    /// As whom it authenticated itself, when it did.
    pub user: Option<UserId>,
    /// Whether it came by itself.
    pub incoming: bool,
    /// What protects the link.
    pub link: Link,
    /// When something authentic came from it for the last time.
    pub heard: Time,
    /// Smoothed time from ping to answer.
    pub latency: Option<Duration>,
    /// Octets that came from it, link overhead included.
    pub octets_in: u64,
    /// Octets that went to it, link overhead included.
    pub octets_out: u64,
    /// Kilobits a second that came from it in the last seconds.
    pub kbps_in: u32,
    /// Kilobits a second that went to it in the last seconds.
    pub kbps_out: u32,
    /// Frames that came from it.
    pub frames_in: u64,
    /// Frames that went to it.
    pub frames_out: u64,
    /// What came in over the keys in use, and what was lost.
    pub received: Received,
}

/// An inner session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Ends, handles, state and counters.
    pub state: SessionState,
    /// The best way to the other end, when there is a proved one.
    pub way: Option<Label>,
}
