//! Types that all parts of the crate share.

use core::fmt;
use core::net::IpAddr;

/// A time on the monotonic clock, counted from an arbitrary start.
pub type Time = core::time::Duration;

/// A MANET interface. The driver chooses the number (on Linux, the interface index).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u32);

/// An address family. Each has its own neighbourhood and topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// L_status (RFC 6130, section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkStatus {
    /// The link quality has not been good enough so far.
    Pending,
    /// The link was heard or symmetric, and is no longer either.
    Lost,
    /// This router hears the neighbour.
    Heard,
    /// Both routers hear each other.
    Symmetric,
}

impl Family {
    /// Both families.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Returns the family of an address.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns the length of an address in octets: 4 or 16.
    pub const fn address_length(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }
}

impl fmt::Display for InterfaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for LinkStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Lost => "lost",
            Self::Heard => "heard",
            Self::Symmetric => "symmetric",
        })
    }
}
