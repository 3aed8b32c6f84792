//! Headers of TCP and UDP over IPv6 in packets that are cut or joined.

use super::checksum::{fold, pseudo_header, sum};

/// Length of an IPv6 header.
pub const IPV6: usize = 40;
/// Length of a UDP header.
pub const UDP: usize = 8;
/// Length of a TCP header without options.
pub const TCP_MIN: usize = 20;
/// Protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// Offset of the flags in a TCP header (RFC 9293, section 3.1).
pub const TCP_FLAGS: usize = 13;
/// Flag FIN of TCP.
pub const FIN: u8 = 0x01;
/// Flag PSH of TCP.
pub const PSH: u8 = 0x08;
/// Flag ACK of TCP.
pub const ACK: u8 = 0x10;
/// Flag CWR of TCP.
pub const CWR: u8 = 0x80;

/// A transport protocol whose packets are cut and joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP (RFC 9293).
    Tcp,
    /// UDP (RFC 768).
    Udp,
}

impl Protocol {
    /// Returns the protocol's number.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => PROTOCOL_TCP,
            Self::Udp => PROTOCOL_UDP,
        }
    }

    /// Returns the offset of the checksum in the header.
    pub fn checksum(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp => 6,
        }
    }

    /// Returns the checksum to send. In UDP, a zero would mean that there is none (RFC 8200, section 8.1).
    pub fn checksum_value(self, value: u16) -> usize {
        match (self, value) {
            (Self::Udp, 0) => 0xffff,
            (_, value) => value.into(),
        }
    }

    /// Returns the length of the header at the beginning of `octets`; `None` if it is incomplete.
    pub fn header_length(self, octets: &[u8]) -> Option<usize> {
        let length = match self {
            Self::Tcp => usize::from(octets.get(12)? >> 4) * 4,
            Self::Udp => UDP,
        };
        let least = if self == Self::Tcp { TCP_MIN } else { UDP };
        (length >= least && length <= octets.len()).then_some(length)
    }

    /// Returns whether a packet has the flag PSH.
    pub fn pushes(self, packet: &[u8]) -> bool {
        self == Self::Tcp && packet[IPV6 + TCP_FLAGS] & PSH != 0
    }
}

/// Returns the protocol of a packet that may be joined with others, and the length of all its headers.
pub fn joinable(packet: &[u8]) -> Option<(Protocol, usize)> {
    if packet.len() <= IPV6 || packet[0] >> 4 != 6 || word(packet, 4) != packet.len() - IPV6 {
        return None;
    }
    let protocol = match packet[6] {
        PROTOCOL_TCP => Protocol::Tcp,
        PROTOCOL_UDP => Protocol::Udp,
        _ => return None,
    };
    let transport = &packet[IPV6..];
    let header = IPV6 + protocol.header_length(transport)?;
    let plain = match protocol {
        Protocol::Tcp => transport[TCP_FLAGS] & !PSH == ACK,
        Protocol::Udp => word(transport, 4) == transport.len() && word(transport, 6) != 0,
    };
    (plain && packet.len() > header).then_some((protocol, header))
}

/// Returns whether the headers `second` follow `first` in the same flow, `done` bytes of content later.
pub fn same_flow(protocol: Protocol, first: &[u8], second: &[u8], done: usize) -> bool {
    let same = |from: usize, to: usize| first[from..to] == second[from..to];
    let network = same(0, 4) && same(6, IPV6) && same(IPV6, IPV6 + 4);
    match protocol {
        Protocol::Udp => network,
        Protocol::Tcp => {
            // Acknowledgement number and data offset; window; urgent pointer and options.
            network
                && same(IPV6 + 8, IPV6 + TCP_FLAGS)
                && same(IPV6 + 14, IPV6 + 16)
                && same(IPV6 + 18, first.len())
                && sequence_of(&first[IPV6..]).wrapping_add(done as u32)
                    == sequence_of(&second[IPV6..])
        }
    }
}

/// Returns whether the checksum is right. The kernel does not check it in a piece.
pub fn is_intact(protocol: Protocol, packet: &[u8]) -> bool {
    let pseudo = pseudo_header(packet, packet.len() - IPV6, protocol.number());
    fold(sum(&packet[IPV6..], pseudo)) == 0xffff
}

/// Returns the sequence number in a TCP header.
pub fn sequence_of(header: &[u8]) -> u32 {
    u32::from_be_bytes([header[4], header[5], header[6], header[7]])
}

/// Returns 16 bits.
pub fn word(octets: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([octets[at], octets[at + 1]]))
}

/// Writes the low 16 bits of `value`.
pub fn put(octets: &mut [u8], at: usize, value: usize) {
    octets[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}
