//! Key pairs, addresses and their text forms.

use core::fmt;
use core::net::Ipv6Addr;
use core::str::FromStr;

use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::MontgomeryPoint;
use sha2::{Digest, Sha512};
use zeroize::{Zeroize, Zeroizing};

/// Octets of a private key, of a public key and of a shared secret (RFC 7748, section 5).
pub const KEY_LENGTH: usize = 32;

/// Every node's address is in fc00::/8.
const ADDRESS_OCTET: u8 = 0xfc;
/// The digits of the base 32 form, in the order of their values.
const DIGITS: &[u8; 32] = b"0123456789bcdfghjklmnpqrstuvwxyz";
/// Number of digits of 5 bits in the 256 bits of a key.
const TEXT_DIGITS: usize = 52;
/// The end of a public key's text form.
const TEXT_SUFFIX: &str = ".k";

/// An X25519 private key. It is never formatted, and it is overwritten when it is dropped.
#[derive(Clone)]
pub struct PrivateKey(Zeroizing<[u8; KEY_LENGTH]>);

/// An X25519 public key, any 32 octets. Whether it is usable shows when a secret is agreed with it.
///
/// Keys are ordered as octet strings. If the HELLOs of two nodes cross, the one with the lower key stays initiator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_LENGTH]);

/// The IPv6 address of a node: the first 16 octets of SHA-512(SHA-512(public key)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address([u8; 16]);

/// What is wrong with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The octets do not encode a point of the curve Ed25519 (RFC 8032, section 5.1.3).
    NotOnCurve,
    /// The point has a small order, so that every node shares the same secret with it (RFC 7748, section 6.1).
    SmallOrder,
    /// The key has this address, which is not in fc00::/8.
    Address(Address),
    /// The text form has this number of octets instead of 52 digits and `.k`.
    TextLength(usize),
    /// The character at this index of the text form is not a digit of base 32.
    TextDigit(usize),
    /// The last digit of the text form exceeds 256 bits.
    TextOverflow,
}

impl PrivateKey {
    /// Returns the key with these octets. They are clamped when they are used (RFC 7748, section 5).
    pub fn from_octets(octets: [u8; KEY_LENGTH]) -> Self {
        Self(Zeroizing::new(octets))
    }

    /// Returns the X25519 form of an Ed25519 private key: the clamped scalar of RFC 8032, section 5.1.5, steps 1 and 2.
    pub fn from_ed25519_seed(seed: &[u8; KEY_LENGTH]) -> Self {
        let mut digest = Sha512::digest(seed);
        let mut scalar = Zeroizing::new([0; KEY_LENGTH]);
        scalar.copy_from_slice(&digest[..KEY_LENGTH]);
        digest.as_mut_slice().zeroize();
        scalar[0] &= 0xf8;
        scalar[31] = scalar[31] & 0x7f | 0x40;
        Self(scalar)
    }

    /// Returns the public key (RFC 7748, section 6.1).
    pub fn public(&self) -> PublicKey {
        PublicKey(MontgomeryPoint::mul_base_clamped(*self.0).to_bytes())
    }

    /// Returns the X25519 shared secret with `other`, or `None` for a point of small order (RFC 7748, section 6.1).
    pub(crate) fn agree(&self, other: &PublicKey) -> Option<Zeroizing<[u8; KEY_LENGTH]>> {
        let secret = Zeroizing::new(MontgomeryPoint(other.0).mul_clamped(*self.0).to_bytes());
        let bits = secret.iter().fold(0, |bits, octet| bits | octet);
        (bits != 0).then_some(secret)
    }
}

impl PublicKey {
    /// Returns the key with these octets.
    pub const fn from_octets(octets: [u8; KEY_LENGTH]) -> Self {
        Self(octets)
    }

    /// Returns the X25519 form of an Ed25519 public key: u = (1 + y) / (1 - y) (RFC 7748, section 4.1).
    ///
    /// # Errors
    ///
    /// [`KeyError::NotOnCurve`], also for a coordinate that is not reduced, and [`KeyError::SmallOrder`].
    pub fn from_ed25519(octets: &[u8; KEY_LENGTH]) -> Result<Self, KeyError> {
        let point = CompressedEdwardsY(*octets)
            .decompress()
            .ok_or(KeyError::NotOnCurve)?;
        if point.is_small_order() {
            return Err(KeyError::SmallOrder);
        }
        // Only y matters here, and RFC 8032 allows only one form of it.
        let mut canonical = point.compress().to_bytes();
        canonical[31] = canonical[31] & 0x7f | octets[31] & 0x80;
        if canonical != *octets {
            return Err(KeyError::NotOnCurve);
        }
        Ok(Self(point.to_montgomery().to_bytes()))
    }

    /// Returns the octets of the key.
    pub const fn octets(&self) -> &[u8; KEY_LENGTH] {
        &self.0
    }

    /// Returns the address of the key, in fc00::/8 or not.
    pub fn address(&self) -> Address {
        let mut address = [0; 16];
        address.copy_from_slice(&Sha512::digest(Sha512::digest(self.0))[..16]);
        Address(address)
    }

    /// Returns the address of the key if a node may have it.
    ///
    /// # Errors
    ///
    /// [`KeyError::Address`] if the address is not in fc00::/8.
    pub fn node_address(&self) -> Result<Address, KeyError> {
        let address = self.address();
        if address.0[0] == ADDRESS_OCTET {
            Ok(address)
        } else {
            Err(KeyError::Address(address))
        }
    }
}

impl Address {
    /// Returns the address with these octets.
    pub const fn from_octets(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// Returns the octets of the address.
    pub const fn octets(&self) -> &[u8; 16] {
        &self.0
    }
}

impl From<Address> for Ipv6Addr {
    fn from(address: Address) -> Self {
        address.0.into()
    }
}

/// Writes base 32, least significant bits first, and `.k`.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; TEXT_DIGITS];
        for (index, digit) in text.iter_mut().enumerate() {
            *digit = DIGITS[usize::from(five_bits(&self.0, 5 * index))];
        }
        f.write_str(core::str::from_utf8(&text).unwrap_or_default())?;
        f.write_str(TEXT_SUFFIX)
    }
}

/// Returns the five bits of `octets` from bit `start` on. Bits beyond the end are 0.
fn five_bits(octets: &[u8], start: usize) -> u8 {
    let octet = |index: usize| u16::from(octets.get(index).copied().unwrap_or(0));
    let pair = octet(start / 8) | octet(start / 8 + 1) << 8;
    (pair >> (start % 8) & 31) as u8
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let digits = text
            .strip_suffix(TEXT_SUFFIX)
            .filter(|digits| digits.len() == TEXT_DIGITS)
            .ok_or(KeyError::TextLength(text.len()))?;
        let mut octets = [0; KEY_LENGTH];
        for (index, character) in digits.bytes().enumerate() {
            let is_it = |digit: &u8| *digit == character.to_ascii_lowercase();
            let value = DIGITS
                .iter()
                .position(is_it)
                .ok_or(KeyError::TextDigit(index))?;
            let (octet, shifted) = (5 * index / 8, value << (5 * index % 8));
            octets[octet] |= shifted as u8;
            match (octets.get_mut(octet + 1), shifted >> 8) {
                (Some(next), high) => *next |= high as u8,
                (None, 0) => {}
                (None, _) => return Err(KeyError::TextOverflow),
            }
        }
        Ok(Self(octets))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOnCurve => f.write_str("no point of the curve Ed25519"),
            Self::SmallOrder => f.write_str("a point of small order: it protects nothing"),
            Self::Address(address) => {
                write!(f, "its address is {address}, which is not in fc00::/8")
            }
            Self::TextLength(length) => {
                write!(
                    f,
                    "{length} characters, must be {TEXT_DIGITS} and {TEXT_SUFFIX}"
                )
            }
            Self::TextDigit(index) => {
                write!(
                    f,
                    "character {} is not of 0-9, b-d, f-h, j-n, p-z",
                    index + 1
                )
            }
            Self::TextOverflow => f.write_str("the last digit must be 0 or 1"),
        }
    }
}

impl core::error::Error for KeyError {}
