//! HELLO generation (RFC 6130, sections 10.1 and 11.1).

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use rfc5444::iana::{address_tlv, link_status, local_if, message, message_tlv, other_neighb};
use rfc5444::time::encode_time;
use rfc5444::{AddressEntry, Message, Prefix, Tlv};

use crate::neighbourhood::Neighbourhood;
use crate::tuples::{Extension, LinkId, NeighbourId};
use crate::types::{Family, InterfaceId, LinkStatus};

/// What a HELLO announces about one neighbour address.
#[derive(Default)]
struct Statement {
    link: Option<LinkId>,
    neighbour: Option<NeighbourId>,
}

impl<E: Extension> Neighbourhood<E> {
    /// Returns the complete HELLO for an interface. `decorate` may add TLVs to the address of a link, of a symmetric
    /// neighbour, or of both.
    pub fn hello(
        &self,
        interface: InterfaceId,
        family: Family,
        interval: Duration,
        validity: Duration,
        mut decorate: impl FnMut(Option<LinkId>, Option<NeighbourId>, &mut AddressEntry),
    ) -> Message {
        let mut hello = Message::without_originator(message::HELLO, family.address_length());
        hello.tlvs = vec![
            Tlv::new(message_tlv::INTERVAL_TIME, 0, [encode_time(interval)]),
            Tlv::new(message_tlv::VALIDITY_TIME, 0, [encode_time(validity)]),
        ];
        hello.addresses = self.local_entries(interface);
        for (address, statement) in self.statements(interface) {
            let mut entry = AddressEntry::new(Prefix::host(address));
            entry.tlvs = self.status_tlvs(&statement);
            decorate(statement.link, statement.neighbour, &mut entry);
            hello.addresses.push(entry);
        }
        hello
    }

    /// Returns all local addresses with LOCAL_IF. An address on several interfaces is THIS_IF if one of them is
    /// `interface`.
    fn local_entries(&self, interface: InterfaceId) -> Vec<AddressEntry> {
        let mut addresses: BTreeMap<IpAddr, u8> = BTreeMap::new();
        let others = self
            .other_addresses
            .iter()
            .chain(self.interfaces.values().flatten());
        addresses.extend(others.map(|address| (*address, local_if::OTHER_IF)));
        let own = self.interfaces.get(&interface).into_iter().flatten();
        addresses.extend(own.map(|address| (*address, local_if::THIS_IF)));
        let entry = |(address, value)| AddressEntry {
            prefix: Prefix::host(address),
            tlvs: vec![Tlv::new(address_tlv::LOCAL_IF, 0, [value])],
        };
        addresses.into_iter().map(entry).collect()
    }

    fn statements(&self, interface: InterfaceId) -> BTreeMap<IpAddr, Statement> {
        let mut statements: BTreeMap<IpAddr, Statement> = BTreeMap::new();
        for address in self.lost.keys() {
            statements.entry(*address).or_default();
        }
        for (id, neighbour) in self
            .neighbours
            .iter()
            .filter(|(_, neighbour)| neighbour.symmetric)
        {
            for address in &neighbour.addresses {
                statements.entry(*address).or_default().neighbour = Some(*id);
            }
        }
        let links = self
            .links
            .iter()
            .filter(|(_, link)| link.interface == interface);
        for (id, link) in links.filter(|(_, link)| link.status != LinkStatus::Pending) {
            for address in &link.addresses {
                statements.entry(*address).or_default().link = Some(*id);
            }
        }
        statements
    }

    /// Returns LINK_STATUS and OTHER_NEIGHB of an address. A symmetric link makes OTHER_NEIGHB superfluous.
    fn status_tlvs(&self, statement: &Statement) -> Vec<Tlv> {
        let status = statement
            .link
            .and_then(|id| self.links.get(&id))
            .map(|link| link.status);
        let mut tlvs = Vec::new();
        if let Some(status) = status.and_then(link_status_value) {
            tlvs.push(Tlv::new(address_tlv::LINK_STATUS, 0, [status]));
        }
        match (status, statement.neighbour) {
            (Some(LinkStatus::Symmetric), _) | (Some(_), None) => {}
            (_, Some(_)) => tlvs.push(Tlv::new(
                address_tlv::OTHER_NEIGHB,
                0,
                [other_neighb::SYMMETRIC],
            )),
            (None, None) => tlvs.push(Tlv::new(address_tlv::OTHER_NEIGHB, 0, [other_neighb::LOST])),
        }
        tlvs
    }
}

fn link_status_value(status: LinkStatus) -> Option<u8> {
    match status {
        LinkStatus::Pending => None,
        LinkStatus::Lost => Some(link_status::LOST),
        LinkStatus::Heard => Some(link_status::HEARD),
        LinkStatus::Symmetric => Some(link_status::SYMMETRIC),
    }
}
