//! Who the neighbours are, and from which addresses they send.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use nhdp::{InterfaceId, NeighbourId};
use rfc5444::Metric;

use super::Instance;
use crate::extension::{symmetric_links, OlsrNeighbour};

impl Instance {
    pub(super) fn symmetric_neighbours(
        &self,
    ) -> impl Iterator<Item = (NeighbourId, &OlsrNeighbour)> {
        self.nhdp
            .neighbours()
            .filter(|(_, neighbour)| neighbour.symmetric && neighbour.ext.originator.is_some())
    }

    /// The 2-hop addresses that a neighbour offers on any link, each with its least metric.
    pub(super) fn two_hops(
        &self,
        id: NeighbourId,
        metric: impl Fn(&crate::extension::TwoHopExt) -> Option<Metric>,
    ) -> BTreeMap<IpAddr, Metric> {
        let mut two_hops: BTreeMap<IpAddr, Metric> = BTreeMap::new();
        for (address, two_hop) in symmetric_links(&self.nhdp, id).flat_map(|link| &link.two_hops) {
            if let Some(metric) = metric(&two_hop.ext) {
                let least = two_hops.entry(*address).or_insert(metric);
                *least = metric.min(*least);
            }
        }
        two_hops
    }

    /// Returns whether an address is the originator of a symmetric neighbour.
    pub(crate) fn is_neighbour(&self, originator: IpAddr) -> bool {
        let mut neighbours = self.nhdp.neighbours();
        neighbours.any(|(_, one)| one.symmetric && one.ext.originator == Some(originator))
    }

    /// Returns whether a symmetric neighbour has this originator, does not sign, and does not send from `source`.
    pub(crate) fn has_unsigned_neighbour(&self, originator: IpAddr, source: IpAddr) -> bool {
        let mut neighbours = self.symmetric_neighbours();
        neighbours.any(|(id, one)| {
            one.ext.originator == Some(originator)
                && !one.ext.signed
                && !self.speaks_for(id, one, source)
        })
    }

    /// Returns whether the neighbour with this originator, of the other family if `other_family`, sends from `source`.
    pub(crate) fn is_from(&self, originator: IpAddr, source: IpAddr, other_family: bool) -> bool {
        self.nhdp.neighbours().any(|(id, neighbour)| {
            let ext = &neighbour.ext;
            let own = if other_family {
                ext.other_originator
            } else {
                ext.originator
            };
            own == Some(originator) && self.speaks_for(id, neighbour, source)
        })
    }

    /// Returns whether a symmetric neighbour with this originator announces a link with the neighbour that sends from
    /// `source`.
    pub(crate) fn is_heard_by(&self, originator: IpAddr, source: IpAddr) -> bool {
        let mut neighbours = self.symmetric_neighbours();
        let sender = neighbours.find(|(id, one)| self.speaks_for(*id, one, source));
        let Some((_, sender)) = sender else {
            return false;
        };
        let mut neighbours = self.symmetric_neighbours();
        let theirs = neighbours.find(|(_, one)| one.ext.originator == Some(originator));
        theirs.is_some_and(|(id, _)| {
            let mut names = sender.addresses.iter().chain(&sender.ext.originator);
            names.any(|name| {
                symmetric_links(&self.nhdp, id).any(|link| link.two_hops.contains_key(name))
            })
        })
    }

    /// Returns whether a neighbour sends from `source`, on any interface.
    pub(super) fn speaks_for(
        &self,
        id: NeighbourId,
        neighbour: &OlsrNeighbour,
        source: IpAddr,
    ) -> bool {
        let mut links = self.nhdp.links();
        neighbour.addresses.contains(&source)
            || links.any(|(_, link)| link.neighbour == id && link.source == source)
    }

    /// Whether the neighbour that sends from `source` selected this router as flooding MPR; `None` when it
    /// is no symmetric neighbour.
    pub(crate) fn is_flooding_selector(
        &self,
        interface: InterfaceId,
        source: IpAddr,
    ) -> Option<bool> {
        let link = self.nhdp.link(self.nhdp.find_link(interface, source)?)?;
        link.is_symmetric().then_some(link.ext.selector)
    }
}
