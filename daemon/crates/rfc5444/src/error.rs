//! Errors in octets from a neighbour, and in values of this router.

use core::fmt;
use core::net::IpAddr;

/// Malformed octets. The sender is at fault, so the receiver counts and drops them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// What is wrong.
    pub cause: DecodeCause,
    /// Where it is, in octets from the start of the decoded slice.
    pub offset: usize,
    /// The offending value of the field at `offset`.
    pub value: usize,
}

/// The ways in which octets can be malformed (RFC 5444, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeCause {
    /// The octets end inside a field. The value is the number of missing octets.
    Truncated,
    /// A packet version other than 0 (section 5.1).
    Version,
    /// An address length other than 4 or 16 octets.
    AddressLength,
    /// A message size smaller than its header or beyond the end of the packet (section 5.2).
    MessageSize,
    /// A TLV block that ends beyond its message or packet (section 5.4).
    TlvBlockLength,
    /// TLV flags that exclude each other or do not fit the block (section 5.4.1).
    TlvFlags,
    /// A TLV index beyond the address block, or a stop before its start (section 5.4.1).
    TlvIndex,
    /// A multi-value TLV whose length is no multiple of its number of values (section 5.4.1).
    TlvLength,
    /// An address block without addresses (section 5.3).
    AddressCount,
    /// Address block flags that exclude each other (section 5.3).
    AddressFlags,
    /// A head and tail that together are longer than an address (section 5.3).
    HeadTailLength,
    /// A prefix length longer than the address (section 5.3).
    PrefixLength,
    /// More addresses, TLVs and value octets than [`crate::MAX_EXPANSION`] and [`crate::MAX_ENTRIES`] allow. The value
    /// is the number allowed.
    Expansion,
}

/// A value that RFC 5444 cannot express. The caller is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// `Message::addr_len` is neither 4 nor 16.
    AddressLength(u8),
    /// The length of this address is not `Message::addr_len`.
    AddressFamily(IpAddr),
    /// This prefix length is longer than its address.
    PrefixLength(u8),
    /// A TLV value has this number of octets, more than 65535.
    ValueTooLong(usize),
    /// A TLV block has this number of octets, more than 65535.
    TlvBlockTooLong(usize),
    /// A message has this number of octets, more than 65535.
    MessageTooLong(usize),
    /// A message to which something was to be added is malformed.
    Message(DecodeError),
}

impl DecodeError {
    pub(crate) fn new(cause: DecodeCause, offset: usize, value: usize) -> Self {
        Self {
            cause,
            offset,
            value,
        }
    }

    /// Returns the same error with an offset that is `start` octets larger.
    pub(crate) fn shifted(mut self, start: usize) -> Self {
        self.offset += start;
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cause,
            offset,
            value,
        } = self;
        write!(f, "{cause} at octet {offset}: {value}")
    }
}

impl fmt::Display for DecodeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "octets missing",
            Self::Version => "packet version not 0",
            Self::AddressLength => "address length neither 4 nor 16",
            Self::MessageSize => "message size outside header and packet",
            Self::TlvBlockLength => "TLV block beyond its message",
            Self::TlvFlags => "contradictory TLV flags",
            Self::TlvIndex => "TLV index outside the address block",
            Self::TlvLength => "TLV length no multiple of the number of values",
            Self::AddressCount => "address block without addresses",
            Self::AddressFlags => "contradictory address block flags",
            Self::HeadTailLength => "head or tail length outside the address",
            Self::PrefixLength => "prefix length beyond the address",
            Self::Expansion => "more content than the size of the message allows",
        })
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressLength(len) => write!(f, "address length {len}, must be 4 or 16"),
            Self::AddressFamily(addr) => write!(f, "{addr} is not of the message's address length"),
            Self::PrefixLength(len) => write!(f, "prefix length {len} is longer than the address"),
            Self::ValueTooLong(len) => write!(f, "TLV value of {len} octets, at most 65535"),
            Self::TlvBlockTooLong(len) => write!(f, "TLV block of {len} octets, at most 65535"),
            Self::MessageTooLong(len) => write!(f, "message of {len} octets, at most 65535"),
            Self::Message(error) => write!(f, "not a message: {error}"),
        }
    }
}

impl From<DecodeError> for EncodeError {
    fn from(error: DecodeError) -> Self {
        Self::Message(error)
    }
}

impl core::error::Error for DecodeError {}
impl core::error::Error for EncodeError {}
