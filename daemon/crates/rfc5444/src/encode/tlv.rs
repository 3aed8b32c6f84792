//! Encodes TLVs and TLV blocks (RFC 5444, section 5.4).
//!
//! The TLVs of a block's addresses are treated as columns, one for each full type: the values of that type from the
//! first address to the last, with gaps. A second TLV of the same full type on an address goes to a second column. Each
//! column is cut into the TLVs that take the fewest octets.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::wire::tlv as flag;
use crate::{AddressEntry, EncodeError, Tlv};

/// Appends a packet or message TLV block.
pub(super) fn block(out: &mut Vec<u8>, tlvs: &[Tlv]) -> Result<(), EncodeError> {
    with_length(out, |out| {
        tlvs.iter().try_for_each(|tlv| push_message_tlv(out, tlv))
    })
}

/// Appends a TLV of a packet or message.
pub(crate) fn push_message_tlv(out: &mut Vec<u8>, tlv: &Tlv) -> Result<(), EncodeError> {
    push_tlv(out, (tlv.typ, tlv.ext), 0, &[], &tlv.value)
}

/// Appends the TLV block of an address block of `entries`.
pub(super) fn address_block(
    out: &mut Vec<u8>,
    entries: &[AddressEntry],
) -> Result<(), EncodeError> {
    with_length(out, |out| {
        for ((typ, ext, _), column) in columns(entries) {
            for segment in segments(&column) {
                push_segment(out, (typ, ext), &column, segment)?;
            }
        }
        Ok(())
    })
}

/// The values of one full type, at most one for each address of a block.
type Column<'a> = Vec<Option<&'a [u8]>>;

/// Returns the columns by type, type extension, and number of earlier TLVs of the same full type on the address.
fn columns(entries: &[AddressEntry]) -> BTreeMap<(u8, u8, usize), Column<'_>> {
    let mut columns = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let mut seen = BTreeMap::new();
        for tlv in &entry.tlvs {
            let repetition = seen.entry((tlv.typ, tlv.ext)).or_insert(0);
            let key = (tlv.typ, tlv.ext, *repetition);
            *repetition += 1;
            let column: &mut Column = columns
                .entry(key)
                .or_insert_with(|| vec![None; entries.len()]);
            column[index] = Some(tlv.value.as_slice());
        }
    }
    columns
}

/// The addresses that one TLV covers.
struct Segment {
    range: Range<usize>,
    multi_value: bool,
}

/// Cuts a column into the segments that take the fewest octets.
fn segments(column: &Column) -> Vec<Segment> {
    let mut segments = Vec::new();
    for run in runs(column, |a, b| {
        a.is_some() && b.is_some() && length(a) == length(b)
    }) {
        if column[run.start].is_some() {
            segments.extend(cut(column, run));
        }
    }
    segments
}

/// Cuts a run of values of the same length into segments. This is the shortest path from group to group of equal
/// values: a step is a single-value TLV over one group, or a multi-value TLV over several.
fn cut(column: &Column, run: Range<usize>) -> Vec<Segment> {
    let value_length = length(&column[run.start]);
    let offset = run.start;
    let groups: Vec<_> = runs(&column[run], |a, b| a == b)
        .map(|group| group.start + offset..group.end + offset)
        .collect();
    // For each number of leading groups: the octets that they take, and the groups before the last step.
    let mut best = vec![(0, 0)];
    for end in 1..=groups.len() {
        let step = |start: usize| {
            let range = groups[start].start..groups[end - 1].end;
            let octets = cost(&range, end - start > 1, value_length, column.len());
            (best[start].0 + octets, start)
        };
        let shortest = (0..end).map(step).min();
        best.push(shortest.expect("at least one group"));
    }
    walk_back(&groups, &best)
}

/// Returns the segments of the shortest encoding, first to last.
fn walk_back(groups: &[Range<usize>], best: &[(usize, usize)]) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut end = groups.len();
    while end > 0 {
        let start = best[end].1;
        segments.push(Segment {
            range: groups[start].start..groups[end - 1].end,
            multi_value: end - start > 1,
        });
        end = start;
    }
    segments.reverse();
    segments
}

/// Returns the octets of a TLV over a range of the addresses, without a type extension.
fn cost(range: &Range<usize>, multi_value: bool, value_length: usize, addresses: usize) -> usize {
    let values = if multi_value { range.len() } else { 1 };
    let total = values * value_length;
    let length_field = match total {
        0 => 0,
        1..=255 => 1,
        _ => 2,
    };
    2 + indices(range, multi_value, addresses).1.len() + length_field + total
}

/// Returns the flag and the index fields for a range of the addresses (table 3).
///
/// A multi-value TLV always has both indices (section 5.4.1).
fn indices(range: &Range<usize>, multi_value: bool, addresses: usize) -> (u8, Vec<u8>) {
    let (start, stop) = (range.start as u8, (range.end - 1) as u8);
    if multi_value {
        (flag::HAS_MULTI_INDEX, vec![start, stop])
    } else if range.len() == addresses {
        (0, vec![])
    } else if range.len() == 1 {
        (flag::HAS_SINGLE_INDEX, vec![start])
    } else {
        (flag::HAS_MULTI_INDEX, vec![start, stop])
    }
}

/// Returns the longest runs of adjacent items that are alike.
fn runs<'a, T>(
    items: &'a [T],
    alike: impl Fn(&T, &T) -> bool + 'a,
) -> impl Iterator<Item = Range<usize>> + 'a {
    items.chunk_by(alike).scan(0, |end, chunk| {
        let start = *end;
        *end += chunk.len();
        Some(start..*end)
    })
}

fn length(value: &Option<&[u8]>) -> usize {
    value.map_or(0, <[u8]>::len)
}

fn push_segment(
    out: &mut Vec<u8>,
    full_type: (u8, u8),
    column: &Column,
    segment: Segment,
) -> Result<(), EncodeError> {
    let Segment { range, multi_value } = segment;
    let (mut flags, indices) = indices(&range, multi_value, column.len());
    let covered = match multi_value {
        true => range,
        false => range.start..range.start + 1,
    };
    if multi_value {
        flags |= flag::IS_MULTI_VALUE;
    }
    let values: Vec<&[u8]> = column[covered].iter().flatten().copied().collect();
    push_tlv(out, full_type, flags, &indices, &values.concat())
}

/// Appends a TLV (section 5.4.1). `flags` holds the flags for indices and multiple values.
fn push_tlv(
    out: &mut Vec<u8>,
    (typ, ext): (u8, u8),
    mut flags: u8,
    indices: &[u8],
    value: &[u8],
) -> Result<(), EncodeError> {
    let length = u16::try_from(value.len()).map_err(|_| EncodeError::ValueTooLong(value.len()))?;
    let [high, low] = length.to_be_bytes();
    let length_field = [high, low];
    let length_field = match length {
        0 => &[][..],
        1..=255 => &length_field[1..],
        _ => &length_field[..],
    };
    flags |= [0, flag::HAS_VALUE, flag::HAS_VALUE | flag::HAS_EXT_LEN][length_field.len()];
    if ext != 0 {
        flags |= flag::HAS_TYPE_EXT;
    }
    out.extend([typ, flags]);
    out.extend((ext != 0).then_some(ext));
    out.extend(indices);
    out.extend(length_field);
    out.extend(value);
    Ok(())
}

/// Calls `content` to append octets, and writes their length before them.
fn with_length(
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.extend([0, 0]);
    content(out)?;
    let length = out.len() - start - 2;
    let field = u16::try_from(length).map_err(|_| EncodeError::TlvBlockTooLong(length))?;
    out[start..start + 2].copy_from_slice(&field.to_be_bytes());
    Ok(())
}
