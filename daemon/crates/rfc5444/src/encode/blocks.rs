//! Where one address block ends and the next begins.
//!
//! Addresses that share a head are worth a block of their own if that saves
//! more than the fields of the block and the TLVs that it repeats.

use alloc::vec::Vec;

use super::address::Shape;
use crate::{wire, AddressEntry};

/// Number of addresses, flags and length of the TLV block.
const BLOCK_FIELDS: usize = 4;
/// Type, flags, length and one octet of value of a TLV that both blocks need.
const REPEATED_TLV: usize = 3;

/// Cuts the addresses, in their order, into blocks of at most 255 so that they
/// take the fewest octets.
pub(super) fn cut(entries: &[AddressEntry]) -> Vec<&[AddressEntry]> {
    // For each number of leading addresses: the octets they take and the start of the last block.
    let mut best = Vec::from([(0, 0)]);
    best.resize(entries.len() + 1, (usize::MAX, 0));
    for start in 0..entries.len() {
        let before = best[start].0 + BLOCK_FIELDS + repeated(entries, start);
        let ends = start + 1..=entries.len().min(start + wire::BLOCK_ADDRESSES);
        for (end, size) in ends.zip(sizes(&entries[start..])) {
            // Among equals the latest start, so that the blocks before it are full.
            if before + size <= best[end].0 {
                best[end] = (before + size, start);
            }
        }
    }
    walk_back(entries, &best)
}

/// The size of the address block of the first address, the first two, and so on.
fn sizes(entries: &[AddressEntry]) -> impl Iterator<Item = usize> + '_ {
    let mut shape = Shape::new(&entries[0]);
    entries.iter().enumerate().map(move |(index, entry)| {
        if index > 0 {
            shape.add(entry);
        }
        shape.size()
    })
}

/// The octets of TLVs that a block beginning at `start` repeats from the one before.
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

/// The blocks along the shortest way, first to last.
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
