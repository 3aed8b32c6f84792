//! Applies a received HELLO to the information bases (RFC 6130, section 12).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use crate::hello::{Hello, HelloNeighbour};
use crate::neighbourhood::Neighbourhood;
use crate::tuples::{Extension, Link, LinkId, Neighbour, NeighbourId, TwoHop};
use crate::types::{InterfaceId, LinkStatus, Time};

/// Why a valid HELLO changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The receiving interface is not in the local interface set.
    UnknownInterface,
    /// The sender claims an address that belongs to this router, or did until recently (RFC 6130, section 12.1).
    OwnAddress(IpAddr),
    /// The link set is full of proven or trusted links.
    TooManyLinks,
}

impl<E: Extension> Neighbourhood<E> {
    /// Processes a HELLO that arrived on `interface` from `source`. Returns the link tuple that it created or
    /// refreshed.
    ///
    /// # Errors
    ///
    /// See [`Rejected`]. Nothing is changed then.
    pub fn process(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        hello: &Hello,
    ) -> Result<LinkId, Rejected> {
        let (sending, addresses) = address_lists(source, hello);
        self.check(now, interface, &sending, &addresses)?;
        let neighbour = self.update_neighbour(now, addresses);
        let id = self.update_link(now, interface, neighbour, source, sending);
        self.refresh_link(now, id, hello);
        self.limit_links_of(now, neighbour, id);
        self.settle_link(now, id);
        self.settle_neighbour(now, neighbour);
        self.update_two_hops(now, id, hello);
        Ok(id)
    }

    fn check(
        &mut self,
        now: Time,
        interface: InterfaceId,
        sending: &BTreeSet<IpAddr>,
        addresses: &BTreeSet<IpAddr>,
    ) -> Result<(), Rejected> {
        if !self.interfaces.contains_key(&interface) {
            return Err(Rejected::UnknownInterface);
        }
        if let Some(own) = addresses.iter().find(|address| self.is_own(**address)) {
            return Err(Rejected::OwnAddress(*own));
        }
        let known = sending
            .iter()
            .any(|address| self.find_link(interface, *address).is_some());
        if !known && !self.make_link_room(now, addresses) {
            return Err(Rejected::TooManyLinks);
        }
        Ok(())
    }

    /// Returns the neighbour tuple for these addresses, created or merged if necessary (RFC 6130, sections 12.3 to
    /// 12.5).
    fn update_neighbour(&mut self, now: Time, addresses: BTreeSet<IpAddr>) -> NeighbourId {
        let matches: Vec<NeighbourId> = self
            .neighbours
            .iter()
            .filter(|(_, neighbour)| !neighbour.addresses.is_disjoint(&addresses))
            .map(|(id, _)| *id)
            .collect();
        for id in &matches {
            self.set_addresses(now, *id, &addresses);
        }
        let Some((id, others)) = matches.split_first() else {
            return self.add_neighbour(addresses);
        };
        for other in others {
            self.merge_neighbour(*id, *other);
        }
        *id
    }

    fn add_neighbour(&mut self, addresses: BTreeSet<IpAddr>) -> NeighbourId {
        let id = NeighbourId(self.new_id());
        let neighbour = Neighbour {
            addresses,
            symmetric: false,
            ext: E::Neighbour::default(),
        };
        self.neighbours.insert(id, neighbour);
        self.changes.links = true;
        id
    }

    fn merge_neighbour(&mut self, into: NeighbourId, from: NeighbourId) {
        let Some(old) = self.neighbours.remove(&from) else {
            return;
        };
        for link in self
            .links
            .values_mut()
            .filter(|link| link.neighbour == from)
        {
            link.neighbour = into;
        }
        if let Some(neighbour) = self.neighbours.get_mut(&into) {
            neighbour.symmetric |= old.symmetric;
        }
        self.changes.links = true;
    }

    /// Sets N_neighbor_addr_list. Addresses that are no longer in it are removed from the links, and are lost if the
    /// neighbour was symmetric.
    fn set_addresses(&mut self, now: Time, id: NeighbourId, addresses: &BTreeSet<IpAddr>) {
        let Some(neighbour) = self.neighbours.get_mut(&id) else {
            return;
        };
        if neighbour.addresses == *addresses {
            return;
        }
        let removed: Vec<IpAddr> = neighbour.addresses.difference(addresses).copied().collect();
        neighbour.addresses.clone_from(addresses);
        self.changes.links = true;
        if neighbour.symmetric {
            self.changes.neighbours = true;
            self.lose(now, removed.iter().copied());
        }
        self.remove_link_addresses(now, id, &removed);
    }

    fn remove_link_addresses(&mut self, now: Time, neighbour: NeighbourId, removed: &[IpAddr]) {
        let mut emptied = Vec::new();
        for (id, link) in self
            .links
            .iter_mut()
            .filter(|(_, link)| link.neighbour == neighbour)
        {
            link.addresses.retain(|address| !removed.contains(address));
            if link.addresses.is_empty() {
                emptied.push(*id);
            }
        }
        for id in emptied {
            self.unlink(now, id);
        }
    }

    /// Removes a link but keeps its neighbour, which is about to get another one.
    fn unlink(&mut self, now: Time, id: LinkId) {
        if let Some(neighbour) = self.links.get(&id).map(|link| link.neighbour) {
            let kept = self.neighbours.remove(&neighbour);
            self.remove_link(now, id);
            self.neighbours.extend(kept.map(|kept| (neighbour, kept)));
        }
    }

    /// Returns the link tuple for the sending interface, created or changed if necessary (RFC 6130, section 12.5).
    fn update_link(
        &mut self,
        now: Time,
        interface: InterfaceId,
        neighbour: NeighbourId,
        source: IpAddr,
        sending: BTreeSet<IpAddr>,
    ) -> LinkId {
        let same =
            |link: &Link<E>| link.interface == interface && !link.addresses.is_disjoint(&sending);
        let matches: Vec<LinkId> = self
            .links
            .iter()
            .filter(|(_, link)| same(link))
            .map(|(id, _)| *id)
            .collect();
        if let [id] = matches[..] {
            self.change_link(id, neighbour, source, sending);
            return id;
        }
        for id in matches {
            self.unlink(now, id);
        }
        self.add_link(now, interface, neighbour, source, sending)
    }

    fn change_link(
        &mut self,
        id: LinkId,
        neighbour: NeighbourId,
        source: IpAddr,
        sending: BTreeSet<IpAddr>,
    ) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        self.changes.links |= link.addresses != sending || link.source != source;
        link.addresses = sending;
        link.source = source;
        link.neighbour = neighbour;
    }

    fn add_link(
        &mut self,
        now: Time,
        interface: InterfaceId,
        neighbour: NeighbourId,
        source: IpAddr,
        addresses: BTreeSet<IpAddr>,
    ) -> LinkId {
        let id = LinkId(self.new_id());
        let returned = self.gave_way(interface, &addresses);
        let link = Link {
            interface,
            neighbour,
            addresses,
            source,
            heard_until: now,
            symmetric_until: now,
            expires: now,
            since: now,
            heard_at: now,
            hellos: 0,
            returned,
            status: LinkStatus::Lost,
            pending: false,
            lost: false,
            hello_interval: None,
            hello_validity: Default::default(),
            two_hops: BTreeMap::new(),
            ext: E::Link::default(),
        };
        self.links.insert(id, link);
        self.changes.links = true;
        id
    }

    /// Sets L_SYM_time, L_HEARD_time and L_time (RFC 6130, section 12.5). A link that is LOST because of its quality
    /// stays while HELLOs arrive, because the tuple stores that decision.
    fn refresh_link(&mut self, now: Time, id: LinkId, hello: &Hello) {
        let hold_time = self.params.hold_time;
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let own = self.interfaces.get(&link.interface);
        let own_status = own.and_then(|own| status_of(own, &hello.neighbours));
        match own_status {
            Some(LinkStatus::Symmetric | LinkStatus::Heard) => {
                link.symmetric_until = now + hello.validity
            }
            Some(LinkStatus::Lost) => link.symmetric_until = now,
            Some(LinkStatus::Pending) | None => {}
        }
        link.heard_until = link.symmetric_until.max(now + hello.validity);
        let advertised_for = if link.pending {
            Duration::ZERO
        } else {
            hold_time
        };
        link.expires = link.expires.max(link.heard_until + advertised_for);
        link.heard_at = now;
        link.hellos = link.hellos.saturating_add(1);
        link.hello_validity = hello.validity;
        link.hello_interval = hello.interval;
    }

    /// Sets the 2-hop tuples of a symmetric link (RFC 6130, section 12.6).
    fn update_two_hops(&mut self, now: Time, id: LinkId, hello: &Hello) {
        if !self.links.get(&id).is_some_and(Link::is_symmetric) {
            return;
        }
        for neighbour in &hello.neighbours {
            if neighbour.is_symmetric() && !self.is_own(neighbour.address) {
                self.set_two_hop(id, neighbour.address, now + hello.validity);
            } else {
                self.remove_two_hop(id, neighbour.address);
            }
        }
    }

    fn set_two_hop(&mut self, id: LinkId, address: IpAddr, expires: Time) {
        let known = |link: &mut Link<E>| {
            let two_hop = link.two_hops.get_mut(&address);
            two_hop.map(|two_hop| two_hop.expires = expires)
        };
        if self.links.get_mut(&id).and_then(known).is_some() || !self.make_two_hop_room(id, address)
        {
            return;
        }
        let ext = E::TwoHop::default();
        if let Some(link) = self.links.get_mut(&id) {
            link.two_hops.insert(address, TwoHop { expires, ext });
            self.two_hop_count += 1;
            self.changes.two_hops = true;
        }
    }

    fn remove_two_hop(&mut self, id: LinkId, address: IpAddr) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if link.two_hops.remove(&address).is_some() {
            self.two_hop_count -= 1;
            self.changes.two_hops = true;
        }
    }
}

/// Returns the sending address list and the neighbour address list (RFC 6130, section 12.2).
fn address_lists(source: IpAddr, hello: &Hello) -> (BTreeSet<IpAddr>, BTreeSet<IpAddr>) {
    let mut sending: BTreeSet<IpAddr> = hello.this_interface.iter().copied().collect();
    if sending.is_empty() {
        sending.insert(source);
    }
    let addresses = sending
        .iter()
        .copied()
        .chain(hello.local_addresses())
        .collect();
    (sending, addresses)
}

/// Returns the best LINK_STATUS that the sender gives to an address of the receiving interface.
fn status_of(own: &BTreeSet<IpAddr>, neighbours: &[HelloNeighbour]) -> Option<LinkStatus> {
    let of_own = neighbours
        .iter()
        .filter(|neighbour| own.contains(&neighbour.address));
    of_own.filter_map(|neighbour| neighbour.link).max()
}
