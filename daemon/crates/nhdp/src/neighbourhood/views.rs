//! What the protocol looks up in the neighbourhood.

use alloc::collections::BTreeSet;
use core::net::IpAddr;

use super::Neighbourhood;
use crate::tuples::{Extension, Link, LinkId, Neighbour, NeighbourId};
use crate::types::{InterfaceId, Time};

impl<E: Extension> Neighbourhood<E> {
    /// Returns the local interfaces with their addresses.
    pub fn interfaces(&self) -> impl Iterator<Item = (InterfaceId, &BTreeSet<IpAddr>)> {
        self.interfaces
            .iter()
            .map(|(id, addresses)| (*id, addresses))
    }

    /// Returns the addresses of a local interface, none if it is not in the local interface set.
    pub fn interface_addresses(&self, interface: InterfaceId) -> &BTreeSet<IpAddr> {
        const NONE: &BTreeSet<IpAddr> = &BTreeSet::new();
        self.interfaces.get(&interface).unwrap_or(NONE)
    }

    /// Returns whether an address belongs to this router.
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.other_addresses.contains(&address)
            || self
                .interfaces
                .values()
                .any(|addresses| addresses.contains(&address))
    }

    /// Returns whether an address belongs to this router, or did within the last I_HOLD_TIME.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.is_local(address) || self.removed.contains_key(&address)
    }

    /// Returns the link tuples.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &Link<E>)> {
        self.links.iter().map(|(id, link)| (*id, link))
    }

    /// Returns the neighbour tuples.
    pub fn neighbours(&self) -> impl Iterator<Item = (NeighbourId, &Neighbour<E>)> {
        self.neighbours
            .iter()
            .map(|(id, neighbour)| (*id, neighbour))
    }

    /// Returns the neighbour tuples, so that the protocol on top can change its own elements.
    pub fn neighbours_mut(&mut self) -> impl Iterator<Item = (NeighbourId, &mut Neighbour<E>)> {
        self.neighbours
            .iter_mut()
            .map(|(id, neighbour)| (*id, neighbour))
    }

    /// Returns the addresses of the lost neighbour set.
    pub fn lost_neighbours(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.lost.keys().copied()
    }

    /// Returns a link tuple.
    pub fn link(&self, id: LinkId) -> Option<&Link<E>> {
        self.links.get(&id)
    }

    /// Returns a link tuple, so that the protocol on top can change its own elements.
    pub fn link_mut(&mut self, id: LinkId) -> Option<&mut Link<E>> {
        self.links.get_mut(&id)
    }

    /// Returns a neighbour tuple.
    pub fn neighbour(&self, id: NeighbourId) -> Option<&Neighbour<E>> {
        self.neighbours.get(&id)
    }

    /// Returns a neighbour tuple, so that the protocol on top can change its own elements.
    pub fn neighbour_mut(&mut self, id: NeighbourId) -> Option<&mut Neighbour<E>> {
        self.neighbours.get_mut(&id)
    }

    /// Returns the link tuple on an interface that has this neighbour address.
    pub fn find_link(&self, interface: InterfaceId, address: IpAddr) -> Option<LinkId> {
        let mut links = self.links.iter();
        let found = links.find(|(_, link)| {
            link.interface == interface
                && (link.source == address || link.addresses.contains(&address))
        });
        found.map(|(id, _)| *id)
    }

    /// Returns when [`Neighbourhood::expire`] must be called next.
    pub fn next_expiry(&self, now: Time) -> Option<Time> {
        let links = self.links.values().map(|link| link.next_expiry(now));
        let rest = self.removed.values().chain(self.lost.values()).copied();
        links.chain(rest).min()
    }
}
