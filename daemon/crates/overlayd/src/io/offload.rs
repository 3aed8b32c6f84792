//! Segmentation in user space. A TUN device hands over TCP and UDP in pieces of up to 64 KiB, which are cut into
//! packets. It also accepts such pieces, so packets are joined before they are written.
//!
//! Cutting and joining restores the same packets. Only IPv6 is cut and joined; everything else passes unchanged.
//!
//! # Contract
//!
//! Nothing here panics, whatever the input: packets come from the other end of the overlay as well as from the kernel.

use super::checksum::{fold, pseudo_header, sum};
use super::headers::{
    is_intact, joinable, put, same_flow, sequence_of, Protocol, CWR, FIN, IPV6, PSH, TCP_FLAGS,
};

/// Length of [`Offload`] in bytes, which precedes each packet of a TUN device (`struct virtio_net_hdr`).
pub const OFFLOAD: usize = 10;
/// Longest packet that a TUN device reads or writes, in bytes.
pub const PIECE_MAX: usize = 65_535;
/// Largest number of packets that are joined.
pub const JOINED_MAX: usize = 60;

const NEEDS_CHECKSUM: u8 = 1;
const NO_SEGMENTS: u8 = 0;
const SEGMENTS_TCP6: u8 = 4;
const SEGMENTS_UDP: u8 = 5;
const SEGMENTS_ECN: u8 = 0x80;

/// The header of a packet on a TUN device (linux/virtio_net.h), in the machine's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    flags: u8,
    segments: u8,
    header: u16,
    segment: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

/// A piece that cannot be cut. The cause is a kernel bug, or a protocol that was not requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncuttable;

/// Cuts a piece into packets.
pub struct Cutter<'a> {
    piece: &'a [u8],
    /// How to cut; `None` if the piece is one packet.
    segments: Option<Segments>,
    /// Bytes of content already cut off; for a single packet, of the packet.
    done: usize,
}

#[derive(Clone, Copy)]
struct Segments {
    protocol: Protocol,
    /// Offset of the TCP or UDP header.
    transport: usize,
    /// Length of all headers in bytes.
    header: usize,
    /// Bytes of content in each packet except the last.
    content: usize,
}

/// Joins packets of one flow to a piece.
pub struct Train {
    protocol: Protocol,
    header: usize,
    /// Bytes of content in each packet except the last.
    content: usize,
    /// Length of the piece in bytes.
    length: usize,
    packets: usize,
    /// Whether the last packet was shorter or had PSH, so that no packet can follow.
    ended: bool,
    pushed: bool,
}

impl Offload {
    /// Decodes the header.
    pub fn decode(octets: &[u8; OFFLOAD]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([octets[at], octets[at + 1]]);
        Self {
            flags: octets[0],
            segments: octets[1],
            header: word(2),
            segment: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; OFFLOAD] {
        let mut octets = [0; OFFLOAD];
        octets[0] = self.flags;
        octets[1] = self.segments;
        let words = [
            self.header,
            self.segment,
            self.checksum_start,
            self.checksum_offset,
        ];
        for (place, word) in octets[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        octets
    }
}

impl<'a> Cutter<'a> {
    /// Starts with a piece of a TUN device. A single packet gets its checksum if that is missing.
    ///
    /// # Errors
    /// The header does not match the piece.
    pub fn new(offload: &Offload, piece: &'a mut [u8]) -> Result<Self, Uncuttable> {
        let transport = usize::from(offload.checksum_start);
        let protocol = match offload.segments & !SEGMENTS_ECN {
            NO_SEGMENTS => None,
            SEGMENTS_TCP6 => Some(Protocol::Tcp),
            SEGMENTS_UDP => Some(Protocol::Udp),
            _ => return Err(Uncuttable),
        };
        let segments = match protocol {
            Some(protocol) => Some(Segments::of(
                protocol,
                transport,
                offload.segment.into(),
                piece,
            )?),
            None if offload.flags & NEEDS_CHECKSUM != 0 => {
                complete_checksum(piece, transport, offload.checksum_offset.into())?;
                None
            }
            None => None,
        };
        Ok(Self {
            piece,
            segments,
            done: 0,
        })
    }

    /// Returns the length of the longest packet in bytes.
    pub fn longest(&self) -> usize {
        let whole = self.piece.len();
        self.segments.map_or(whole, |segments| {
            whole.min(segments.header + segments.content)
        })
    }

    /// Writes the next packet to the beginning of `space`, which must have room for [`Cutter::longest`]. Returns its
    /// length, or `None` after the last packet.
    pub fn cut(&mut self, space: &mut [u8]) -> Option<usize> {
        let header = self.segments.map_or(0, |segments| segments.header);
        let left = self.piece.get(header + self.done..)?;
        let limit = self
            .segments
            .map_or(left.len(), |segments| segments.content);
        let length = left.len().min(limit);
        if length == 0 {
            return None;
        }
        let packet = space.get_mut(..header + length)?;
        packet[..header].copy_from_slice(&self.piece[..header]);
        packet[header..].copy_from_slice(&left[..length]);
        if let Some(segments) = self.segments {
            segments.write_headers(packet, self.done, length == left.len());
        }
        self.done += length;
        Some(header + length)
    }
}

impl Segments {
    fn of(
        protocol: Protocol,
        transport: usize,
        content: usize,
        piece: &[u8],
    ) -> Result<Self, Uncuttable> {
        let header = transport
            + protocol
                .header_length(piece.get(transport..).unwrap_or_default())
                .ok_or(Uncuttable)?;
        if transport < IPV6 || piece[0] >> 4 != 6 || content == 0 || piece.len() <= header {
            return Err(Uncuttable);
        }
        Ok(Self {
            protocol,
            transport,
            header,
            content,
        })
    }

    /// Changes the piece's headers to those of the packet whose content starts at byte `done` of the piece's content.
    fn write_headers(&self, packet: &mut [u8], done: usize, last: bool) {
        put(packet, 4, packet.len() - IPV6);
        let length = packet.len() - self.transport;
        let header = &mut packet[self.transport..];
        match self.protocol {
            Protocol::Tcp => {
                let sequence = sequence_of(header).wrapping_add(done as u32);
                header[4..8].copy_from_slice(&sequence.to_be_bytes());
                let absent = if done == 0 { 0 } else { CWR } | if last { 0 } else { FIN | PSH };
                header[TCP_FLAGS] &= !absent;
            }
            Protocol::Udp => put(header, 4, length),
        }
        let checksum = self.transport + self.protocol.checksum();
        put(packet, checksum, 0);
        let pseudo = pseudo_header(packet, length, self.protocol.number());
        let value = !fold(sum(&packet[self.transport..], pseudo));
        put(packet, checksum, self.protocol.checksum_value(value));
    }
}

impl Train {
    /// Starts with a packet; `None` if it cannot be joined with others.
    pub fn begin(packet: &[u8]) -> Option<Self> {
        let (protocol, header) = joinable(packet)?;
        let pushed = protocol.pushes(packet);
        Some(Self {
            protocol,
            header,
            content: packet.len() - header,
            length: packet.len(),
            packets: 1,
            ended: pushed,
            pushed,
        })
    }

    /// Returns whether `packet` continues the train that `first` started; if so, it counts as joined.
    pub fn takes(&mut self, first: &[u8], packet: &[u8]) -> bool {
        let Some((protocol, header)) = joinable(packet).filter(|_| !self.ended) else {
            return false;
        };
        let content = packet.len() - header;
        let done = self.length - self.header;
        let follows = (protocol, header) == (self.protocol, self.header)
            && content <= self.content
            && self.length + content <= PIECE_MAX
            && self.packets < JOINED_MAX
            && same_flow(protocol, &first[..header], &packet[..header], done)
            && (self.packets > 1 || is_intact(protocol, first))
            && is_intact(protocol, packet);
        if follows {
            self.pushed = protocol.pushes(packet);
            self.ended = self.pushed || content < self.content;
            self.length += content;
            self.packets += 1;
        }
        follows
    }

    /// Returns whether the packets are TCP.
    pub fn is_tcp(&self) -> bool {
        self.protocol == Protocol::Tcp
    }

    /// Returns the length of the headers, which are omitted from all packets after the first.
    pub fn header(&self) -> usize {
        self.header
    }

    /// Changes the headers of `first` to those of the piece, and returns the header for the TUN device.
    pub fn finish(&self, first: &mut [u8]) -> Offload {
        if self.packets == 1 {
            return Offload::default();
        }
        put(first, 4, self.length - IPV6);
        let length = self.length - IPV6;
        match self.protocol {
            Protocol::Tcp if self.pushed => first[IPV6 + TCP_FLAGS] |= PSH,
            Protocol::Tcp => {}
            Protocol::Udp => put(first, IPV6 + 4, length),
        }
        let pseudo = fold(pseudo_header(first, length, self.protocol.number()));
        put(first, IPV6 + self.protocol.checksum(), pseudo.into());
        Offload {
            flags: NEEDS_CHECKSUM,
            segments: segments(self.protocol),
            header: self.header as u16,
            segment: self.content as u16,
            checksum_start: IPV6 as u16,
            checksum_offset: self.protocol.checksum() as u16,
        }
    }
}

/// Returns the kind of segments in the kernel's header for a piece.
fn segments(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => SEGMENTS_TCP6,
        Protocol::Udp => SEGMENTS_UDP,
    }
}

/// Writes the checksum of everything from `start` on at `offset` after it, where the sum of the pseudo-header is.
fn complete_checksum(packet: &mut [u8], start: usize, offset: usize) -> Result<(), Uncuttable> {
    let summed = packet.get(start..).ok_or(Uncuttable)?;
    let place = start + offset;
    if place + 2 > packet.len() {
        return Err(Uncuttable);
    }
    let value = match !fold(sum(summed, 0)) {
        // In UDP, zero means that there is no checksum. Elsewhere 0xffff is the same number.
        0 => 0xffff,
        value => value,
    };
    put(packet, place, value.into());
    Ok(())
}

#[cfg(test)]
mod tests;
