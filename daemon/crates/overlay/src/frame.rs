//! The content of inner sessions: a data header and a payload.
//!
//! ```text
//! 0 u4 version (1), zeros | 2 u16 content type
//! ```
//!
//! While the session is being set up, the sender's handle precedes the data header. An IPv6 packet is sent without its
//! header: the keys of the two ends determine the addresses, and the length of the frame the payload length. Traffic
//! class, flow label and hop limit are lost.

use core::fmt;

use cryptoauth::Address;

/// Length of a data header in octets.
pub const DATA_HEADER: usize = 4;

/// Length of an IPv6 header in octets (RFC 8200, section 3).
pub const IPV6_HEADER: usize = 40;

/// Hop limit of a packet that arrived without its header.
const HOP_LIMIT: u8 = 42;

/// The lowest handle. Numbers below are nonces of handshakes.
const FIRST_HANDLE: u32 = 4;

/// The kind of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// 0 to 255: an IPv6 packet without its header. The value is its next header.
    Ipv6(u8),
    /// 256: a DHT message.
    Dht,
    /// 257: the tunnel for foreign addresses.
    Tunnel,
    /// An unknown type.
    Other(u16),
}

/// Why octets are refused. At fault is the other end of the session or, for a packet, the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameError {
    /// The octets end inside a header.
    Truncated,
    /// The data header has this version, which is not 1.
    Version(u8),
    /// The handle is below 4.
    Handle(u32),
    /// The packet has this IP version, which is not 6.
    IpVersion(u8),
    /// The payload length in the IPv6 header is not that of the packet.
    Length(u16),
    /// The packet's source is not this node's address.
    Source(Address),
    /// The packet's destination is not another node's address.
    Destination(Address),
}

impl Content {
    /// Returns the content type that is sent.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Ipv6(next_header) => next_header as u16,
            Self::Dht => 256,
            Self::Tunnel => 257,
            Self::Other(number) => number,
        }
    }

    /// Returns the data header.
    #[must_use]
    pub const fn header(self) -> [u8; DATA_HEADER] {
        let [high, low] = self.number().to_be_bytes();
        [0x10, 0, high, low]
    }
}

impl From<u16> for Content {
    fn from(number: u16) -> Self {
        match (u8::try_from(number), number) {
            (Ok(next_header), _) => Self::Ipv6(next_header),
            (_, 256) => Self::Dht,
            (_, 257) => Self::Tunnel,
            _ => Self::Other(number),
        }
    }
}

/// Splits the content of an established session into content type and payload.
///
/// # Errors
///
/// [`FrameError::Truncated`] and [`FrameError::Version`].
pub fn split_data(plain: &[u8]) -> Result<(Content, &[u8]), FrameError> {
    let (&[version, _, high, low], payload) =
        plain.split_first_chunk().ok_or(FrameError::Truncated)?;
    match version >> 4 {
        1 => Ok((u16::from_be_bytes([high, low]).into(), payload)),
        other => Err(FrameError::Version(other)),
    }
}

/// Splits the content of a handshake into the sender's handle, content type and payload.
///
/// # Errors
///
/// [`FrameError::Handle`], and those of [`split_data`].
pub fn split_start(plain: &[u8]) -> Result<(u32, Content, &[u8]), FrameError> {
    let (handle, rest) = plain.split_first_chunk().ok_or(FrameError::Truncated)?;
    let handle = u32::from_be_bytes(*handle);
    if !(FIRST_HANDLE..u32::MAX).contains(&handle) {
        return Err(FrameError::Handle(handle));
    }
    let (content, payload) = split_data(rest)?;
    Ok((handle, content, payload))
}

/// Removes the IPv6 header from a packet that this node, `own`, sends. Returns the destination, the content type and
/// the octets after the header.
///
/// # Errors
///
/// The packet is not IPv6, its lengths do not match, its source is not this node, or its destination is not a node.
pub fn remove_ipv6_header(
    packet: &[u8],
    own: Address,
) -> Result<(Address, Content, &[u8]), FrameError> {
    let (header, payload) = packet
        .split_first_chunk::<IPV6_HEADER>()
        .ok_or(FrameError::Truncated)?;
    let length = u16::from_be_bytes([header[4], header[5]]);
    if header[0] >> 4 != 6 {
        return Err(FrameError::IpVersion(header[0] >> 4));
    }
    if usize::from(length) != payload.len() {
        return Err(FrameError::Length(length));
    }
    let source = address_at(header, 8);
    let destination = address_at(header, 24);
    if source != own {
        return Err(FrameError::Source(source));
    }
    if !is_node(destination) || destination == own {
        return Err(FrameError::Destination(destination));
    }
    Ok((destination, Content::Ipv6(header[6]), payload))
}

/// Returns the IPv6 header of a packet that arrived from `source` at `own` without one.
///
/// `length` is that of the payload. Returns `None` if no packet can have it, or if an address is not a node's.
#[must_use]
pub fn ipv6_header(
    next_header: u8,
    length: usize,
    source: Address,
    own: Address,
) -> Option<[u8; IPV6_HEADER]> {
    if !is_node(source) || !is_node(own) {
        return None;
    }
    let length = u16::try_from(length).ok()?;
    let mut header = [0; IPV6_HEADER];
    header[0] = 6 << 4;
    header[4..6].copy_from_slice(&length.to_be_bytes());
    header[6] = next_header;
    header[7] = HOP_LIMIT;
    header[8..24].copy_from_slice(source.octets());
    header[24..].copy_from_slice(own.octets());
    Some(header)
}

fn address_at(header: &[u8; IPV6_HEADER], start: usize) -> Address {
    let mut octets = [0; 16];
    octets.copy_from_slice(&header[start..start + 16]);
    Address::from_octets(octets)
}

/// Returns whether an address is in fc00::/8.
fn is_node(address: Address) -> bool {
    address.octets()[0] == 0xfc
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "ends inside a header"),
            Self::Version(version) => write!(f, "data header of version {version}, allowed is 1"),
            Self::Handle(handle) => {
                write!(f, "handle {handle}, allowed are {FIRST_HANDLE} and more")
            }
            Self::IpVersion(version) => write!(f, "packet of IP version {version}, allowed is 6"),
            Self::Length(length) => write!(f, "payload length {length} is not that of the packet"),
            Self::Source(address) => write!(f, "source {address} is not this node"),
            Self::Destination(address) => write!(f, "destination {address} is not another node"),
        }
    }
}

impl core::error::Error for FrameError {}
