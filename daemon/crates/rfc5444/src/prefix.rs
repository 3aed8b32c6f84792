//! Addresses with a prefix length.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An IPv4 or IPv6 address with a prefix length.
///
/// Host bits are kept; [`Prefix::canonical`] clears them. The order is by family, then address, then prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The address.
    pub addr: IpAddr,
    /// The prefix length in bits: at most 32 (IPv4) or 128 (IPv6).
    pub len: u8,
}

/// The text is not `ADDRESS` or `ADDRESS/LENGTH`.
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
    /// Returns a prefix, or `None` if `len` is longer than the address.
    pub fn new(addr: IpAddr, len: u8) -> Option<Self> {
        (len <= max_length(addr)).then_some(Self { addr, len })
    }

    /// Returns the prefix of a single address, of length 32 or 128.
    pub fn host(addr: IpAddr) -> Self {
        let len = max_length(addr);
        Self { addr, len }
    }

    /// Returns whether the prefix is a single address.
    pub fn is_host(&self) -> bool {
        self.len == max_length(self.addr)
    }

    /// Returns the same prefix with all bits after the prefix length cleared.
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

    /// Returns whether `addr` is of the same family and inside the prefix.
    pub fn contains(&self, addr: IpAddr) -> bool {
        let other = Self {
            addr,
            len: self.len,
        };
        self.canonical() == other.canonical()
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

    /// Reads `ADDRESS/LENGTH`. `ADDRESS` alone is a single address.
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

/// Returns the number of bits of an address.
fn max_length(addr: IpAddr) -> u8 {
    match addr {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn text() {
        for text in [
            "0.0.0.0/0",
            "10.0.0.1/32",
            "10.0.0.1/8",
            "::/0",
            "fc00::1/128",
        ] {
            assert_eq!(prefix(text).to_string(), text);
        }
        assert_eq!(prefix("10.0.0.1"), prefix("10.0.0.1/32"));
        assert_eq!(prefix("fc00::1"), prefix("fc00::1/128"));
    }

    #[test]
    fn bad_text() {
        let address = ParsePrefixError::Address;
        let length = |max| ParsePrefixError::Length { max };
        let cases = [
            ("", address),
            ("10.0.0/8", address),
            ("10.0.0.0/33", length(32)),
            ("10.0.0.0/", length(32)),
            ("10.0.0.0/-1", length(32)),
            ("::/129", length(128)),
            ("::/1/1", length(128)),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Prefix>(), Err(error), "{text}");
        }
    }

    #[test]
    fn canonical() {
        let cases = [
            ("10.1.2.3/32", "10.1.2.3/32"),
            ("10.1.2.3/31", "10.1.2.2/31"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("255.255.255.255/0", "0.0.0.0/0"),
            ("ffff::ffff/128", "ffff::ffff/128"),
            ("ffff::ffff/127", "ffff::fffe/127"),
            ("ffff::ffff/0", "::/0"),
        ];
        for (given, expected) in cases {
            assert_eq!(prefix(given).canonical(), prefix(expected), "{given}");
        }
    }

    #[test]
    fn contains() {
        let contains = |text, addr: &str| prefix(text).contains(addr.parse().unwrap());
        assert!(contains("10.0.0.9/24", "10.0.0.255"));
        assert!(!contains("10.0.0.0/24", "10.0.1.0"));
        assert!(contains("0.0.0.0/0", "255.255.255.255"));
        assert!(!contains("0.0.0.0/0", "::"));
        assert!(contains("fc00::/8", "fcff::1"));
        assert!(!contains("fc00::/8", "fd00::1"));
    }

    #[test]
    fn length() {
        let addr = "10.0.0.1".parse().unwrap();
        assert_eq!(Prefix::new(addr, 33), None);
        assert_eq!(Prefix::new(addr, 32), Some(Prefix::host(addr)));
        assert!(Prefix::host(addr).is_host());
        assert!(!prefix("10.0.0.1/31").is_host());
    }
}
