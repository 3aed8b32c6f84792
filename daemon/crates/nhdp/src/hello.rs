//! A HELLO message as a checked value (RFC 6130, sections 10.1 and 12.1).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use rfc5444::iana::{address_tlv, link_status, local_if, message_tlv, other_neighb};
use rfc5444::time::time_at_distance;
use rfc5444::{AddressEntry, Message, Tlv};

use crate::types::{Family, LinkStatus};

/// Largest number of addresses that a neighbour may claim as its own. No known router has more; without a bound, one
/// HELLO could fill the neighbour set.
pub const MAX_LOCAL_ADDRESSES: usize = 64;

/// A valid HELLO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The family of all addresses in the HELLO.
    pub family: Family,
    /// The originator, if the message has one.
    pub originator: Option<IpAddr>,
    /// VALIDITY_TIME.
    pub validity: Duration,
    /// INTERVAL_TIME, if announced.
    pub interval: Option<Duration>,
    /// Addresses with LOCAL_IF = THIS_IF; may be empty.
    pub this_interface: Vec<IpAddr>,
    /// Addresses with LOCAL_IF = OTHER_IF.
    pub other_interfaces: Vec<IpAddr>,
    /// Addresses with LINK_STATUS or OTHER_NEIGHB.
    pub neighbours: Vec<HelloNeighbour>,
}

/// An address of a neighbour of the HELLO's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloNeighbour {
    /// The address.
    pub address: IpAddr,
    /// LINK_STATUS, if present.
    pub link: Option<LinkStatus>,
    /// OTHER_NEIGHB = SYMMETRIC (`true`) or LOST (`false`), if present.
    pub other_symmetric: Option<bool>,
}

/// Why a HELLO is invalid. The sender is at fault in each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloError {
    /// The addresses have this length in octets, so they are neither IPv4 nor IPv6.
    AddressLength(u8),
    /// The hop limit is not 1. A HELLO is never forwarded.
    HopLimit(u8),
    /// The hop count is not 0.
    HopCount(u8),
    /// VALIDITY_TIME is missing, repeated or malformed.
    ValidityTime,
    /// INTERVAL_TIME is repeated or malformed.
    IntervalTime,
    /// The address has two values of one TLV.
    Contradiction(IpAddr),
    /// The address is announced both as the sender's own and as a neighbour's.
    LocalAndNeighbour(IpAddr),
    /// The sender claims this number of addresses, more than [`MAX_LOCAL_ADDRESSES`].
    TooManyLocalAddresses(usize),
}

/// What all TLVs of one address announce, from every address block of the message.
#[derive(Default)]
struct Statement {
    this_interface: Option<bool>,
    link: Option<LinkStatus>,
    other_symmetric: Option<bool>,
}

impl HelloNeighbour {
    /// Returns whether the address is a symmetric neighbour of the sender.
    pub fn is_symmetric(&self) -> bool {
        self.link == Some(LinkStatus::Symmetric) || self.other_symmetric == Some(true)
    }
}

impl Hello {
    /// Changes every LINK_STATUS of these addresses to LOST.
    ///
    /// A protocol on top calls this with the addresses of the receiving interface if it cannot use the link. NHDP then
    /// no longer treats the link as symmetric.
    pub fn refuse_link(&mut self, addresses: &BTreeSet<IpAddr>) {
        let refused = self
            .neighbours
            .iter_mut()
            .filter(|neighbour| neighbour.link.is_some() && addresses.contains(&neighbour.address));
        refused.for_each(|neighbour| neighbour.link = Some(LinkStatus::Lost));
    }

    /// Makes the HELLO say nothing of a link that it says to work.
    ///
    /// A protocol on top calls this with the addresses of the receiving interface if it does not believe that the sender
    /// has heard this router lately. The link then works as long as earlier HELLOs have said, and no longer.
    pub fn ignore_link(&mut self, addresses: &BTreeSet<IpAddr>) {
        let works = |link| matches!(link, Some(LinkStatus::Symmetric | LinkStatus::Heard));
        for neighbour in &mut self.neighbours {
            if works(neighbour.link) && addresses.contains(&neighbour.address) {
                neighbour.link = None;
            }
        }
    }

    /// Reads a message of type HELLO.
    ///
    /// Ignores addresses whose prefix is shorter than the address, and unknown values of LOCAL_IF, LINK_STATUS and
    /// OTHER_NEIGHB (RFC 7188, section 4.3.1).
    ///
    /// # Errors
    ///
    /// The reason why the message is invalid (RFC 6130, section 12.1, as changed by RFC 7188, section 4.1).
    pub fn read(message: &Message) -> Result<Self, HelloError> {
        let family = read_header(message)?;
        let statements = read_addresses(&message.addresses)?;
        let mut hello = Self {
            family,
            originator: message.originator,
            validity: read_time(message, message_tlv::VALIDITY_TIME)
                .map_err(|()| HelloError::ValidityTime)?
                .ok_or(HelloError::ValidityTime)?,
            interval: read_time(message, message_tlv::INTERVAL_TIME)
                .map_err(|()| HelloError::IntervalTime)?,
            this_interface: Vec::new(),
            other_interfaces: Vec::new(),
            neighbours: Vec::new(),
        };
        for (address, statement) in statements {
            hello.add(address, &statement)?;
        }
        hello.check_size()
    }

    /// Returns the addresses that the sender claims as its own (N_neighbor_addr_list).
    pub fn local_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.this_interface
            .iter()
            .chain(&self.other_interfaces)
            .copied()
    }

    fn add(&mut self, address: IpAddr, statement: &Statement) -> Result<(), HelloError> {
        let Statement {
            this_interface,
            link,
            other_symmetric,
        } = *statement;
        let is_neighbour = link.is_some() || other_symmetric.is_some();
        match this_interface {
            Some(_) if is_neighbour => return Err(HelloError::LocalAndNeighbour(address)),
            Some(true) => self.this_interface.push(address),
            Some(false) => self.other_interfaces.push(address),
            None if is_neighbour => self.neighbours.push(HelloNeighbour {
                address,
                link,
                other_symmetric,
            }),
            None => {}
        }
        Ok(())
    }

    fn check_size(self) -> Result<Self, HelloError> {
        let count = self.local_addresses().count();
        if count > MAX_LOCAL_ADDRESSES {
            return Err(HelloError::TooManyLocalAddresses(count));
        }
        Ok(self)
    }
}

fn read_header(message: &Message) -> Result<Family, HelloError> {
    if let Some(limit) = message.hop_limit.filter(|limit| *limit != 1) {
        return Err(HelloError::HopLimit(limit));
    }
    if let Some(count) = message.hop_count.filter(|count| *count != 0) {
        return Err(HelloError::HopCount(count));
    }
    match message.addr_len {
        4 => Ok(Family::V4),
        16 => Ok(Family::V6),
        length => Err(HelloError::AddressLength(length)),
    }
}

/// Returns the time of the only message TLV of this type. Several TLVs or a malformed one are an error.
fn read_time(message: &Message, typ: u8) -> Result<Option<Duration>, ()> {
    let mut tlvs = message.tlvs.iter().filter(|tlv| tlv.is(typ, 0));
    match (tlvs.next(), tlvs.next()) {
        (None, _) => Ok(None),
        (Some(tlv), None) => time_at_distance(&tlv.value, 1).map(Some).ok_or(()),
        (Some(_), Some(_)) => Err(()),
    }
}

fn read_addresses(entries: &[AddressEntry]) -> Result<BTreeMap<IpAddr, Statement>, HelloError> {
    let mut statements: BTreeMap<IpAddr, Statement> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.prefix.is_host()) {
        let address = entry.prefix.addr;
        let statement = statements.entry(address).or_default();
        for tlv in entry.tlvs.iter().filter(|tlv| tlv.ext == 0) {
            statement
                .read(tlv)
                .map_err(|()| HelloError::Contradiction(address))?;
        }
    }
    Ok(statements)
}

impl Statement {
    fn read(&mut self, tlv: &Tlv) -> Result<(), ()> {
        // Excess octets are ignored and missing ones are 0 (RFC 7188, section 4.2).
        let value = tlv.value.first().copied().unwrap_or(0);
        match tlv.typ {
            address_tlv::LOCAL_IF => agree(&mut self.this_interface, read_local_if(value)),
            address_tlv::LINK_STATUS => agree(&mut self.link, read_link_status(value)),
            address_tlv::OTHER_NEIGHB => {
                agree(&mut self.other_symmetric, read_other_neighbour(value))
            }
            _ => Ok(()),
        }
    }
}

fn read_local_if(value: u8) -> Option<bool> {
    match value {
        local_if::THIS_IF => Some(true),
        local_if::OTHER_IF => Some(false),
        _ => None,
    }
}

fn read_link_status(value: u8) -> Option<LinkStatus> {
    match value {
        link_status::LOST => Some(LinkStatus::Lost),
        link_status::SYMMETRIC => Some(LinkStatus::Symmetric),
        link_status::HEARD => Some(LinkStatus::Heard),
        _ => None,
    }
}

fn read_other_neighbour(value: u8) -> Option<bool> {
    match value {
        other_neighb::LOST => Some(false),
        other_neighb::SYMMETRIC => Some(true),
        _ => None,
    }
}

/// Sets `slot`. It is an error if it already has another value.
fn agree<T: PartialEq>(slot: &mut Option<T>, value: Option<T>) -> Result<(), ()> {
    match (&*slot, value) {
        (_, None) => Ok(()),
        (Some(old), Some(new)) if *old != new => Err(()),
        (_, value) => {
            *slot = value;
            Ok(())
        }
    }
}

impl fmt::Display for HelloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressLength(length) => write!(f, "address length {length}, not 4 or 16"),
            Self::HopLimit(limit) => write!(f, "hop limit {limit}, not 1"),
            Self::HopCount(count) => write!(f, "hop count {count}, not 0"),
            Self::ValidityTime => f.write_str("not exactly one VALIDITY_TIME with a valid value"),
            Self::IntervalTime => f.write_str("INTERVAL_TIME repeated or malformed"),
            Self::Contradiction(address) => write!(f, "two values of one TLV for {address}"),
            Self::LocalAndNeighbour(address) => {
                write!(f, "{address} is both the sender's own and a neighbour's")
            }
            Self::TooManyLocalAddresses(count) => {
                write!(
                    f,
                    "{count} addresses of the sender, at most {MAX_LOCAL_ADDRESSES} allowed"
                )
            }
        }
    }
}

impl core::error::Error for HelloError {}
