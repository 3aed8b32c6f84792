//! Decides where one address block ends and the next starts.
//!
//! Addresses that share a head get their own block if that saves more than the fields of the block and the TLVs that it
//! repeats.

use alloc::vec::Vec;

use super::address::Shape;
use crate::{wire, AddressEntry};

/// Octets of the number of addresses, the flags and the length of the TLV block.
const BLOCK_FIELDS: usize = 4;
/// Octets of the type, flags and length of a TLV that both blocks need.
const REPEATED_TLV: usize = 3;

/// Cuts the addresses, in their order, into the blocks of at most 255 that take the fewest octets.
pub(super) fn cut(entries: &[AddressEntry]) -> Vec<&[AddressEntry]> {
    // For each number of leading addresses: the octets that they take, and the start of the last block.
    let mut best = Vec::from([(0, 0)]);
    best.resize(entries.len() + 1, (usize::MAX, 0));
    for start in 0..entries.len() {
        let before = best[start].0 + BLOCK_FIELDS + repeated(entries, start);
        let ends = start + 1..=entries.len().min(start + wire::BLOCK_ADDRESSES);
        for (end, size) in ends.zip(sizes(&entries[start..])) {
            // Of equal sizes, the latest start is used, so that the blocks before it are full.
            if before + size <= best[end].0 {
                best[end] = (before + size, start);
            }
        }
    }
    walk_back(entries, &best)
}

/// Returns the size of an address block of the first address, of the first two, and so on.
fn sizes(entries: &[AddressEntry]) -> impl Iterator<Item = usize> + '_ {
    let mut shape = Shape::new(&entries[0]);
    entries.iter().enumerate().map(move |(index, entry)| {
        if index > 0 {
            shape.add(entry);
        }
        shape.size()
    })
}

/// Returns the octets of the TLVs that a block starting at `start` repeats from the block before.
fn repeated(entries: &[AddressEntry], start: usize) -> usize {
    let Some(last) = start.checked_sub(1) else {
        return 0;
    };
    let (before, after) = (&entries[last].tlvs, &entries[start].tlvs);
    let repeats = after
        .iter()
        .filter(|tlv| before.iter().any(|other| other.is(tlv.typ, tlv.ext)));
    REPEATED_TLV * repeats.count()
}

/// Returns the blocks of the shortest encoding, first to last.
fn walk_back<'a>(entries: &'a [AddressEntry], best: &[(usize, usize)]) -> Vec<&'a [AddressEntry]> {
    let mut blocks = Vec::new();
    let mut end = entries.len();
    while end > 0 {
        let start = best[end].1;
        blocks.push(&entries[start..end]);
        end = start;
    }
    blocks.reverse();
    blocks
}
