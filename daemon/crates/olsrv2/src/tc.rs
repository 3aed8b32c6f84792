//! TC messages as checked values (RFC 7181, sections 13.3 and 16).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use rfc5444::iana::{address_tlv, cont_seq_num, link_metric, message, message_tlv, nbr_addr_type};
use rfc5444::metric::compress;
use rfc5444::time::{encode_time, time_at_distance};
use rfc5444::{AddressEntry, EncodeError, Message, Metric, Prefix, Tlv};

use crate::address::is_routable;
use crate::hello::{metric_tlvs, octet, read_metric};
use crate::quote::{quote_tlv, read_quote};
use crate::signatures::{Proof, Quote};
use crate::tc_error::TcError;

/// TC_HOP_LIMIT (RFC 7181, section 5.4.7): the whole network.
const TC_HOP_LIMIT: u8 = 255;

/// Private message TLV of a TC that advertises all symmetric neighbours of its originator (docs/development/rfc-coverage/rfc7181.md).
const ALL_NEIGHBOURS_TLV: u8 = 228;

/// The most octets that an advertised address adds to a TC, with four TLVs of its own.
const MAX_ENTRY_SIZE: usize = 17 + 2 * 6 + 5 + 8;

/// The most octets of a TC: with IPv6, UDP and packet headers it fits into one IP datagram.
pub(crate) const MAX_TC_SIZE: usize = 65_400;

/// The most octets of a TC without addresses: message header, message TLVs, address block header.
const MAX_HEADER_SIZE: usize = 22 + 20 + 20;

/// A valid TC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tc {
    pub originator: IpAddr,
    pub seq: u16,
    pub ansn: u16,
    pub complete: bool,
    pub interval: Option<Duration>,
    pub validity: Duration,
    pub content: Content,
    /// Neighbours without a metric: no longer advertised.
    pub lost_neighbours: BTreeSet<IpAddr>,
    /// Attached networks without a metric: no longer advertised.
    pub lost_networks: BTreeSet<Prefix>,
    /// What the originator quotes of its neighbours' counters, by originator.
    pub quotes: BTreeMap<IpAddr, Quote>,
    /// What its verified signature says.
    pub proof: Option<Proof>,
}

/// What a TC advertises.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// It lists all symmetric neighbours and not only the routing MPR selectors. A router that is missing in it is
    /// therefore no symmetric neighbour.
    pub all: bool,
    /// Addresses of advertised neighbours.
    pub neighbours: BTreeMap<IpAddr, NeighbourAddress>,
    /// Attached networks.
    pub attached: BTreeMap<Prefix, AttachedNetwork>,
}

/// An address of an advertised neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeighbourAddress {
    /// It is the neighbour's originator.
    pub originator: bool,
    /// It is a routable address.
    pub routable: bool,
    /// To the neighbour: N_out_metric.
    pub metric: Metric,
    /// From the neighbour, as the router that advertises it measures: N_in_metric.
    pub metric_in: Option<Metric>,
}

/// An attached network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttachedNetwork {
    pub distance: u8,
    pub metric: Metric,
}

impl Tc {
    /// Reads a message of type TC; `None` when it advertises nothing, not even
    /// that there is nothing: it has no CONT_SEQ_NUM.
    ///
    /// # Errors
    ///
    /// The reason for which RFC 7181, section 16.3.1, calls the message invalid.
    pub(crate) fn read(message: &Message) -> Result<Option<Self>, TcError> {
        let (Some(originator), Some(seq)) = (message.originator, message.seq) else {
            return Err(TcError::Header);
        };
        let (interval, validity) = read_times(message)?;
        let advertised = read_entries(message, originator)?;
        let Some((ansn, complete)) = read_ansn(message)? else {
            return if advertised.is_empty() {
                Ok(None)
            } else {
                Err(TcError::ContSeqNum)
            };
        };
        let mut tc = Self {
            originator,
            seq,
            ansn,
            complete,
            interval,
            validity,
            content: Content {
                all: complete && message.tlv(ALL_NEIGHBOURS_TLV, 0).is_some(),
                ..Content::default()
            },
            lost_neighbours: BTreeSet::new(),
            lost_networks: BTreeSet::new(),
            quotes: read_quotes(message),
            proof: None,
        };
        for (prefix, advertised) in advertised {
            tc.add(prefix, advertised);
        }
        Ok(Some(tc))
    }

    fn add(&mut self, prefix: Prefix, advertised: Advertised) {
        match (advertised.distance, advertised.metric) {
            (Some(distance), Some(metric)) => {
                let network = AttachedNetwork { distance, metric };
                self.content.attached.insert(prefix, network);
            }
            (Some(_), None) => {
                self.lost_networks.insert(prefix);
            }
            (None, _) => self.add_neighbour(prefix, advertised),
        }
    }

    fn add_neighbour(&mut self, prefix: Prefix, advertised: Advertised) {
        let addr_type = advertised.addr_type;
        let neighbour = advertised.metric.map(|metric| NeighbourAddress {
            originator: addr_type & nbr_addr_type::ORIGINATOR != 0,
            routable: addr_type & nbr_addr_type::ROUTABLE != 0,
            metric,
            metric_in: advertised.metric_in,
        });
        // A neighbour that is a network is no destination of which a router is known.
        if !prefix.is_host() || addr_type & nbr_addr_type::ROUTABLE_ORIG == 0 {
            return;
        }
        match neighbour {
            Some(neighbour) => drop(self.content.neighbours.insert(prefix.addr, neighbour)),
            None => drop(self.lost_neighbours.insert(prefix.addr)),
        }
    }
}

/// What the TLVs of one address say, wherever in the message they stand.
#[derive(Clone, Copy, Debug, Default)]
struct Advertised {
    is_neighbour: bool,
    addr_type: u8,
    distance: Option<u8>,
    metric: Option<Metric>,
    metric_in: Option<Metric>,
}

impl Advertised {
    fn read(&mut self, entry: &AddressEntry) -> Result<(), TcError> {
        for tlv in entry.tlvs_of(address_tlv::NBR_ADDR_TYPE, 0) {
            self.is_neighbour = true;
            self.addr_type |= octet(&tlv.value, 0);
        }
        for tlv in entry.tlvs_of(address_tlv::GATEWAY, 0) {
            let distance = octet(&tlv.value, 0);
            if self.distance.replace(distance).unwrap_or(distance) != distance {
                return Err(TcError::Contradiction(entry.prefix));
            }
        }
        read_metric(&mut self.metric, entry, link_metric::OUTGOING_NEIGHBOR)
            .and_then(|()| read_metric(&mut self.metric_in, entry, link_metric::INCOMING_NEIGHBOR))
            .map_err(|()| TcError::Contradiction(entry.prefix))
    }

    fn check(&self, prefix: Prefix, originator: IpAddr) -> Result<(), TcError> {
        if self.is_neighbour && self.distance.is_some() {
            return Err(TcError::NeighbourAndAttached(prefix));
        }
        if prefix == Prefix::host(originator) {
            return Err(TcError::OwnOriginator(prefix));
        }
        if self.addr_type & nbr_addr_type::ORIGINATOR != 0 && !prefix.is_host() {
            return Err(TcError::OriginatorPrefix(prefix));
        }
        if self.addr_type & nbr_addr_type::ROUTABLE != 0 && !is_routable(prefix.addr) {
            return Err(TcError::NotRoutable(prefix));
        }
        Ok(())
    }
}

fn read_quotes(message: &Message) -> BTreeMap<IpAddr, Quote> {
    let quotes = message.addresses.iter();
    quotes
        .filter_map(|entry| Some((entry.prefix.addr, read_quote(entry)?)))
        .collect()
}

/// The advertised addresses and networks, checked.
fn read_entries(
    message: &Message,
    originator: IpAddr,
) -> Result<BTreeMap<Prefix, Advertised>, TcError> {
    let mut entries: BTreeMap<Prefix, Advertised> = BTreeMap::new();
    for entry in &message.addresses {
        let prefix = entry.prefix.canonical();
        entries.entry(prefix).or_default().read(entry)?;
    }
    entries.retain(|_, entry| entry.is_neighbour || entry.distance.is_some());
    for (prefix, entry) in &entries {
        entry.check(*prefix, originator)?;
    }
    Ok(entries)
}

impl Content {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many addresses and networks there are.
    pub(crate) fn len(&self) -> usize {
        self.neighbours.len() + self.attached.len()
    }

    /// Whether one TC of `limit` octets carries the content.
    pub(crate) fn fits(&self, originator: IpAddr, limit: usize) -> bool {
        self.len() * MAX_ENTRY_SIZE + MAX_HEADER_SIZE <= limit || {
            let tc = self.complete_tc(originator, 0, 0, [Duration::ZERO; 2]);
            tc.encode().is_ok_and(|octets| octets.len() <= limit)
        }
    }

    /// The messages that carry the content, header included, with a sequence
    /// number of its own for each: one complete TC, because nothing else can
    /// report what is no longer advertised (RFC 7181, section 16.2), or
    /// incomplete ones of `limit` octets when it exceeds [`MAX_TC_SIZE`].
    /// `counter` gives the counter that was heard last from a neighbour.
    pub(crate) fn encode(
        &self,
        originator: IpAddr,
        ansn: u16,
        [interval, validity]: [Duration; 2],
        limit: usize,
        counter: impl Fn(IpAddr) -> Option<u64>,
        mut next_seq: impl FnMut() -> u16,
    ) -> Result<Vec<Vec<u8>>, EncodeError> {
        let mut tc = self.complete_tc(originator, ansn, next_seq(), [interval, validity]);
        for entry in &mut tc.addresses {
            entry.tlvs.extend(quote_tlv(counter(entry.prefix.addr)));
        }
        let whole = tc.encode();
        if let Some(whole) = whole.ok().filter(|whole| whole.len() <= MAX_TC_SIZE) {
            return Ok(vec![whole]);
        }
        tc.tlvs = header_tlvs(ansn, cont_seq_num::INCOMPLETE, interval, validity);
        let size = tc.addresses.len() * MAX_ENTRY_SIZE;
        let parts = size.div_ceil(limit.saturating_sub(MAX_HEADER_SIZE).max(1));
        let entries = core::mem::take(&mut tc.addresses);
        let mut messages = Vec::new();
        for part in entries.chunks(entries.len().div_ceil(parts).max(1)) {
            tc.addresses = part.to_vec();
            messages.push(tc.encode()?);
            tc.seq = Some(next_seq());
        }
        Ok(messages)
    }

    fn complete_tc(
        &self,
        originator: IpAddr,
        ansn: u16,
        seq: u16,
        [interval, validity]: [Duration; 2],
    ) -> Message {
        let mut tc = Message::new(message::TC, originator);
        tc.hop_limit = Some(TC_HOP_LIMIT);
        tc.hop_count = Some(0);
        tc.seq = Some(seq);
        tc.tlvs = header_tlvs(ansn, cont_seq_num::COMPLETE, interval, validity);
        if self.all {
            tc.tlvs.push(Tlv::new(ALL_NEIGHBOURS_TLV, 0, []));
        }
        tc.addresses = self.entries();
        tc
    }

    fn entries(&self) -> Vec<AddressEntry> {
        let neighbours = self
            .neighbours
            .iter()
            .map(|(address, neighbour)| AddressEntry {
                prefix: Prefix::host(*address),
                tlvs: neighbour.tlvs(),
            });
        let attached = self.attached.iter().map(|(prefix, network)| AddressEntry {
            prefix: *prefix,
            tlvs: vec![
                metric_tlv(network.metric),
                Tlv::new(address_tlv::GATEWAY, 0, [network.distance]),
            ],
        });
        neighbours.chain(attached).collect()
    }
}

impl NeighbourAddress {
    fn tlvs(self) -> Vec<Tlv> {
        let mut tlvs = metric_tlvs(&[
            (link_metric::OUTGOING_NEIGHBOR, Some(self.metric)),
            (link_metric::INCOMING_NEIGHBOR, self.metric_in),
        ]);
        tlvs.push(Tlv::new(address_tlv::NBR_ADDR_TYPE, 0, [self.addr_type()]));
        tlvs
    }

    fn addr_type(self) -> u8 {
        let originator = if self.originator {
            nbr_addr_type::ORIGINATOR
        } else {
            0
        };
        let routable = if self.routable {
            nbr_addr_type::ROUTABLE
        } else {
            0
        };
        originator | routable
    }
}

fn header_tlvs(ansn: u16, form: u8, interval: Duration, validity: Duration) -> Vec<Tlv> {
    vec![
        Tlv::new(message_tlv::VALIDITY_TIME, 0, [encode_time(validity)]),
        Tlv::new(message_tlv::INTERVAL_TIME, 0, [encode_time(interval)]),
        Tlv::new(message_tlv::CONT_SEQ_NUM, form, ansn.to_be_bytes()),
    ]
}

fn metric_tlv(metric: Metric) -> Tlv {
    let word = link_metric::OUTGOING_NEIGHBOR | compress(metric);
    Tlv::new(address_tlv::LINK_METRIC, 0, word.to_be_bytes())
}

/// The ANSN and whether the message is complete, if it has a CONT_SEQ_NUM.
fn read_ansn(message: &Message) -> Result<Option<(u16, bool)>, TcError> {
    let mut tlvs = message.tlvs.iter().filter(|tlv| {
        tlv.typ == message_tlv::CONT_SEQ_NUM
            && [cont_seq_num::COMPLETE, cont_seq_num::INCOMPLETE].contains(&tlv.ext)
    });
    let (first, second) = (tlvs.next(), tlvs.next());
    match first.map(|tlv| (&tlv.value[..], tlv.ext)) {
        None => Ok(None),
        // Excess octets are ignored, missing ones an error (RFC 7188, section 4.2).
        Some(([high, low, ..], ext)) if second.is_none() => Ok(Some((
            u16::from_be_bytes([*high, *low]),
            ext == cont_seq_num::COMPLETE,
        ))),
        Some(_) => Err(TcError::ContSeqNum),
    }
}

/// INTERVAL_TIME, if there is one, and VALIDITY_TIME, for the distance of this router.
fn read_times(message: &Message) -> Result<(Option<Duration>, Duration), TcError> {
    let times = |typ| message.tlvs.iter().filter(move |tlv| tlv.is(typ, 0));
    if times(message_tlv::INTERVAL_TIME).count() > 1 {
        return Err(TcError::IntervalTime);
    }
    let mut both = times(message_tlv::INTERVAL_TIME).chain(times(message_tlv::VALIDITY_TIME));
    if message.hop_count.is_none() && both.any(|tlv| tlv.value.len() > 1) {
        return Err(TcError::Header);
    }
    let hops = message.hop_count.unwrap_or(0).saturating_add(1);
    let interval = times(message_tlv::INTERVAL_TIME).next();
    let interval = interval.and_then(|tlv| time_at_distance(&tlv.value, hops));
    let mut validity = times(message_tlv::VALIDITY_TIME);
    match (validity.next(), validity.next()) {
        (Some(tlv), None) => {
            let validity = time_at_distance(&tlv.value, hops).ok_or(TcError::ValidityTime)?;
            Ok((interval, validity))
        }
        _ => Err(TcError::ValidityTime),
    }
}

#[cfg(test)]
mod tests;
