//! What OLSRv2 reads from and writes into HELLO messages (RFC 7181, section 15).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use nhdp::{Hello, LinkId, LinkStatus, NeighbourId, Time};
use rfc5444::iana::{address_tlv, link_metric, message_tlv, mpr, willingness};
use rfc5444::metric::{compress, decompress};
use rfc5444::{AddressEntry, Message, Metric, Tlv};

use crate::config::Config;
use crate::extension::{link_metric_in, neighbour_metrics, Neighbours, OlsrLink};
use crate::quote::{quote_tlv, quoted, read_quote};
use crate::signatures::{is_recent, Proof, Quote};

/// olsrd2's private message TLV with the IPv4 originator of the sender of an IPv6 HELLO.
const IPV4_ORIGINATOR_TLV: u8 = 226;
/// olsrd2's private message TLV with the hardware address of the sending interface.
const MAC_TLV: u8 = 227;

/// The OLSRv2 part of a HELLO.
#[derive(Debug)]
pub(crate) struct HelloInfo {
    /// The message originator, if it is well defined.
    pub originator: Option<IpAddr>,
    other_originator: Option<IpAddr>,
    mac: Option<[u8; 6]>,
    /// WILL_FLOODING and WILL_ROUTING; `None` comes from a router without OLSRv2.
    willingness: Option<(u8, u8)>,
    addresses: BTreeMap<IpAddr, AddressInfo>,
    /// What its verified signature says.
    proof: Option<Proof>,
}

/// What a HELLO says of one address.
#[derive(Debug, Default)]
struct AddressInfo {
    link: Option<LinkStatus>,
    in_link: Option<Metric>,
    in_neighbour: Option<Metric>,
    out_neighbour: Option<Metric>,
    mpr: u8,
    /// The low half of the counter that the sender has heard last from this neighbour.
    quote: Option<Quote>,
}

/// Why OLSRv2 discards a HELLO that NHDP would process (RFC 7181, section 15.3.1). All are the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelloFault {
    /// More than one MPR_WILLING.
    Willingness,
    /// The sender's originator is a neighbour of it.
    OriginatorIsNeighbour(IpAddr),
    /// An address with two link metrics of one kind and direction.
    Metrics(IpAddr),
    /// An MPR without a symmetric link.
    Mpr(IpAddr),
}

impl HelloInfo {
    /// Reads what OLSRv2 added to a HELLO that came from `source`.
    ///
    /// # Errors
    ///
    /// See [`HelloFault`].
    pub(crate) fn read(
        message: &Message,
        hello: &Hello,
        source: IpAddr,
        proof: Option<Proof>,
    ) -> Result<Self, HelloFault> {
        let info = Self {
            originator: read_originator(hello, source),
            other_originator: read_ipv4_originator(message),
            mac: message
                .tlv(MAC_TLV, 0)
                .and_then(|tlv| tlv.value[..].try_into().ok()),
            willingness: read_willingness(message)?,
            addresses: read_addresses(message, hello)?,
            proof,
        };
        for neighbour in &hello.neighbours {
            if info.originator == Some(neighbour.address) {
                return Err(HelloFault::OriginatorIsNeighbour(neighbour.address));
            }
        }
        Ok(info)
    }

    /// The incoming link metric that the sender gives to the interface with
    /// these addresses: L_out_metric of the link (RFC 7181, section 15.3.2.1).
    ///
    /// # Errors
    ///
    /// Two addresses of the interface with different metrics (RFC 7181, section 15.3.1).
    pub(crate) fn metric_out(&self, own: &BTreeSet<IpAddr>) -> Result<Option<Metric>, HelloFault> {
        let mut metric = None;
        for address in own {
            let info = self.addresses.get(address);
            let heard = info.filter(|info| info.link >= Some(LinkStatus::Heard));
            set_once(&mut metric, heard.and_then(|info| info.in_link))
                .map_err(|()| HelloFault::Metrics(*address))?;
        }
        Ok(metric.filter(|_| self.is_usable()))
    }

    /// Returns whether the sender proves that it has heard this router lately: it quotes a counter that is not below
    /// `floor`. A replayed HELLO cannot.
    pub(crate) fn has_heard(&self, own: &BTreeSet<IpAddr>, floor: u64) -> bool {
        let mut quotes = own
            .iter()
            .filter_map(|address| self.addresses.get(address)?.quote);
        quotes.any(|quote| is_recent(quote, floor))
    }

    /// Returns whether its sender has signed it.
    pub(crate) fn is_signed(&self) -> bool {
        self.proof.is_some()
    }

    /// Updates the tuples that the HELLO concerns (RFC 7181, section 15.3.2).
    /// Says whether anything changed on which MPRs, TCs or routes depend.
    pub(crate) fn apply(
        &self,
        now: Time,
        nhdp: &mut Neighbours,
        id: LinkId,
        metric_out: Option<Metric>,
    ) -> bool {
        let Some(neighbour) = nhdp.link(id).map(|link| link.neighbour) else {
            return false;
        };
        if !self.is_usable() {
            return false;
        }
        self.remove_others(now, nhdp, neighbour);
        let mut changed = self.apply_to_link(nhdp, id, metric_out);
        changed |= self.apply_to_neighbour(nhdp, neighbour);
        changed |= self.apply_to_two_hops(nhdp, id);
        changed
    }

    /// Whether the HELLO comes from an OLSRv2 router with a well-defined originator.
    fn is_usable(&self) -> bool {
        self.originator.is_some() && self.willingness.is_some()
    }

    /// An originator belongs to the neighbour that used it last.
    fn remove_others(&self, now: Time, nhdp: &mut Neighbours, id: NeighbourId) {
        let same = nhdp.neighbours().filter(|(other, neighbour)| {
            *other != id && neighbour.ext.originator == self.originator
        });
        for other in same.map(|(other, _)| other).collect::<Vec<_>>() {
            nhdp.remove_neighbour(now, other);
        }
    }

    fn apply_to_link(&self, nhdp: &mut Neighbours, id: LinkId, metric_out: Option<Metric>) -> bool {
        let selector = self.selects(nhdp, mpr::FLOODING);
        let Some(link) = nhdp.link_mut(id) else {
            return false;
        };
        link.ext.counter = self.proof.map(|proof| proof.counter);
        let mut changed = replace(&mut link.ext.mac, self.mac);
        if link.is_symmetric() {
            let metric_out = metric_out.or(link.ext.metric_out);
            let selector = selector.unwrap_or(link.ext.selector);
            changed |= replace(&mut link.ext.metric_out, metric_out);
            changed |= replace(&mut link.ext.selector, selector);
        }
        changed
    }

    fn apply_to_neighbour(&self, nhdp: &mut Neighbours, id: NeighbourId) -> bool {
        let selector = self.selects(nhdp, mpr::ROUTING);
        let Some(neighbour) = nhdp.neighbour_mut(id) else {
            return false;
        };
        let ext = &mut neighbour.ext;
        let selector = selector.unwrap_or(ext.selector);
        let (will_flooding, will_routing) = self.willingness.unwrap_or_default();
        let changed = replace(&mut ext.originator, self.originator)
            | replace(&mut ext.other_originator, self.other_originator)
            | replace(&mut ext.will_flooding, will_flooding)
            | replace(&mut ext.will_routing, will_routing)
            | replace(&mut ext.signed, self.is_signed());
        changed | replace(&mut ext.selector, selector)
    }

    /// Whether the sender selected this router for an MPR role, if the HELLO
    /// tells (RFC 7181, section 15.3.2.3).
    fn selects(&self, nhdp: &Neighbours, role: u8) -> Option<bool> {
        let own = nhdp.interfaces().flat_map(|(_, addresses)| addresses);
        let symmetric = own
            .filter_map(|address| self.addresses.get(address))
            .filter(|info| info.link == Some(LinkStatus::Symmetric));
        symmetric
            .map(|info| info.mpr & role != 0)
            .reduce(|a, b| a | b)
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
                two_hop.ext.quote = info.quote;
            }
        }
        changed
    }
}

/// Writes the message TLV with the willingness of this router (RFC 7181, section 13.3.1).
pub(crate) fn willingness_tlv(config: &Config) -> Tlv {
    let [flooding, routing] = [config.flooding_willingness, config.routing_willingness]
        .map(|value| value.min(willingness::ALWAYS));
    Tlv::new(message_tlv::MPR_WILLING, 0, [(flooding << 4) | routing])
}

/// Writes olsrd2's private message TLV with the hardware address of the sending interface.
pub(crate) fn mac_tlv(mac: [u8; 6]) -> Tlv {
    Tlv::new(MAC_TLV, 0, mac)
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
    entry.tlvs.extend(quote_tlv(quoted(nhdp, link, neighbour)));
    if let Some(link) = link.and_then(|id| nhdp.link(id)) {
        if link.status >= LinkStatus::Heard {
            metrics.push((
                link_metric::INCOMING_LINK,
                Some(link_metric_in(link, default)),
            ));
        }
        if link.is_symmetric() {
            metrics.push((link_metric::OUTGOING_LINK, link.ext.metric_out));
            roles = mpr_roles(nhdp, link);
        }
    }
    if let Some(id) = neighbour {
        let of_neighbour = neighbour_metrics(nhdp, id, default);
        metrics.push((link_metric::INCOMING_NEIGHBOR, of_neighbour.metric_in));
        metrics.push((link_metric::OUTGOING_NEIGHBOR, of_neighbour.metric_out));
    }
    entry.tlvs.extend(metric_tlvs(&metrics));
    if roles != 0 {
        entry.tlvs.push(Tlv::new(address_tlv::MPR, 0, [roles]));
    }
}

/// The roles for which this router selected the neighbour of a symmetric link.
fn mpr_roles(nhdp: &Neighbours, link: &OlsrLink) -> u8 {
    let neighbour = nhdp.neighbour(link.neighbour);
    let routing = neighbour.is_some_and(|neighbour| neighbour.ext.routing_mpr);
    let role = |selected, role| if selected { role } else { 0 };
    role(link.ext.flooding_mpr, mpr::FLOODING) | role(routing, mpr::ROUTING)
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

/// Sets `metric` to the one of a kind among the LINK_METRIC TLVs of an
/// address; an error when there are different ones, or another one already.
pub(crate) fn read_metric(
    metric: &mut Option<Metric>,
    entry: &AddressEntry,
    kind: u16,
) -> Result<(), ()> {
    for tlv in entry.tlvs_of(address_tlv::LINK_METRIC, 0) {
        let word = u16::from_be_bytes([octet(&tlv.value, 0), octet(&tlv.value, 1)]);
        if word & kind != 0 {
            set_once(metric, Some(decompress(word & link_metric::CODE)))?;
        }
    }
    Ok(())
}

/// An octet of a TLV value; an absent one is 0 (RFC 7188, section 4.2).
pub(crate) fn octet(value: &[u8], index: usize) -> u8 {
    value.get(index).copied().unwrap_or(0)
}

fn read_originator(hello: &Hello, source: IpAddr) -> Option<IpAddr> {
    let mut local = hello.local_addresses();
    hello.originator.or(match (local.next(), local.next()) {
        (None, _) => Some(source),
        (only, None) => only,
        _ => None,
    })
}

fn read_willingness(message: &Message) -> Result<Option<(u8, u8)>, HelloFault> {
    let is_willingness = |tlv: &&Tlv| tlv.is(message_tlv::MPR_WILLING, 0);
    let mut tlvs = message.tlvs.iter().filter(is_willingness);
    match (tlvs.next().map(|tlv| octet(&tlv.value, 0)), tlvs.next()) {
        (_, Some(_)) => Err(HelloFault::Willingness),
        (value, None) => Ok(value.map(|value| (value >> 4, value & 0x0f))),
    }
}

fn read_ipv4_originator(message: &Message) -> Option<IpAddr> {
    let octets: [u8; 4] = message.tlv(IPV4_ORIGINATOR_TLV, 0)?.value[..]
        .try_into()
        .ok()?;
    Some(Ipv4Addr::from(octets).into())
}

fn read_addresses(
    message: &Message,
    hello: &Hello,
) -> Result<BTreeMap<IpAddr, AddressInfo>, HelloFault> {
    let mut addresses: BTreeMap<IpAddr, AddressInfo> = BTreeMap::new();
    for neighbour in &hello.neighbours {
        addresses.entry(neighbour.address).or_default().link = neighbour.link;
    }
    let hosts = message.addresses.iter();
    for entry in hosts.filter(|entry| entry.prefix.is_host()) {
        let address = entry.prefix.addr;
        let info = addresses.entry(address).or_default();
        info.read(entry)
            .map_err(|()| HelloFault::Metrics(address))?;
        if info.mpr != 0 && info.link != Some(LinkStatus::Symmetric) {
            return Err(HelloFault::Mpr(address));
        }
    }
    Ok(addresses)
}

impl AddressInfo {
    fn read(&mut self, entry: &AddressEntry) -> Result<(), ()> {
        read_metric(&mut self.in_link, entry, link_metric::INCOMING_LINK)?;
        read_metric(
            &mut self.in_neighbour,
            entry,
            link_metric::INCOMING_NEIGHBOR,
        )?;
        read_metric(
            &mut self.out_neighbour,
            entry,
            link_metric::OUTGOING_NEIGHBOR,
        )?;
        self.quote = read_quote(entry).or(self.quote);
        let roles = entry.tlvs_of(address_tlv::MPR, 0);
        self.mpr |= roles.fold(0, |roles, tlv| roles | octet(&tlv.value, 0));
        Ok(())
    }
}

/// Sets an empty slot; an error when it holds another value.
fn set_once<T: PartialEq + Copy>(slot: &mut Option<T>, value: Option<T>) -> Result<(), ()> {
    let contradicts = value.is_some() && slot.is_some() && *slot != value;
    *slot = slot.or(value);
    if contradicts {
        return Err(());
    }
    Ok(())
}

/// Sets `slot` and says whether that changed it.
fn replace<T: PartialEq>(slot: &mut T, value: T) -> bool {
    let changed = *slot != value;
    *slot = value;
    changed
}
