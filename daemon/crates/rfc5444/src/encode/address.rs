//! Encodes address blocks (RFC 5444, section 5.3) with the head and tail that make them shortest.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::model::address_length;
use crate::wire::address as flag;
use crate::AddressEntry;

/// Appends an address block of 1 to 255 addresses of one family.
pub(super) fn block(out: &mut Vec<u8>, entries: &[AddressEntry]) {
    let (first, others) = entries
        .split_first()
        .expect("an address block has addresses");
    let mut shape = Shape::new(first);
    others.iter().for_each(|entry| shape.add(entry));
    let (head, tail) = (shape.head(), shape.tail());
    let head_flag = if head > 0 { flag::HAS_HEAD } else { 0 };
    out.extend([
        shape.count as u8,
        head_flag | tail.flag() | shape.lengths.flag(),
    ]);
    let octets = shape.first.as_slice();
    if head > 0 {
        push_part(out, &octets[..head]);
    }
    let mid_end = octets.len() - tail.length();
    match tail {
        Tail::None => {}
        Tail::Full(_) => push_part(out, &octets[mid_end..]),
        Tail::Zero(length) => out.push(length as u8),
    }
    for entry in entries {
        out.extend(&Octets::of(entry.prefix.addr).as_slice()[head..mid_end]);
    }
    let lengths = entries.iter().map(|entry| entry.prefix.len);
    out.extend(lengths.take(shape.lengths.fields(shape.count)));
}

/// Appends the octets of an address.
pub(super) fn push(out: &mut Vec<u8>, addr: IpAddr) {
    out.extend(Octets::of(addr).as_slice());
}

/// What the addresses of a block have in common. This determines how the block is encoded.
pub(super) struct Shape {
    first: Octets,
    first_length: u8,
    count: usize,
    shared_head: usize,
    shared_tail: usize,
    shared_zeros: usize,
    lengths: Lengths,
}

impl Shape {
    /// Returns the shape of a block of one address.
    pub fn new(entry: &AddressEntry) -> Self {
        let first = Octets::of(entry.prefix.addr);
        let host = entry.prefix.is_host();
        Self {
            first_length: entry.prefix.len,
            count: 1,
            shared_head: first.length,
            shared_tail: first.length,
            shared_zeros: trailing_zeros(first.as_slice()),
            lengths: if host { Lengths::None } else { Lengths::Single },
            first,
        }
    }

    /// Adds an address at the end of the block.
    pub fn add(&mut self, entry: &AddressEntry) {
        let octets = Octets::of(entry.prefix.addr);
        let (first, octets) = (self.first.as_slice(), octets.as_slice());
        let head = equal(first.iter(), octets.iter());
        let tail = equal(first.iter().rev(), octets.iter().rev());
        self.count += 1;
        self.shared_head = self.shared_head.min(head);
        self.shared_tail = self.shared_tail.min(tail);
        self.shared_zeros = self.shared_zeros.min(trailing_zeros(octets));
        if entry.prefix.len != self.first_length {
            self.lengths = Lengths::Multi;
        }
    }

    /// Returns the size of the address block in octets.
    pub fn size(&self) -> usize {
        let (head, tail) = (self.head(), self.tail());
        let mid = self.first.length - head - tail.length();
        let head_part = if head > 0 { 1 + head } else { 0 };
        2 + head_part + tail.size() + self.count * mid + self.lengths.fields(self.count)
    }

    /// Returns the length of the head. A head costs the octet of its length and saves its octets in all addresses but
    /// one.
    fn head(&self) -> usize {
        match self.shared_head * (self.count - 1) {
            0 | 1 => 0,
            _ => self.shared_head,
        }
    }

    /// Returns the tail that saves most. Either kind costs the octet of its length, a full tail also its octets.
    fn tail(&self) -> Tail {
        let longest = self.first.length - self.head();
        let (full, zero) = (
            self.shared_tail.min(longest),
            self.shared_zeros.min(longest),
        );
        let full_saves = full * (self.count - 1);
        let zero_saves = zero * self.count;
        match full_saves.max(zero_saves) {
            0 | 1 => Tail::None,
            _ if zero_saves >= full_saves => Tail::Zero(zero),
            _ => Tail::Full(full),
        }
    }
}

/// How the octets at the end of all addresses are encoded (table 1).
#[derive(Clone, Copy)]
enum Tail {
    None,
    Full(usize),
    Zero(usize),
}

impl Tail {
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

    fn size(self) -> usize {
        match self {
            Self::None => 0,
            Self::Full(length) => 1 + length,
            Self::Zero(_) => 1,
        }
    }
}

/// How the prefix lengths are encoded (table 2).
#[derive(Clone, Copy)]
enum Lengths {
    None,
    Single,
    Multi,
}

impl Lengths {
    fn flag(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Single => flag::HAS_SINGLE_PRELEN,
            Self::Multi => flag::HAS_MULTI_PRELEN,
        }
    }

    fn fields(self, addresses: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Single => 1,
            Self::Multi => addresses,
        }
    }
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

/// Returns how many octets are equal, from the start of both.
fn equal<'a>(a: impl Iterator<Item = &'a u8>, b: impl Iterator<Item = &'a u8>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

fn trailing_zeros(octets: &[u8]) -> usize {
    octets.iter().rev().take_while(|&&octet| octet == 0).count()
}

/// Appends a head or tail with its length, which is at most 16.
fn push_part(out: &mut Vec<u8>, part: &[u8]) {
    out.push(part.len() as u8);
    out.extend(part);
}
