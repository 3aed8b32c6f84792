//! What is wrong with a signature.

use core::fmt;

/// Why a message does not count as signed although it claims to be. Its sender, or a relay, is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// There is one of the two TLVs without the other, or two of one.
    Count,
    /// The value of a TLV has this number of octets.
    Length(usize),
    /// The key is no point of the curve, not in its only encoding (RFC 8032, section 5.1.3), or a point of small order.
    Key,
    /// The originator is the hash of another key.
    Address,
    /// The signature is not of this key and these octets.
    Signature,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count => f.write_str("not exactly one ICV and one TIMESTAMP"),
            Self::Length(octets) => write!(f, "an ICV or TIMESTAMP of {octets} octets"),
            Self::Key => f.write_str("no usable Ed25519 key"),
            Self::Address => f.write_str("the originator is not the hash of the key"),
            Self::Signature => f.write_str("a false signature"),
        }
    }
}

impl core::error::Error for Fault {}
