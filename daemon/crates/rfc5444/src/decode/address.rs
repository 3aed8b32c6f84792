//! Address blocks (RFC 5444, section 5.3).

use alloc::vec::Vec;
use core::net::IpAddr;

use super::{Budget, Reader};
use crate::wire::address as flag;
use crate::{AddressEntry, DecodeCause, DecodeError, Prefix};

/// Appends the addresses of one address block to `entries`.
pub(super) fn block(
    reader: &mut Reader,
    addr_len: u8,
    entries: &mut Vec<AddressEntry>,
    budget: &mut Budget,
) -> Result<(), DecodeError> {
    let start = reader.position();
    let count = reader.u8()?;
    if count == 0 {
        return Err(DecodeError::new(DecodeCause::AddressCount, start, 0));
    }
    let flags = flags(reader)?;
    let template = Template::read(reader, flags, addr_len)?;
    budget.spend(start, count.into(), 1)?;
    let mids = reader.take(usize::from(count) * template.mid_length())?;
    let lengths = prefix_lengths(reader, flags, count, addr_len)?;
    entries.extend((0..usize::from(count)).map(|index| {
        let addr = template.address(mids, index);
        let len = *lengths.get(index).unwrap_or(&lengths[0]);
        AddressEntry::new(Prefix { addr, len })
    }));
    Ok(())
}

/// Returns the address with 4 or 16 octets, or `None` for any other length.
pub(super) fn from_octets(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Some(octets.into());
    }
    <[u8; 16]>::try_from(octets).ok().map(IpAddr::from)
}

/// Reads the flags of an address block. Refuses combinations that tables 1 and 2 exclude.
fn flags(reader: &mut Reader) -> Result<u8, DecodeError> {
    let offset = reader.position();
    let flags = reader.u8()?;
    let both = |pair| flags & pair == pair;
    if both(flag::HAS_FULL_TAIL | flag::HAS_ZERO_TAIL)
        || both(flag::HAS_SINGLE_PRELEN | flag::HAS_MULTI_PRELEN)
    {
        return Err(DecodeError::new(
            DecodeCause::AddressFlags,
            offset,
            flags.into(),
        ));
    }
    Ok(flags)
}

/// The octets that all addresses of a block share. The mid is still zero.
struct Template {
    octets: [u8; 16],
    addr_len: usize,
    mid_start: usize,
    mid_end: usize,
}

impl Template {
    fn read(reader: &mut Reader, flags: u8, addr_len: u8) -> Result<Self, DecodeError> {
        let addr_len = usize::from(addr_len);
        let mut octets = [0; 16];
        let mut mid_start = 0;
        if flags & flag::HAS_HEAD != 0 {
            mid_start = part_length(reader, addr_len)?;
            octets[..mid_start].copy_from_slice(reader.take(mid_start)?);
        }
        let mut mid_end = addr_len;
        if flags & (flag::HAS_FULL_TAIL | flag::HAS_ZERO_TAIL) != 0 {
            mid_end -= part_length(reader, addr_len - mid_start)?;
        }
        if flags & flag::HAS_FULL_TAIL != 0 {
            octets[mid_end..addr_len].copy_from_slice(reader.take(addr_len - mid_end)?);
        }
        Ok(Self {
            octets,
            addr_len,
            mid_start,
            mid_end,
        })
    }

    fn mid_length(&self) -> usize {
        self.mid_end - self.mid_start
    }

    /// Returns the address with the mid at position `index` of `mids`.
    fn address(&self, mids: &[u8], index: usize) -> IpAddr {
        let mut octets = self.octets;
        let length = self.mid_length();
        let mid = &mids[index * length..][..length];
        octets[self.mid_start..self.mid_end].copy_from_slice(mid);
        from_octets(&octets[..self.addr_len]).expect("the caller has checked the address length")
    }
}

/// Reads a head or tail length of at most `limit` octets.
fn part_length(reader: &mut Reader, limit: usize) -> Result<usize, DecodeError> {
    let offset = reader.position();
    let length = usize::from(reader.u8()?);
    if length > limit {
        return Err(DecodeError::new(
            DecodeCause::HeadTailLength,
            offset,
            length,
        ));
    }
    Ok(length)
}

/// Reads the prefix lengths: one for all addresses, or one for each.
fn prefix_lengths(
    reader: &mut Reader,
    flags: u8,
    count: u8,
    addr_len: u8,
) -> Result<Vec<u8>, DecodeError> {
    let longest = addr_len * 8;
    let given = match flags & (flag::HAS_SINGLE_PRELEN | flag::HAS_MULTI_PRELEN) {
        0 => return Ok([longest].into()),
        flag::HAS_SINGLE_PRELEN => 1,
        _ => usize::from(count),
    };
    let start = reader.position();
    let lengths = reader.take(given)?;
    if let Some(index) = lengths.iter().position(|&length| length > longest) {
        let (offset, value) = (start + index, lengths[index].into());
        return Err(DecodeError::new(DecodeCause::PrefixLength, offset, value));
    }
    Ok(lengths.into())
}
