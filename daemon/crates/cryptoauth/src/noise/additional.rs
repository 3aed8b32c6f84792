//! The additional data of an INIT: elements of a type, a length and a value.
//!
//! The types are 0 padding with zeros, 1 the identifier of the preshared key, 2 the receiver's session that this one
//! continues, and 3 the sender's protocol version. Others are skipped. Integers are little-endian.

use crate::auth::Lookup;
use crate::Refused;

/// Largest length in octets, more than that of all known elements. Longer data is refused before any calculation.
pub(super) const MAX_LENGTH: usize = 256;

const PADDING: u8 = 0;
const PRESHARED: u8 = 1;
const PREVIOUS: u8 = 2;
const VERSION: u8 = 3;
/// The length is a multiple of this.
const ALIGNMENT: usize = 4;
/// Octets of padding, version, key identifier and previous session.
const OWN_LENGTH: usize = 2 + 6 + 10 + 6;

/// The decoded additional data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Additional {
    pub(super) version: Option<u32>,
    pub(super) preshared: Option<Lookup>,
    pub(super) previous: Option<u32>,
}

/// Encoded elements.
pub(super) struct Encoded {
    octets: [u8; OWN_LENGTH],
    length: usize,
}

impl Additional {
    pub(super) fn decode(mut octets: &[u8]) -> Result<Self, Refused> {
        let mut found = Self::default();
        while let [kind, length, rest @ ..] = octets {
            let (value, after) = rest
                .split_at_checked(usize::from(*length))
                .ok_or(Refused::Additional)?;
            octets = after;
            match *kind {
                PADDING if value.iter().any(|octet| *octet != 0) => {
                    return Err(Refused::Additional)
                }
                PRESHARED => found.preshared = Some(fixed(value)?),
                PREVIOUS => found.previous = Some(u32::from_le_bytes(fixed(value)?)),
                VERSION => found.version = Some(u32::from_le_bytes(fixed(value)?)),
                _ => {}
            }
        }
        octets
            .is_empty()
            .then_some(found)
            .ok_or(Refused::Additional)
    }

    /// Encodes the elements in the order in which other nodes send them: first the padding, which has an odd length.
    pub(super) fn encode(&self) -> Encoded {
        let mut encoded = Encoded {
            octets: [0; OWN_LENGTH],
            length: 0,
        };
        let previous = self.previous.map(u32::to_le_bytes);
        let version = self.version.map(u32::to_le_bytes);
        let lengths = [
            self.preshared.map(|_| 10),
            previous.map(|_| 6),
            version.map(|_| 6),
        ];
        if lengths.iter().flatten().sum::<usize>() % ALIGNMENT != 0 {
            encoded.push(PADDING, &[]);
        }
        version
            .iter()
            .for_each(|value| encoded.push(VERSION, value));
        self.preshared
            .iter()
            .for_each(|value| encoded.push(PRESHARED, value));
        previous
            .iter()
            .for_each(|value| encoded.push(PREVIOUS, value));
        encoded
    }
}

impl Encoded {
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets[..self.length]
    }

    fn push(&mut self, kind: u8, value: &[u8]) {
        let end = self.length + 2 + value.len();
        let element = &mut self.octets[self.length..end];
        element[0] = kind;
        element[1] = value.len() as u8;
        element[2..].copy_from_slice(value);
        self.length = end;
    }
}

fn fixed<const N: usize>(value: &[u8]) -> Result<[u8; N], Refused> {
    value.try_into().map_err(|_| Refused::Additional)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_octets_are_survived(octets in vec(prop_oneof![0..5_u8, any::<u8>()], 0..64)) {
            if let Ok(found) = Additional::decode(&octets) {
                prop_assert_eq!(Additional::decode(found.encode().octets()), Ok(found));
            }
        }
    }

    #[test]
    fn what_is_encoded_decodes() {
        for bits in 0..8 {
            let additional = Additional {
                version: (bits & 1 != 0).then_some(22),
                preshared: (bits & 2 != 0).then_some([3, 1, 2, 3, 4, 5, 6, 7]),
                previous: (bits & 4 != 0).then_some(0x0001_0203),
            };
            let encoded = additional.encode();
            assert_eq!(encoded.octets().len() % ALIGNMENT, 0, "{additional:?}");
            assert_eq!(Additional::decode(encoded.octets()), Ok(additional));
        }
    }

    #[test]
    fn elements_that_are_not_known_are_skipped_and_malformed_ones_refused() {
        assert_eq!(
            Additional::decode(&[9, 2, 1, 1, 0, 3, 0, 0, 0]),
            Ok(Additional::default())
        );
        for malformed in [
            &[0][..],
            &[0, 1],
            &[0, 1, 1],
            &[3, 3, 0, 0, 0],
            &[1, 7, 3, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(
                Additional::decode(malformed),
                Err(Refused::Additional),
                "{malformed:?}"
            );
        }
    }
}
