//! Chooses which links and 2-hop tuples are removed when the link set or the 2-hop set is full.
//!
//! RFC 6130 sets no bounds. Anybody on the link can invent HELLOs, so a full set that simply refused newcomers would
//! lock real neighbours out. Here a newcomer takes the place of the link that is worth least. These criteria decide, in
//! this order: the interface with the most unproven links, because an interface cannot be invented; the standing, from
//! links heard once over refreshed to symmetric ones; the source address with the most links; the longest silence.
//! Proven links stay while they fill at most three quarters of the set. Addresses that the operator trusts always stay
//! and always find space.
//!
//! A real router sends HELLOs again. So an address whose link was removed and that is heard again is worth more than a
//! new one.

use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;
use core::net::IpAddr;

use crate::neighbourhood::Neighbourhood;
use crate::tuples::{Extension, Link, LinkId, NeighbourId};
use crate::types::{InterfaceId, Time};

/// Largest number of link tuples of one neighbour: four interfaces of the neighbour, each heard on four of this
/// router's.
pub const MAX_LINKS_OF_NEIGHBOUR: usize = 16;

/// Largest number of 2-hop tuples of one link: 64 for each of [`MAX_LINKS_OF_NEIGHBOUR`] links. On no radio do more
/// stations hear each other.
pub const MAX_TWO_HOPS_OF_LINK: usize = 1024;

/// Addresses of removed links that are remembered, for each link that the set can hold. This covers 2 s, the usual
/// HELLO_INTERVAL, at 8192 HELLOs per second.
const REMEMBERED: usize = 64;

/// How much a link is worth keeping, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// One HELLO was heard, whatever it contains.
    Once,
    /// One HELLO was heard, after an earlier link of the address was removed.
    Returned,
    Refreshed,
    Symmetric,
    /// Symmetric, and older than the time after which a silent link expires.
    Proven,
}

/// Order of the links that may be removed, the smallest first.
type Merit = (Reverse<usize>, Standing, Reverse<usize>, Time);

impl<E: Extension> Neighbourhood<E> {
    /// Returns the addresses of links that were heard once.
    pub fn heard_once(&self) -> BTreeSet<IpAddr> {
        let links = self.links.values();
        let once = links.filter(|link| link.hellos < 2 && !link.returned);
        once.flat_map(|link| link.addresses.iter().copied())
            .collect()
    }

    /// Returns whether a link with these addresses was removed recently because the set was full.
    pub(crate) fn gave_way(&self, interface: InterfaceId, addresses: &BTreeSet<IpAddr>) -> bool {
        let known = |address: &IpAddr| self.given_way.contains(&(interface, *address));
        addresses.first().is_some_and(known)
    }

    /// Sets the addresses whose links and 2-hop tuples are kept when the sets are full.
    pub fn set_trusted(&mut self, addresses: BTreeSet<IpAddr>) {
        self.trusted = addresses;
    }

    /// Returns whether the operator trusts an address.
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted.contains(&address)
    }

    /// Makes space for one more link of a neighbour with these addresses. Returns whether there is space.
    pub(crate) fn make_link_room(&mut self, now: Time, addresses: &BTreeSet<IpAddr>) -> bool {
        if self.links.len() < self.params.max_links {
            return true;
        }
        self.over_limit += 1;
        let trusted = addresses.iter().any(|address| self.is_trusted(*address));
        let victim = self.victim(now, trusted);
        if let Some(link) = victim.and_then(|id| self.links.get(&id)) {
            let limit = REMEMBERED * self.params.max_links;
            let address = link.addresses.first().copied();
            if let Some(address) = address {
                self.given_way.remember((link.interface, address), limit);
            }
        }
        if let Some(id) = victim {
            self.remove_link(now, id);
        }
        victim.is_some()
    }

    /// Removes the oldest link of a neighbour that has more than [`MAX_LINKS_OF_NEIGHBOUR`], but never `newest`.
    pub(crate) fn limit_links_of(&mut self, now: Time, neighbour: NeighbourId, newest: LinkId) {
        let links = self.links.iter();
        let of_neighbour = links.filter(|(_, link)| link.neighbour == neighbour);
        let others = of_neighbour.filter(|(id, _)| **id != newest);
        let oldest = others.clone().min_by_key(|(_, link)| link.heard_at);
        if let Some((id, _)) = oldest.filter(|_| others.count() >= MAX_LINKS_OF_NEIGHBOUR) {
            let id = *id;
            self.over_limit += 1;
            self.remove_link(now, id);
        }
    }

    /// Makes space for one more 2-hop tuple of a link, by removing one of the link with the most of them if that has
    /// more than this link. Returns whether there is space.
    pub(crate) fn make_two_hop_room(&mut self, id: LinkId, address: IpAddr) -> bool {
        let own = self.links.get(&id).map_or(0, |link| link.two_hops.len());
        let trusted = self.is_trusted(address);
        let full = self.two_hop_count >= self.params.max_two_hops;
        if !full && (own < MAX_TWO_HOPS_OF_LINK || trusted) {
            return true;
        }
        self.over_limit += 1;
        let (fattest, most) = if full {
            self.fattest().unwrap_or((id, own))
        } else {
            (id, own)
        };
        (trusted || most > own + 1) && self.drop_two_hop(fattest)
    }

    /// Returns the link to remove, or `None` if all are worth more than a newcomer.
    fn victim(&self, now: Time, trusted: bool) -> Option<LinkId> {
        let is_proven = |link: &Link<E>| self.standing(now, link) == Standing::Proven;
        let proven = self.links.values().filter(|link| is_proven(link)).count();
        let room_for_proven = self.params.max_links - self.params.max_links / 4;
        let untrusted = || {
            let links = self.links.iter();
            links.filter(|(_, link)| !self.is_link_trusted(link))
        };
        let newest = untrusted()
            .filter(|(_, link)| is_proven(link))
            .max_by_key(|(_, link)| link.since)
            .map(|(id, _)| *id);
        let unproven = untrusted().filter(|(_, link)| !is_proven(link));
        let any_unproven = self.links.iter().filter(|(_, link)| !is_proven(link));
        newest
            .filter(|_| proven > room_for_proven)
            .or_else(|| self.least(now, unproven))
            .or_else(|| newest.filter(|_| trusted))
            .or_else(|| self.least(now, any_unproven).filter(|_| trusted))
    }

    fn least<'a>(
        &'a self,
        now: Time,
        links: impl Iterator<Item = (&'a LinkId, &'a Link<E>)> + Clone,
    ) -> Option<LinkId> {
        let mut on_interface: BTreeMap<InterfaceId, usize> = BTreeMap::new();
        let mut of_source: BTreeMap<(InterfaceId, IpAddr), usize> = BTreeMap::new();
        for (_, link) in links.clone() {
            *on_interface.entry(link.interface).or_default() += 1;
            *of_source.entry((link.interface, link.source)).or_default() += 1;
        }
        let merit = |link: &Link<E>| -> Merit {
            let source = (link.interface, link.source);
            (
                Reverse(on_interface[&link.interface]),
                self.standing(now, link),
                Reverse(of_source[&source]),
                link.heard_at,
            )
        };
        links.min_by_key(|(_, link)| merit(link)).map(|(id, _)| *id)
    }

    fn standing(&self, now: Time, link: &Link<E>) -> Standing {
        if link.hellos < 2 && !link.returned {
            Standing::Once
        } else if link.hellos < 2 {
            Standing::Returned
        } else if !link.is_symmetric() {
            Standing::Refreshed
        } else if now.saturating_sub(link.since) < self.params.hold_time {
            Standing::Symmetric
        } else {
            Standing::Proven
        }
    }

    fn is_link_trusted(&self, link: &Link<E>) -> bool {
        let neighbour = self.neighbours.get(&link.neighbour);
        let mut addresses = neighbour
            .into_iter()
            .flat_map(|neighbour| &neighbour.addresses);
        addresses.any(|address| self.is_trusted(*address))
    }

    fn fattest(&self) -> Option<(LinkId, usize)> {
        let counts = self
            .links
            .iter()
            .map(|(id, link)| (*id, link.two_hops.len()));
        counts.max_by_key(|(_, count)| *count)
    }

    /// Removes one 2-hop tuple of a link whose address the operator does not trust. Returns whether there was one.
    fn drop_two_hop(&mut self, id: LinkId) -> bool {
        let Some(link) = self.links.get_mut(&id) else {
            return false;
        };
        let mut addresses = link.two_hops.keys().rev();
        let Some(address) = addresses
            .find(|address| !self.trusted.contains(address))
            .copied()
        else {
            return false;
        };
        link.two_hops.remove(&address);
        self.two_hop_count -= 1;
        self.changes.two_hops = true;
        true
    }
}
