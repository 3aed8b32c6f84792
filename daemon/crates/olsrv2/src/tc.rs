//! TC messages as checked values (RFC 7181, sections 13.3 and 16).

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use rfc5444::iana::{address_tlv, cont_seq_num, link_metric, message, message_tlv, nbr_addr_type};
use rfc5444::metric::compress;
use rfc5444::time::{encode_time, time_at_distance};
use rfc5444::{AddressEntry, EncodeError, Message, Metric, Prefix, Tlv};

use crate::hello::read_metric;

/// TC_HOP_LIMIT (RFC 7181, section 5.4.7): the whole network.
const TC_HOP_LIMIT: u8 = 255;

/// The most octets that an advertised address adds to a TC: address and prefix
/// length, and its two TLVs with header and value, not shared with any other.
const MAX_ENTRY_SIZE: usize = 17 + 6 + 5;

/// The most octets of a TC without addresses: message header, message TLVs, address block header.
const MAX_HEADER_SIZE: usize = 22 + 18 + 20;

/// A valid TC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tc {
    pub originator: IpAddr,
    pub seq: u16,
    pub ansn: u16,
    pub complete: bool,
    pub validity: Duration,
    pub content: Content,
}

/// What a TC advertises.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
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
    pub metric: Metric,
}

/// An attached network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttachedNetwork {
    pub distance: u8,
    pub metric: Metric,
}

/// Why a TC is invalid (RFC 7181, section 16.3.1). All are the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcError {
    /// Originator, hop limit, hop count or sequence number is missing.
    Header,
    /// VALIDITY_TIME missing, repeated or of a malformed value.
    ValidityTime,
    /// CONT_SEQ_NUM missing, repeated or of a malformed value.
    ContSeqNum,
    /// An address with two values of one TLV.
    Contradiction(Prefix),
    /// An address that is a neighbour's and an attached network.
    NeighbourAndAttached(Prefix),
}

impl Tc {
    /// Reads a message of type TC. Addresses without an outgoing neighbour
    /// metric are passed over.
    pub(crate) fn read(message: &Message) -> Result<Self, TcError> {
        let (Some(originator), Some(_), Some(hops), Some(seq)) = (
            message.originator,
            message.hop_limit,
            message.hop_count,
            message.seq,
        ) else {
            return Err(TcError::Header);
        };
        let (ansn, complete) = read_ansn(message)?;
        let mut tc = Self {
            originator,
            seq,
            ansn,
            complete,
            validity: read_validity(message, hops.saturating_add(1))?,
            content: Content::default(),
        };
        for entry in &message.addresses {
            tc.content.read(entry)?;
        }
        Ok(tc)
    }
}

impl Content {
    pub(crate) fn is_empty(&self) -> bool {
        self.neighbours.is_empty() && self.attached.is_empty()
    }

    /// The messages that carry the content, header included, with a sequence
    /// number of its own for each: one complete TC, or incomplete ones when
    /// that exceeds `limit` octets (RFC 7181, section 16.1).
    pub(crate) fn encode(
        &self,
        originator: IpAddr,
        ansn: u16,
        [interval, validity]: [Duration; 2],
        limit: usize,
        mut next_seq: impl FnMut() -> u16,
    ) -> Result<Vec<Vec<u8>>, EncodeError> {
        let mut tc = Message::new(message::TC, originator);
        tc.hop_limit = Some(TC_HOP_LIMIT);
        tc.hop_count = Some(0);
        tc.seq = Some(next_seq());
        tc.tlvs = header_tlvs(ansn, cont_seq_num::COMPLETE, interval, validity);
        tc.addresses = self.entries();
        let whole = tc.encode();
        if tc.addresses.len() < 2 || whole.as_ref().is_ok_and(|whole| whole.len() <= limit) {
            return Ok(vec![whole?]);
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

    fn entries(&self) -> Vec<AddressEntry> {
        let neighbours = self
            .neighbours
            .iter()
            .map(|(address, neighbour)| AddressEntry {
                prefix: Prefix::host(*address),
                tlvs: vec![
                    metric_tlv(neighbour.metric),
                    Tlv::new(address_tlv::NBR_ADDR_TYPE, 0, [neighbour.addr_type()]),
                ],
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

    fn read(&mut self, entry: &AddressEntry) -> Result<(), TcError> {
        let prefix = entry.prefix.canonical();
        let addr_type = single(entry, address_tlv::NBR_ADDR_TYPE)?;
        let gateway = single(entry, address_tlv::GATEWAY)?;
        let metric = read_metric(entry, link_metric::OUTGOING_NEIGHBOR);
        match (addr_type, gateway, metric) {
            (Some(_), Some(_), _) => Err(TcError::NeighbourAndAttached(prefix)),
            (Some(addr_type), None, Some(metric)) if prefix.is_host() => {
                self.read_neighbour(prefix, addr_type, metric)
            }
            (None, Some(distance), Some(metric)) => {
                self.attached
                    .insert(prefix, AttachedNetwork { distance, metric });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn read_neighbour(
        &mut self,
        prefix: Prefix,
        addr_type: u8,
        metric: Metric,
    ) -> Result<(), TcError> {
        let neighbour = NeighbourAddress {
            originator: addr_type & nbr_addr_type::ORIGINATOR != 0,
            routable: addr_type & nbr_addr_type::ROUTABLE != 0,
            metric,
        };
        if !neighbour.originator && !neighbour.routable {
            return Ok(());
        }
        match self.neighbours.insert(prefix.addr, neighbour) {
            Some(old) if old != neighbour => Err(TcError::Contradiction(prefix)),
            _ => Ok(()),
        }
    }
}

impl NeighbourAddress {
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

fn read_ansn(message: &Message) -> Result<(u16, bool), TcError> {
    let mut tlvs = message.tlvs.iter().filter(|tlv| {
        tlv.typ == message_tlv::CONT_SEQ_NUM
            && [cont_seq_num::COMPLETE, cont_seq_num::INCOMPLETE].contains(&tlv.ext)
    });
    let (Some(tlv), None) = (tlvs.next(), tlvs.next()) else {
        return Err(TcError::ContSeqNum);
    };
    let value = tlv.value[..].try_into().map_err(|_| TcError::ContSeqNum)?;
    Ok((u16::from_be_bytes(value), tlv.ext == cont_seq_num::COMPLETE))
}

fn read_validity(message: &Message, hops: u8) -> Result<Duration, TcError> {
    let mut tlvs = message
        .tlvs
        .iter()
        .filter(|tlv| tlv.is(message_tlv::VALIDITY_TIME, 0));
    match (tlvs.next(), tlvs.next()) {
        (Some(tlv), None) => time_at_distance(&tlv.value, hops).ok_or(TcError::ValidityTime),
        _ => Err(TcError::ValidityTime),
    }
}

/// The one-octet value of a TLV of an address; two different ones contradict each other.
fn single(entry: &AddressEntry, typ: u8) -> Result<Option<u8>, TcError> {
    let mut values = entry
        .tlvs_of(typ, 0)
        .filter_map(|tlv| tlv.value.first().copied());
    let first = values.next();
    if values.any(|value| Some(value) != first) {
        return Err(TcError::Contradiction(entry.prefix));
    }
    Ok(first)
}

impl fmt::Display for TcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => {
                f.write_str("originator, hop limit, hop count or sequence number missing")
            }
            Self::ValidityTime => f.write_str("not exactly one VALIDITY_TIME with a valid value"),
            Self::ContSeqNum => f.write_str("not exactly one CONT_SEQ_NUM of two octets"),
            Self::Contradiction(prefix) => write!(f, "two values of one TLV for {prefix}"),
            Self::NeighbourAndAttached(prefix) => {
                write!(f, "{prefix} is both a neighbour and an attached network")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rfc5444::Packet;

    fn content(addresses: u8) -> Content {
        let neighbours = (1..=addresses).map(|n| {
            let metric = Metric::new(u32::from(n) * 7).unwrap();
            (
                IpAddr::from([10, n, n, n]),
                NeighbourAddress {
                    originator: true,
                    routable: n % 2 == 0,
                    metric,
                },
            )
        });
        let network = AttachedNetwork {
            distance: 3,
            metric: Metric::MIN,
        };
        Content {
            neighbours: neighbours.collect(),
            attached: BTreeMap::from([("10.128.0.0/9".parse().unwrap(), network)]),
        }
    }

    fn round_trip(content: &Content, limit: usize) -> Vec<Tc> {
        let mut seq = 65534u16;
        let times = [Duration::from_secs(5), Duration::from_secs(15)];
        let messages = content.encode([10, 0, 0, 1].into(), 65535, times, limit, || {
            seq = seq.wrapping_add(1);
            seq
        });
        let read = |octets: Vec<u8>| Tc::read(&Message::decode(&octets).unwrap()).unwrap();
        messages.unwrap().into_iter().map(read).collect()
    }

    #[test]
    fn a_complete_tc_carries_all() {
        let content = content(9);
        let [tc] = &round_trip(&content, 1200)[..] else {
            panic!("more than one message")
        };
        assert_eq!((tc.seq, tc.ansn, tc.complete), (65535, 65535, true));
        assert_eq!(tc.validity, Duration::from_secs(15));
        assert_eq!(tc.content.attached, content.attached);
        assert_eq!(tc.content.neighbours.len(), 9);
    }

    #[test]
    fn what_does_not_fit_travels_in_incomplete_tcs() {
        let content = content(200);
        let tcs = round_trip(&content, 300);
        assert!(tcs.len() > 2);
        assert!(tcs.iter().all(|tc| !tc.complete && tc.ansn == 65535));
        let total: usize = tcs
            .iter()
            .map(|tc| tc.content.neighbours.len() + tc.content.attached.len())
            .sum();
        assert_eq!(total, 201);
    }

    #[test]
    fn invalid_tcs_are_named() {
        let times = [Duration::from_secs(5), Duration::from_secs(15)];
        let octets = content(2)
            .encode([10, 0, 0, 1].into(), 1, times, 1200, || 1)
            .unwrap();
        let valid = Message::decode(&octets[0]).unwrap();
        let with = |change: &dyn Fn(&mut Message)| {
            let mut message = valid.clone();
            change(&mut message);
            Tc::read(&message).unwrap_err()
        };
        assert_eq!(with(&|m| m.seq = None), TcError::Header);
        assert_eq!(with(&|m| m.hop_count = None), TcError::Header);
        assert_eq!(
            with(&|m| m.tlvs.retain(|t| t.typ != message_tlv::VALIDITY_TIME)),
            TcError::ValidityTime
        );
        assert_eq!(
            with(&|m| m.tlvs.retain(|t| t.typ != message_tlv::CONT_SEQ_NUM)),
            TcError::ContSeqNum
        );
        assert_eq!(
            with(&|m| m.tlvs.push(m.tlvs[2].clone())),
            TcError::ContSeqNum
        );
        let prefix = valid.addresses[0].prefix;
        let both = |m: &mut Message| {
            m.addresses[0]
                .tlvs
                .push(Tlv::new(address_tlv::GATEWAY, 0, [0]))
        };
        assert_eq!(with(&both), TcError::NeighbourAndAttached(prefix));
    }

    #[test]
    fn a_packet_of_tcs_decodes() {
        let octets = content(3)
            .encode(
                [10, 0, 0, 1].into(),
                1,
                [Duration::from_secs(5); 2],
                1200,
                || 1,
            )
            .unwrap();
        let mut writer = rfc5444::PacketWriter::new(1200);
        writer.push(&octets[0]);
        let packets = writer.finish(|| Some(1));
        assert_eq!(Packet::decode(&packets[0]).unwrap().messages.len(), 1);
    }
}
