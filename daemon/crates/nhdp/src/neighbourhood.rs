//! The information bases of one address family, and how time and local interfaces change them (RFC 6130, sections 6 to
//! 9 and 13).

mod views;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use crate::given_way::GivenWay;
use crate::tuples::{Extension, Link, LinkId, Neighbour, NeighbourId};
use crate::types::{InterfaceId, LinkStatus, Time};

/// Parameters of a neighbourhood (RFC 6130, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// L_HOLD_TIME, N_HOLD_TIME and I_HOLD_TIME.
    pub hold_time: Duration,
    /// Largest number of link tuples of all interfaces together.
    pub max_links: usize,
    /// Largest number of 2-hop tuples.
    pub max_two_hops: usize,
}

/// What has changed since the last call of [`Neighbourhood::take_changes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// A link or neighbour tuple was added or removed, or its status or addresses changed.
    pub links: bool,
    /// A 2-hop tuple was added or removed.
    pub two_hops: bool,
    /// A symmetric neighbour was added or removed, or its addresses or this router's changed. A HELLO should announce
    /// it on all interfaces (RFC 6130, section 13).
    pub neighbours: bool,
    /// Interfaces on which a HELLO should announce a changed link status (RFC 6130, section 13).
    pub statuses: BTreeSet<InterfaceId>,
}

impl Changes {
    /// Adds later changes.
    pub fn add(&mut self, later: Self) {
        self.links |= later.links;
        self.two_hops |= later.two_hops;
        self.neighbours |= later.neighbours;
        self.statuses.extend(later.statuses);
    }
}

/// Local, interface and neighbour information bases.
#[derive(Debug)]
pub struct Neighbourhood<E: Extension> {
    pub(crate) params: Params,
    /// The local interface set (RFC 6130, section 6.1).
    pub(crate) interfaces: BTreeMap<InterfaceId, BTreeSet<IpAddr>>,
    /// Addresses of the router that are not on a MANET interface, such as an originator on a loopback interface.
    pub(crate) other_addresses: BTreeSet<IpAddr>,
    /// The removed interface address set: IR_time by IR_local_iface_addr (RFC 6130, section 6.2).
    pub(crate) removed: BTreeMap<IpAddr, Time>,
    pub(crate) links: BTreeMap<LinkId, Link<E>>,
    pub(crate) neighbours: BTreeMap<NeighbourId, Neighbour<E>>,
    /// The lost neighbour set: NL_time by NL_neighbor_addr (RFC 6130, section 8.2).
    pub(crate) lost: BTreeMap<IpAddr, Time>,
    /// Addresses that the operator trusts. Their tuples stay when a set is full.
    pub(crate) trusted: BTreeSet<IpAddr>,
    pub(crate) given_way: GivenWay,
    pub(crate) two_hop_count: usize,
    pub(crate) over_limit: u64,
    pub(crate) changes: Changes,
    last_id: u64,
}

impl<E: Extension> Neighbourhood<E> {
    /// Returns empty information bases.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            interfaces: BTreeMap::new(),
            other_addresses: BTreeSet::new(),
            removed: BTreeMap::new(),
            links: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            lost: BTreeMap::new(),
            trusted: BTreeSet::new(),
            given_way: GivenWay::default(),
            two_hop_count: 0,
            over_limit: 0,
            changes: Changes::default(),
            last_id: 0,
        }
    }

    /// Changes the parameters, and with them the times that depend on L_HOLD_TIME and N_HOLD_TIME (RFC 6130, section
    /// 5.5).
    pub fn set_params(&mut self, params: Params) {
        let old = core::mem::replace(&mut self.params, params).hold_time;
        let moved = |expires: Time| (expires + params.hold_time).saturating_sub(old);
        for link in self.links.values_mut().filter(|link| !link.pending) {
            link.expires = moved(link.expires);
        }
        self.lost
            .values_mut()
            .for_each(|expires| *expires = moved(*expires));
    }

    /// Adds an interface or changes its addresses (RFC 6130, section 9). An empty set of addresses removes it.
    pub fn set_interface(
        &mut self,
        now: Time,
        interface: InterfaceId,
        addresses: BTreeSet<IpAddr>,
    ) {
        if addresses.is_empty() {
            return self.remove_interface(now, interface);
        }
        let old = self
            .interfaces
            .insert(interface, addresses)
            .unwrap_or_default();
        self.own_addresses_changed(now, old);
    }

    /// Removes an interface with its links (RFC 6130, section 9.2).
    pub fn remove_interface(&mut self, now: Time, interface: InterfaceId) {
        let Some(old) = self.interfaces.remove(&interface) else {
            return;
        };
        let links = self
            .links
            .iter()
            .filter(|(_, link)| link.interface == interface);
        for id in links.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.remove_link(now, id);
        }
        self.own_addresses_changed(now, old);
    }

    /// Sets the router's addresses that are not on a MANET interface. HELLOs announce them as OTHER_IF.
    pub fn set_other_addresses(&mut self, now: Time, addresses: BTreeSet<IpAddr>) {
        let old = core::mem::replace(&mut self.other_addresses, addresses);
        self.own_addresses_changed(now, old);
    }

    /// Ends the links to the neighbour interface with this address, because the link layer lost it. Returns whether
    /// there was such a link.
    pub fn neighbour_lost(&mut self, now: Time, interface: InterfaceId, address: IpAddr) -> bool {
        let Some(id) = self.find_link(interface, address) else {
            return false;
        };
        if let Some(link) = self.links.get_mut(&id) {
            link.symmetric_until = now;
            link.heard_until = now;
        }
        self.settle_link(now, id);
        true
    }

    /// Removes a neighbour tuple with its link tuples.
    pub fn remove_neighbour(&mut self, now: Time, id: NeighbourId) {
        let links = self.links.iter().filter(|(_, link)| link.neighbour == id);
        for link in links.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.remove_link(now, link);
        }
    }

    /// Sets whether the link quality allows use of a link (RFC 6130, section 14.3). A used link that becomes unusable
    /// is LOST, one not yet used is PENDING.
    pub fn set_link_usable(&mut self, now: Time, id: LinkId, usable: bool) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.lost = !usable && (link.lost || link.status >= LinkStatus::Heard);
        link.pending = !usable && !link.lost;
        self.settle_link(now, id);
    }

    /// Removes everything that has expired at `now`.
    pub fn expire(&mut self, now: Time) {
        self.removed.retain(|_, expires| *expires > now);
        self.lost.retain(|_, expires| *expires > now);
        for id in self.links.keys().copied().collect::<Vec<_>>() {
            self.expire_two_hops(now, id);
            self.settle_link(now, id);
            if self.links.get(&id).is_some_and(|link| link.expires <= now) {
                self.remove_link(now, id);
            }
        }
    }

    /// Returns and resets the changes.
    pub fn take_changes(&mut self) -> Changes {
        core::mem::take(&mut self.changes)
    }

    /// Returns and resets the number of tuples that were refused or removed because a set was full.
    pub fn take_over_limit(&mut self) -> u64 {
        core::mem::take(&mut self.over_limit)
    }

    pub(crate) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Recalculates L_status and carries out what follows from a change (RFC 6130, section 13).
    pub(crate) fn settle_link(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let (old, new, neighbour) = (link.status, link.status_at(now), link.neighbour);
        link.status = new;
        if old == new {
            return;
        }
        self.changes.links = true;
        self.changes.statuses.insert(link.interface);
        if new == LinkStatus::Lost {
            link.expires = now + self.params.hold_time;
        }
        if old == LinkStatus::Symmetric {
            self.changes.two_hops |= !link.two_hops.is_empty();
            self.two_hop_count -= link.two_hops.len();
            link.two_hops.clear();
        }
        self.settle_neighbour(now, neighbour);
    }

    /// Recalculates N_symmetric and removes a neighbour without links (RFC 6130, sections 13.2 and 13.3).
    pub(crate) fn settle_neighbour(&mut self, now: Time, id: NeighbourId) {
        let mut links = self
            .links
            .values()
            .filter(|link| link.neighbour == id)
            .peekable();
        let linked = links.peek().is_some();
        let symmetric = links.any(Link::is_symmetric);
        let Some(neighbour) = self.neighbours.get_mut(&id) else {
            return;
        };
        let was_symmetric = core::mem::replace(&mut neighbour.symmetric, symmetric);
        let addresses: Vec<IpAddr> = neighbour.addresses.iter().copied().collect();
        self.changes.neighbours |= was_symmetric != symmetric;
        if symmetric {
            self.lost.retain(|address, _| !addresses.contains(address));
        } else if was_symmetric {
            self.lose(now, addresses);
        }
        if !linked {
            self.neighbours.remove(&id);
        }
    }

    /// Adds addresses to the lost neighbour set (RFC 6130, section 8.2). HELLOs announce them, so the set is limited to
    /// four for each possible link. Further addresses are not announced as lost.
    pub(crate) fn lose(&mut self, now: Time, addresses: impl IntoIterator<Item = IpAddr>) {
        let expires = now + self.params.hold_time;
        for address in addresses {
            if self.lost.len() < 4 * self.params.max_links {
                self.lost.insert(address, expires);
            }
        }
    }

    pub(crate) fn remove_link(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.remove(&id) else {
            return;
        };
        self.changes.links = true;
        if link.status >= LinkStatus::Heard {
            self.changes.statuses.insert(link.interface);
        }
        self.changes.two_hops |= !link.two_hops.is_empty();
        self.two_hop_count -= link.two_hops.len();
        self.settle_neighbour(now, link.neighbour);
    }

    fn expire_two_hops(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let before = link.two_hops.len();
        link.two_hops.retain(|_, two_hop| two_hop.expires > now);
        let gone = before - link.two_hops.len();
        self.two_hop_count -= gone;
        self.changes.two_hops |= gone > 0;
    }

    /// Puts the addresses that this router lost into the removed interface address set, and deletes tuples that claim
    /// those it has now (RFC 6130, section 9).
    fn own_addresses_changed(&mut self, now: Time, old: BTreeSet<IpAddr>) {
        self.changes.links = true;
        self.changes.neighbours = true;
        self.forget_own_addresses(now);
        let expires = now + self.params.hold_time;
        let mut removed = core::mem::take(&mut self.removed);
        removed.extend(old.into_iter().map(|address| (address, expires)));
        removed.retain(|address, _| !self.is_local(*address));
        self.removed = removed;
    }

    /// Deletes tuples in which another router has an address that is now this router's (RFC 6130, section 9.3).
    fn forget_own_addresses(&mut self, now: Time) {
        let own = |neighbour: &Neighbour<E>| {
            let mut addresses = neighbour.addresses.iter();
            addresses.any(|address| self.is_local(*address))
        };
        let users = self.neighbours.iter().filter(|(_, tuple)| own(tuple));
        let users: Vec<NeighbourId> = users.map(|(id, _)| *id).collect();
        self.neighbours.retain(|id, _| !users.contains(id));
        for id in users {
            self.remove_neighbour(now, id);
        }
        let mut lost = core::mem::take(&mut self.lost);
        lost.retain(|address, _| !self.is_local(*address));
        self.lost = lost;
        self.forget_own_two_hops();
    }

    fn forget_own_two_hops(&mut self) {
        let mut links = core::mem::take(&mut self.links);
        for link in links.values_mut() {
            let before = link.two_hops.len();
            link.two_hops.retain(|address, _| !self.is_local(*address));
            let gone = before - link.two_hops.len();
            self.two_hop_count -= gone;
            self.changes.two_hops |= gone > 0;
        }
        self.links = links;
    }
}
