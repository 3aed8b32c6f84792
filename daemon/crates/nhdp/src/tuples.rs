//! The tuples of the information bases (RFC 6130, sections 7 and 8).

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt::Debug;
use core::net::IpAddr;
use core::time::Duration;

use crate::types::{InterfaceId, LinkStatus, Time};

/// What a protocol on top of NHDP adds to the tuples (RFC 7181, sections 8 and 9).
pub trait Extension {
    /// Elements of a link tuple.
    type Link: Debug + Default;
    /// Elements of a 2-hop tuple.
    type TwoHop: Debug + Default;
    /// Elements of a neighbour tuple.
    type Neighbour: Debug + Default;
}

impl Extension for () {
    type Link = ();
    type TwoHop = ();
    type Neighbour = ();
}

/// Identifies a link tuple. It is never reused in a neighbourhood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u64);

/// Identifies a neighbour tuple. It is never reused in a neighbourhood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NeighbourId(pub(crate) u64);

/// A link tuple (RFC 6130, section 7.1).
#[derive(Debug)]
pub struct Link<E: Extension> {
    /// The local interface.
    pub interface: InterfaceId,
    /// The neighbour tuple whose addresses include those of this link.
    pub neighbour: NeighbourId,
    /// L_neighbor_iface_addr_list.
    pub addresses: BTreeSet<IpAddr>,
    /// The source address of the last HELLO.
    pub source: IpAddr,
    /// L_HEARD_time.
    pub heard_until: Time,
    /// L_SYM_time.
    pub symmetric_until: Time,
    /// L_time.
    pub expires: Time,
    /// When the tuple was created.
    pub since: Time,
    /// When the last HELLO arrived.
    pub heard_at: Time,
    /// Number of HELLOs that arrived.
    pub hellos: u32,
    /// An earlier tuple of this address was removed recently because the set was full.
    pub returned: bool,
    /// L_status as of the last change or expiry.
    pub status: LinkStatus,
    /// L_pending: the link quality does not yet allow use of the link (RFC 6130, section 14).
    pub pending: bool,
    /// L_lost: the link quality no longer allows use of the link (RFC 6130, section 14).
    pub lost: bool,
    /// INTERVAL_TIME of the last HELLO.
    pub hello_interval: Option<Duration>,
    /// VALIDITY_TIME of the last HELLO.
    pub hello_validity: Duration,
    /// The 2-hop tuples of this link's N2_neighbor_iface_addr_list, by N2_2hop_addr.
    pub two_hops: BTreeMap<IpAddr, TwoHop<E>>,
    /// What the protocol on top adds.
    pub ext: E::Link,
}

/// A 2-hop tuple (RFC 6130, section 7.2).
#[derive(Debug)]
pub struct TwoHop<E: Extension> {
    /// N2_time.
    pub expires: Time,
    /// What the protocol on top adds.
    pub ext: E::TwoHop,
}

/// A neighbour tuple (RFC 6130, section 8.1).
#[derive(Debug)]
pub struct Neighbour<E: Extension> {
    /// N_neighbor_addr_list.
    pub addresses: BTreeSet<IpAddr>,
    /// N_symmetric.
    pub symmetric: bool,
    /// What the protocol on top adds.
    pub ext: E::Neighbour,
}

impl<E: Extension> Link<E> {
    /// Returns whether L_status is SYMMETRIC.
    pub fn is_symmetric(&self) -> bool {
        self.status == LinkStatus::Symmetric
    }

    /// Returns L_status at `now` (RFC 6130, section 7.1).
    pub(crate) fn status_at(&self, now: Time) -> LinkStatus {
        if self.pending {
            LinkStatus::Pending
        } else if self.lost {
            LinkStatus::Lost
        } else if self.symmetric_until > now {
            LinkStatus::Symmetric
        } else if self.heard_until > now {
            LinkStatus::Heard
        } else {
            LinkStatus::Lost
        }
    }

    /// Returns when a part of this link expires next.
    pub(crate) fn next_expiry(&self, now: Time) -> Time {
        let timers = [self.symmetric_until, self.heard_until];
        let two_hops = self.two_hops.values().map(|two_hop| two_hop.expires);
        let later = timers
            .into_iter()
            .chain(two_hops)
            .filter(|time| *time > now);
        later
            .min()
            .map_or(self.expires, |time| time.min(self.expires))
    }
}
