//! Addresses with a prefix length.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An IPv4 or IPv6 address with a prefix length.
///
/// Host bits are kept as they are; [`Prefix::canonical`] clears them. The
/// order is by family, then address, then prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The address.
    pub addr: IpAddr,
    /// The prefix length in bits: at most 32 (IPv4) or 128 (IPv6).
    pub len: u8,
}

/// A text that is not `ADDRESS` or `ADDRESS/LENGTH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsePrefixError {
    /// The part before the slash is neither an IPv4 nor an IPv6 address.
    Address,
    /// The part after the slash is not a number from 0 to `max`.
    Length {
        /// The longest prefix length of the address family.
        max: u8,
    },
}

impl Prefix {
    /// A prefix, or `None` when `len` is longer than the address.
    pub fn new(addr: IpAddr, len: u8) -> Option<Self> {
        (len <= max_length(addr)).then_some(Self { addr, len })
    }

    /// A single address: prefix length 32 or 128.
    pub fn host(addr: IpAddr) -> Self {
        let len = max_length(addr);
        Self { addr, len }
    }

    /// Whether the prefix is a single address.
    pub fn is_host(&self) -> bool {
        self.len == max_length(self.addr)
    }

    /// The same prefix with all bits after the prefix length cleared.
    pub fn canonical(&self) -> Self {
        let addr = match self.addr {
            IpAddr::V4(addr) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.len.min(32)));
                Ipv4Addr::from_bits(addr.to_bits() & mask.unwrap_or(0)).into()
            }
            IpAddr::V6(addr) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.len.min(128)));
                Ipv6Addr::from_bits(addr.to_bits() & mask.unwrap_or(0)).into()
            }
        };
        Self {
            addr,
            len: self.len,
        }
    }

    /// Whether `addr` is of the same family and lies inside the prefix.
    pub fn contains(&self, addr: IpAddr) -> bool {
        let other = Self {
            addr,
            len: self.len,
        };
        addr.is_ipv4() == self.addr.is_ipv4() && self.canonical() == other.canonical()
    }
}

impl From<IpAddr> for Prefix {
    fn from(addr: IpAddr) -> Self {
        Self::host(addr)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl FromStr for Prefix {
    type Err = ParsePrefixError;

    /// Reads `ADDRESS/LENGTH`; an address alone is a single address.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len)),
            None => (text, None),
        };
        let host = Self::host(addr.parse().map_err(|_| ParsePrefixError::Address)?);
        let error = ParsePrefixError::Length { max: host.len };
        let len = len.map_or(Ok(host.len), |len| len.parse().map_err(|_| error))?;
        Self::new(host.addr, len).ok_or(error)
    }
}

impl fmt::Display for ParsePrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("not an IPv4 or IPv6 address"),
            Self::Length { max } => write!(f, "the prefix length must be a number from 0 to {max}"),
        }
    }
}

impl core::error::Error for ParsePrefixError {}

/// The number of bits of an address.
fn max_length(addr: IpAddr) -> u8 {
    match addr {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
