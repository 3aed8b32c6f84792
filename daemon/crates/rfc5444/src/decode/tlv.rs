//! TLVs and TLV blocks (RFC 5444, section 5.4).

use alloc::vec::Vec;

use super::{Budget, Reader};
use crate::wire::tlv as flag;
use crate::{AddressEntry, DecodeCause, DecodeError, Tlv};

/// Reads a packet or message TLV block.
pub(crate) fn block(reader: &mut Reader) -> Result<Vec<Tlv>, DecodeError> {
    let mut block = content(reader)?;
    let mut tlvs = Vec::new();
    while !block.is_empty() {
        let tlv = RawTlv::read(&mut block, None)?;
        tlvs.push(Tlv::new(tlv.typ, tlv.ext, tlv.value));
    }
    Ok(tlvs)
}

/// Reads a message TLV block. Returns the type and all octets of each TLV.
pub(crate) fn raw_message_tlvs<'a>(
    reader: &mut Reader<'a>,
) -> Result<Vec<(u8, &'a [u8])>, DecodeError> {
    let mut block = content(reader)?;
    let mut tlvs = Vec::new();
    while !block.is_empty() {
        let before = block.rest();
        let tlv = RawTlv::read(&mut block, None)?;
        tlvs.push((tlv.typ, &before[..before.len() - block.rest().len()]));
    }
    Ok(tlvs)
}

/// Reads the TLV block of an address block, and adds the TLVs to the addresses, ordered by type and type extension.
pub(super) fn address_block(
    reader: &mut Reader,
    entries: &mut [AddressEntry],
    budget: &mut Budget,
) -> Result<(), DecodeError> {
    let mut block = content(reader)?;
    while !block.is_empty() {
        let offset = block.position();
        let tlv = RawTlv::read(&mut block, Some(entries.len()))?;
        let covered = &mut entries[tlv.start..=tlv.stop];
        budget.spend(offset, covered.len(), 1 + tlv.single_length)?;
        for (index, entry) in covered.iter_mut().enumerate() {
            let value = tlv.value_of(index);
            entry.tlvs.push(Tlv::new(tlv.typ, tlv.ext, value));
        }
    }
    for entry in entries {
        entry.tlvs.sort_by_key(|tlv| (tlv.typ, tlv.ext));
    }
    Ok(())
}

/// Returns a reader of the TLVs of the block that starts here.
fn content<'a>(reader: &mut Reader<'a>) -> Result<Reader<'a>, DecodeError> {
    let offset = reader.position();
    let length = usize::from(reader.u16()?);
    reader
        .split(length)
        .map_err(|_| DecodeError::new(DecodeCause::TlvBlockLength, offset, length))
}

/// A TLV as encoded. `start` and `stop` are positions in the address block.
struct RawTlv<'a> {
    typ: u8,
    ext: u8,
    start: usize,
    stop: usize,
    value: &'a [u8],
    single_length: usize,
    multi_value: bool,
}

impl<'a> RawTlv<'a> {
    /// Reads a TLV. `addresses` is the number of addresses of the block, or `None` for a packet or message TLV.
    fn read(reader: &mut Reader<'a>, addresses: Option<usize>) -> Result<Self, DecodeError> {
        let typ = reader.u8()?;
        let flags = flags(reader, addresses.is_some())?;
        let ext = reader.optional_u8(flags & flag::HAS_TYPE_EXT != 0)?;
        let (start, stop) = indices(reader, flags, addresses.unwrap_or(1))?;
        let offset = reader.position();
        let value = value(reader, flags)?;
        let multi_value = flags & flag::IS_MULTI_VALUE != 0;
        let values = if multi_value { stop - start + 1 } else { 1 };
        if value.len() % values != 0 {
            return Err(DecodeError::new(
                DecodeCause::TlvLength,
                offset,
                value.len(),
            ));
        }
        Ok(Self {
            typ,
            ext: ext.unwrap_or(0),
            start,
            stop,
            value,
            single_length: value.len() / values,
            multi_value,
        })
    }

    /// Returns the value for the address at position `index` of those that the TLV covers.
    fn value_of(&self, index: usize) -> &'a [u8] {
        let start = if self.multi_value {
            index * self.single_length
        } else {
            0
        };
        &self.value[start..][..self.single_length]
    }
}

/// Reads the flags of a TLV. Refuses combinations that section 5.4.1 excludes.
///
/// A multi-value TLV without indices is accepted for all addresses of a block: the text excludes it, but appendix C.2
/// gives it as an example.
fn flags(reader: &mut Reader, in_address_block: bool) -> Result<u8, DecodeError> {
    let offset = reader.position();
    let flags = reader.u8()?;
    let has = |flag| flags & flag != 0;
    let single_index = has(flag::HAS_SINGLE_INDEX);
    let indexed = single_index || has(flag::HAS_MULTI_INDEX);
    let multi_value = has(flag::IS_MULTI_VALUE);
    let malformed = (single_index && has(flag::HAS_MULTI_INDEX))
        || (has(flag::HAS_EXT_LEN) && !has(flag::HAS_VALUE))
        || (multi_value && (single_index || !has(flag::HAS_VALUE)))
        || (!in_address_block && (indexed || multi_value));
    if malformed {
        return Err(DecodeError::new(
            DecodeCause::TlvFlags,
            offset,
            flags.into(),
        ));
    }
    Ok(flags)
}

/// Reads the positions of the first and the last of the `addresses` that a TLV covers (table 5).
fn indices(
    reader: &mut Reader,
    flags: u8,
    addresses: usize,
) -> Result<(usize, usize), DecodeError> {
    if flags & (flag::HAS_SINGLE_INDEX | flag::HAS_MULTI_INDEX) == 0 {
        return Ok((0, addresses - 1));
    }
    let start = index(reader, 0..addresses)?;
    let stop = match flags & flag::HAS_MULTI_INDEX {
        0 => start,
        _ => index(reader, start..addresses)?,
    };
    Ok((start, stop))
}

fn index(reader: &mut Reader, allowed: core::ops::Range<usize>) -> Result<usize, DecodeError> {
    let offset = reader.position();
    let index = usize::from(reader.u8()?);
    if !allowed.contains(&index) {
        return Err(DecodeError::new(DecodeCause::TlvIndex, offset, index));
    }
    Ok(index)
}

/// Reads the whole value (table 4), which is empty if the TLV has none.
fn value<'a>(reader: &mut Reader<'a>, flags: u8) -> Result<&'a [u8], DecodeError> {
    let length = match flags & (flag::HAS_VALUE | flag::HAS_EXT_LEN) {
        0 => 0,
        flag::HAS_VALUE => reader.u8()?.into(),
        _ => reader.u16()?.into(),
    };
    reader.take(length)
}
