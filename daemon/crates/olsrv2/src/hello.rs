//! What OLSRv2 reads from and writes into HELLO messages (RFC 7181, section 15).

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use nhdp::{InterfaceId, LinkId, LinkStatus, NeighbourId};
use rfc5444::iana::{address_tlv, link_metric, message_tlv, mpr, willingness};
use rfc5444::metric::{compress, decompress};
use rfc5444::{AddressEntry, Message, Metric, Tlv};

use crate::config::Config;
use crate::extension::{link_metric_in, neighbour_metrics, Neighbours};

/// olsrd2's private message TLV with the IPv4 originator of the sender of an IPv6 HELLO.
const IPV4_ORIGINATOR_TLV: u8 = 226;
/// olsrd2's private message TLV with the hardware address of the sending interface.
const MAC_TLV: u8 = 227;

/// The OLSRv2 part of a HELLO.
#[derive(Debug)]
pub(crate) struct HelloInfo {
    originator: Option<IpAddr>,
    other_originator: Option<IpAddr>,
    mac: Option<[u8; 6]>,
    will_flooding: u8,
    will_routing: u8,
    addresses: BTreeMap<IpAddr, AddressInfo>,
}

/// What a HELLO says of one address.
#[derive(Debug, Default)]
struct AddressInfo {
    in_link: Option<Metric>,
    in_neighbour: Option<Metric>,
    out_neighbour: Option<Metric>,
    mpr: u8,
}

impl HelloInfo {
    pub(crate) fn read(message: &Message) -> Self {
        let (will_flooding, will_routing) = read_willingness(message);
        Self {
            originator: message.originator,
            other_originator: read_ipv4_originator(message),
            mac: message
                .tlv(MAC_TLV, 0)
                .and_then(|tlv| tlv.value[..].try_into().ok()),
            will_flooding,
            will_routing,
            addresses: read_addresses(message),
        }
    }

    /// Updates the tuples that the HELLO concerns (RFC 7181, section 15.3.2).
    /// Says whether anything changed on which MPRs, TCs or routes depend.
    pub(crate) fn apply(&self, nhdp: &mut Neighbours, id: LinkId) -> bool {
        let Some((interface, neighbour)) =
            nhdp.link(id).map(|link| (link.interface, link.neighbour))
        else {
            return false;
        };
        let mut changed = self.apply_to_neighbour(nhdp, neighbour);
        changed |= self.apply_to_link(nhdp, id, interface);
        changed |= self.apply_to_two_hops(nhdp, id);
        changed
    }

    fn apply_to_neighbour(&self, nhdp: &mut Neighbours, id: NeighbourId) -> bool {
        let own = self
            .addresses
            .iter()
            .filter(|(address, _)| nhdp.is_local(**address));
        let named = own
            .map(|(_, info)| info.mpr & mpr::ROUTING != 0)
            .reduce(|a, b| a | b);
        self.take_originator_from_others(nhdp, id);
        let Some(neighbour) = nhdp.neighbour_mut(id) else {
            return false;
        };
        let ext = &mut neighbour.ext;
        let selector = named.unwrap_or(ext.selector);
        let changed = replace(&mut ext.originator, self.originator)
            | replace(&mut ext.other_originator, self.other_originator)
            | replace(&mut ext.will_flooding, self.will_flooding)
            | replace(&mut ext.will_routing, self.will_routing);
        changed | replace(&mut ext.selector, selector)
    }

    /// An originator belongs to the neighbour that used it last.
    fn take_originator_from_others(&self, nhdp: &mut Neighbours, id: NeighbourId) {
        let same = nhdp.neighbours_mut().filter(|(other, neighbour)| {
            *other != id && self.originator.is_some() && neighbour.ext.originator == self.originator
        });
        same.for_each(|(_, neighbour)| neighbour.ext.originator = None);
    }

    fn apply_to_link(&self, nhdp: &mut Neighbours, id: LinkId, interface: InterfaceId) -> bool {
        let own: Vec<&AddressInfo> = nhdp
            .interfaces()
            .filter(|(own, _)| *own == interface)
            .flat_map(|(_, addresses)| addresses)
            .filter_map(|address| self.addresses.get(address))
            .collect();
        let Some(link) = nhdp.link_mut(id) else {
            return false;
        };
        let mut changed = replace(&mut link.ext.mac, self.mac);
        if !own.is_empty() {
            let metric = own.iter().find_map(|info| info.in_link);
            let selector =
                link.is_symmetric() && own.iter().any(|info| info.mpr & mpr::FLOODING != 0);
            changed |= replace(&mut link.ext.metric_out, metric);
            changed |= replace(&mut link.ext.selector, selector);
        }
        changed
    }

    fn apply_to_two_hops(&self, nhdp: &mut Neighbours, id: LinkId) -> bool {
        let Some(link) = nhdp.link_mut(id) else {
            return false;
        };
        let mut changed = false;
        for (address, two_hop) in &mut link.two_hops {
            if let Some(info) = self.addresses.get(address) {
                changed |= replace(&mut two_hop.ext.metric_in, info.in_neighbour);
                changed |= replace(&mut two_hop.ext.metric_out, info.out_neighbour);
            }
        }
        changed
    }
}

/// Writes the message TLV that tells the willingness of this router (RFC 7181, section 13.3.1).
pub(crate) fn willingness_tlv(config: &Config) -> Tlv {
    let [flooding, routing] = [config.flooding_willingness, config.routing_willingness]
        .map(|value| value.min(willingness::ALWAYS));
    Tlv::new(message_tlv::MPR_WILLING, 0, [(flooding << 4) | routing])
}

/// Adds LINK_METRIC and MPR to a neighbour's address in a HELLO (RFC 7181, section 15.1).
pub(crate) fn decorate(
    nhdp: &Neighbours,
    default: Metric,
    link: Option<LinkId>,
    neighbour: Option<NeighbourId>,
    entry: &mut AddressEntry,
) {
    let mut metrics = Vec::new();
    let mut roles = 0;
    if let Some(link) = link.and_then(|id| nhdp.link(id)) {
        if link.status >= LinkStatus::Heard {
            metrics.push((
                link_metric::INCOMING_LINK,
                Some(link_metric_in(link, default)),
            ));
        }
        if link.is_symmetric() {
            metrics.push((link_metric::OUTGOING_LINK, link.ext.metric_out));
            roles |= if link.ext.flooding_mpr {
                mpr::FLOODING
            } else {
                0
            };
        }
    }
    if let Some((id, neighbour)) = neighbour.and_then(|id| Some((id, nhdp.neighbour(id)?))) {
        let of_neighbour = neighbour_metrics(nhdp, id, default);
        metrics.push((link_metric::INCOMING_NEIGHBOR, of_neighbour.metric_in));
        metrics.push((link_metric::OUTGOING_NEIGHBOR, of_neighbour.metric_out));
        roles |= if neighbour.ext.routing_mpr {
            mpr::ROUTING
        } else {
            0
        };
    }
    entry.tlvs.extend(metric_tlvs(&metrics));
    if roles != 0 {
        entry.tlvs.push(Tlv::new(address_tlv::MPR, 0, [roles]));
    }
}

/// LINK_METRIC TLVs; kinds with the same value share one (RFC 7181, section 13.3.2).
pub(crate) fn metric_tlvs(metrics: &[(u16, Option<Metric>)]) -> Vec<Tlv> {
    let mut words: Vec<u16> = vec![];
    for (kind, code) in metrics
        .iter()
        .filter_map(|(kind, metric)| Some((kind, compress((*metric)?))))
    {
        match words
            .iter_mut()
            .find(|word| **word & link_metric::CODE == code)
        {
            Some(word) => *word |= kind,
            None => words.push(kind | code),
        }
    }
    words
        .into_iter()
        .map(|word| Tlv::new(address_tlv::LINK_METRIC, 0, word.to_be_bytes()))
        .collect()
}

/// The metric of a kind among the LINK_METRIC TLVs of an address.
pub(crate) fn read_metric(entry: &AddressEntry, kind: u16) -> Option<Metric> {
    let words = entry
        .tlvs_of(address_tlv::LINK_METRIC, 0)
        .filter_map(|tlv| Some(u16::from_be_bytes(tlv.value[..].try_into().ok()?)));
    words
        .filter(|word| word & kind != 0)
        .map(|word| decompress(word & link_metric::CODE))
        .next()
}

fn read_willingness(message: &Message) -> (u8, u8) {
    match message
        .tlv(message_tlv::MPR_WILLING, 0)
        .map(|tlv| &tlv.value[..])
    {
        Some([value, ..]) => (value >> 4, value & 0x0f),
        _ => (willingness::DEFAULT, willingness::DEFAULT),
    }
}

fn read_ipv4_originator(message: &Message) -> Option<IpAddr> {
    let octets: [u8; 4] = message.tlv(IPV4_ORIGINATOR_TLV, 0)?.value[..]
        .try_into()
        .ok()?;
    Some(Ipv4Addr::from(octets).into())
}

fn read_addresses(message: &Message) -> BTreeMap<IpAddr, AddressInfo> {
    let mut addresses: BTreeMap<IpAddr, AddressInfo> = BTreeMap::new();
    for entry in message
        .addresses
        .iter()
        .filter(|entry| entry.prefix.is_host())
    {
        let info = addresses.entry(entry.prefix.addr).or_default();
        info.in_link = info
            .in_link
            .or(read_metric(entry, link_metric::INCOMING_LINK));
        info.in_neighbour = info
            .in_neighbour
            .or(read_metric(entry, link_metric::INCOMING_NEIGHBOR));
        info.out_neighbour = info
            .out_neighbour
            .or(read_metric(entry, link_metric::OUTGOING_NEIGHBOR));
        info.mpr |= entry
            .tlv(address_tlv::MPR, 0)
            .and_then(|tlv| tlv.value.first())
            .unwrap_or(&0);
    }
    addresses
}

/// Sets `slot` and says whether that changed it.
fn replace<T: PartialEq>(slot: &mut T, value: T) -> bool {
    let changed = *slot != value;
    *slot = value;
    changed
}
