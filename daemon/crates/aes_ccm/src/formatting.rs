//! The first block, the counter blocks and the length of the associated data, as octets (RFC 3610, sections 2.2 and 2.3;
//! SP 800-38C, appendix A).

use crate::{LengthError, SetupError};

/// Octets of a block.
pub(crate) const BLOCK: usize = 16;

/// Octets before the associated data that say its length.
const MAX_PREFIX: usize = 10;
/// The shortest associated data whose length does not fit into two octets, because 0xff at the start has another meaning.
const LONG: u64 = 0xff00;

/// The lengths of tag and nonce.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    /// M of the RFC.
    tag_length: usize,
    nonce_length: usize,
}

impl Format {
    pub(crate) fn new(tag_length: usize, nonce_length: usize) -> Result<Self, SetupError> {
        if !matches!(tag_length, 4 | 6 | 8 | 10 | 12 | 14 | 16) {
            return Err(SetupError::Tag(tag_length));
        }
        if !matches!(nonce_length, 7..=13) {
            return Err(SetupError::Nonce(nonce_length));
        }
        Ok(Self {
            tag_length,
            nonce_length,
        })
    }

    pub(crate) fn check(&self, nonce: usize, content: u64, tag: usize) -> Result<(), LengthError> {
        if nonce != self.nonce_length {
            let (octets, allowed) = (nonce, self.nonce_length);
            return Err(LengthError::Nonce { octets, allowed });
        }
        if tag != self.tag_length {
            let (octets, allowed) = (tag, self.tag_length);
            return Err(LengthError::Tag { octets, allowed });
        }
        if content > self.max_content() {
            let (octets, most) = (content, self.max_content());
            return Err(LengthError::Content { octets, most });
        }
        Ok(())
    }

    pub(crate) fn max_content(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.length_octets())
    }

    /// Returns B_0: flags, nonce, and length of the content.
    pub(crate) fn first_block(&self, nonce: &[u8], has_associated: bool, content: u64) -> u128 {
        let tag = (self.tag_length as u8 - 2) / 2;
        let flags = u8::from(has_associated) << 6 | tag << 3 | (self.length_octets() as u8 - 1);
        self.block(flags, nonce) | u128::from(content)
    }

    /// Returns A_0: flags, nonce, and a counter of zero. Content that passes [`Format::check`] has fewer blocks than the
    /// counter has values, so adding to it never reaches the nonce.
    pub(crate) fn counter_block(&self, nonce: &[u8]) -> u128 {
        self.block(self.length_octets() as u8 - 1, nonce)
    }

    /// L of the RFC, 2 to 8.
    fn length_octets(&self) -> usize {
        BLOCK - 1 - self.nonce_length
    }

    fn block(&self, flags: u8, nonce: &[u8]) -> u128 {
        let nonce = nonce
            .iter()
            .fold(0, |number, octet| number << 8 | u128::from(*octet));
        u128::from(flags) << 120 | nonce << (8 * self.length_octets())
    }
}

/// Returns the first block of the associated data, which begins with the length, and how many octets of the data are in it.
pub(crate) fn associated_block(associated: &[u8]) -> ([u8; BLOCK], usize) {
    let (prefix, length) = length_prefix(associated.len() as u64);
    let mut block = [0; BLOCK];
    let taken = associated.len().min(BLOCK - length);
    block[..length].copy_from_slice(&prefix[..length]);
    block[length..length + taken].copy_from_slice(&associated[..taken]);
    (block, taken)
}

/// Returns the octets that say how long associated data is, and how many they are: 2, 6 or 10.
fn length_prefix(octets: u64) -> ([u8; MAX_PREFIX], usize) {
    let mut prefix = [0; MAX_PREFIX];
    let long = octets.to_be_bytes();
    let length = if octets < LONG {
        prefix[..2].copy_from_slice(&long[6..]);
        2
    } else if octets <= u64::from(u32::MAX) {
        prefix[..2].copy_from_slice(&[0xff, 0xfe]);
        prefix[2..6].copy_from_slice(&long[4..]);
        6
    } else {
        prefix[..2].copy_from_slice(&[0xff, 0xff]);
        prefix[2..].copy_from_slice(&long);
        10
    };
    (prefix, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_associated_data_takes_two_six_or_ten_octets() {
        let cases: [(u64, &[u8]); 7] = [
            (1, &[0, 1]),
            (0xfeff, &[0xfe, 0xff]),
            (0xff00, &[0xff, 0xfe, 0, 0, 0xff, 0]),
            (0x1_0000, &[0xff, 0xfe, 0, 1, 0, 0]),
            (0xffff_ffff, &[0xff, 0xfe, 0xff, 0xff, 0xff, 0xff]),
            (0x1_0000_0000, &[0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0]),
            (u64::MAX, &[0xff; 10]),
        ];
        for (octets, expected) in cases {
            let (prefix, length) = length_prefix(octets);
            assert_eq!(&prefix[..length], expected, "{octets:#x}");
        }
    }

    #[test]
    fn the_longest_content_is_what_the_length_field_can_say() {
        for nonce_length in 7..=13 {
            let format = Format::new(8, nonce_length).expect("allowed");
            let octets = 15 - nonce_length as u32;
            let most = (1u128 << (8 * octets)) - 1;
            assert_eq!(u128::from(format.max_content()), most);
            let fits = |content| format.check(nonce_length, content, 8).is_ok();
            assert!(fits(format.max_content()));
            assert!(octets == 8 || !fits(format.max_content() + 1));
        }
    }

    #[test]
    fn the_first_blocks_are_those_of_packet_vector_1() {
        let format = Format::new(8, 13).expect("allowed");
        let nonce = [0, 0, 0, 3, 2, 1, 0, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5];
        let first = format.first_block(&nonce, true, 23);
        assert_eq!(first, 0x5900_0000_0302_0100_a0a1_a2a3_a4a5_0017);
        assert_eq!(
            format.first_block(&nonce, false, 23),
            first & !(0x40 << 120)
        );
        assert_eq!(
            format.counter_block(&nonce),
            0x0100_0000_0302_0100_a0a1_a2a3_a4a5_0000
        );
    }
}
