//! Address blocks (RFC 5444, section 5.3): the shortest head and tail.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::model::address_length;
use crate::wire::address as flag;
use crate::AddressEntry;

/// Appends an address block of 1 to 255 addresses of one family.
pub(super) fn block(out: &mut Vec<u8>, entries: &[AddressEntry]) {
    let addresses: Vec<Octets> = entries
        .iter()
        .map(|entry| Octets::of(entry.prefix.addr))
        .collect();
    let length = addresses[0].as_slice().len();
    let head = head_length(&addresses);
    let tail = Tail::choose(&addresses, head);
    let lengths = prefix_lengths(entries);
    let head_flag = if head > 0 { flag::HAS_HEAD } else { 0 };
    let count = u8::try_from(entries.len()).expect("the caller makes blocks of at most 255");
    out.extend([count, head_flag | tail.flag() | lengths.0]);
    if head > 0 {
        push_part(out, &addresses[0].as_slice()[..head]);
    }
    tail.push(out, &addresses[0]);
    for address in &addresses {
        out.extend(&address.as_slice()[head..length - tail.length()]);
    }
    out.extend(lengths.1);
}

/// Appends the octets of an address.
pub(super) fn push(out: &mut Vec<u8>, addr: IpAddr) {
    out.extend(Octets::of(addr).as_slice());
}

/// The octets of an address of either family.
struct Octets {
    octets: [u8; 16],
    length: usize,
}

impl Octets {
    fn of(addr: IpAddr) -> Self {
        let mut octets = [0; 16];
        match addr {
            IpAddr::V4(addr) => octets[..4].copy_from_slice(&addr.octets()),
            IpAddr::V6(addr) => octets = addr.octets(),
        }
        let length = address_length(addr).into();
        Self { octets, length }
    }

    fn as_slice(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}

/// The octets that all addresses end with and how they travel (table 1).
#[derive(Clone, Copy)]
enum Tail {
    None,
    Full(usize),
    Zero(usize),
}

impl Tail {
    /// The tail that saves most after a head of `head` octets.
    fn choose(addresses: &[Octets], head: usize) -> Self {
        let first = &addresses[0].as_slice()[head..];
        let full = shared(addresses, first.len(), |address| {
            let reversed = address.as_slice()[head..].iter().rev();
            reversed
                .zip(first.iter().rev())
                .take_while(|(a, b)| a == b)
                .count()
        });
        let zero = first
            .iter()
            .rev()
            .take(full)
            .take_while(|&&octet| octet == 0)
            .count();
        // Either kind costs the octet of its length; only a full tail also costs its octets.
        let full_saves = full * (addresses.len() - 1);
        let zero_saves = zero * addresses.len();
        match full_saves.max(zero_saves) {
            0 | 1 => Self::None,
            _ if zero_saves >= full_saves => Self::Zero(zero),
            _ => Self::Full(full),
        }
    }

    fn flag(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Full(_) => flag::HAS_FULL_TAIL,
            Self::Zero(_) => flag::HAS_ZERO_TAIL,
        }
    }

    fn length(self) -> usize {
        match self {
            Self::None => 0,
            Self::Full(length) | Self::Zero(length) => length,
        }
    }

    fn push(self, out: &mut Vec<u8>, address: &Octets) {
        match self {
            Self::None => {}
            Self::Full(length) => push_part(out, &address.as_slice()[address.length - length..]),
            Self::Zero(length) => out.push(length as u8),
        }
    }
}

/// The length of the head, 0 if it would save nothing.
fn head_length(addresses: &[Octets]) -> usize {
    let first = addresses[0].as_slice();
    let length = shared(addresses, first.len(), |address| {
        let pairs = address.as_slice().iter().zip(first);
        pairs.take_while(|(a, b)| a == b).count()
    });
    // A head costs the octet of its length and saves its octets in all addresses but one.
    if length * (addresses.len() - 1) > 1 {
        length
    } else {
        0
    }
}

/// What the addresses share: the least of `common` over them, at most `longest`.
fn shared(addresses: &[Octets], longest: usize, common: impl Fn(&Octets) -> usize) -> usize {
    addresses.iter().map(common).min().unwrap_or(longest)
}

/// Appends a head or tail with its length, which is at most 16.
fn push_part(out: &mut Vec<u8>, part: &[u8]) {
    out.push(part.len() as u8);
    out.extend(part);
}

/// The flag and the fields for the prefix lengths (table 2).
fn prefix_lengths(entries: &[AddressEntry]) -> (u8, Vec<u8>) {
    let lengths: Vec<u8> = entries.iter().map(|entry| entry.prefix.len).collect();
    if entries.iter().all(|entry| entry.prefix.is_host()) {
        (0, Vec::new())
    } else if lengths.iter().all(|&length| length == lengths[0]) {
        (flag::HAS_SINGLE_PRELEN, Vec::from([lengths[0]]))
    } else {
        (flag::HAS_MULTI_PRELEN, lengths)
    }
}
