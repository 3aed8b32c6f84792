//! Reads a received packet message by message.
//!
//! A message of unknown type must still be forwarded unchanged (RFC 7181, section 14), and a malformed one must not
//! affect the other messages.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::decode::{message_header, message_size, packet_header, tlv_block, Reader};
use crate::wire::{message as flag, MESSAGE_HEADER};
use crate::{DecodeError, Message, Tlv};

/// A packet whose header is decoded, and whose messages are not yet decoded.
#[derive(Clone, Debug)]
pub struct PacketView<'a> {
    /// The packet sequence number.
    pub seq: Option<u16>,
    /// The packet TLVs.
    pub tlvs: Vec<Tlv>,
    messages: Messages<'a>,
}

/// The messages of a [`PacketView`].
///
/// A message with a malformed header is an error, and the messages after it follow. After an impossible message size
/// the iteration ends, because the start of the next message is unknown.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    offset: usize,
    rest: &'a [u8],
}

/// One message of a packet: the decoded header and all octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawMessage<'a> {
    /// The decoded message header.
    pub header: MessageHeader,
    /// Where the message starts in its packet, in octets.
    pub offset: usize,
    /// The message as received, including the header.
    pub octets: &'a [u8],
}

/// A message header (RFC 5444, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// The message type.
    pub typ: u8,
    /// The length of the message's addresses in octets: 1 to 16.
    pub addr_len: u8,
    /// The originator, or `None` if there is none or its length is neither 4 nor 16 octets.
    pub originator: Option<IpAddr>,
    /// How many more hops the message may be forwarded.
    pub hop_limit: Option<u8>,
    /// How many hops the message has been forwarded.
    pub hop_count: Option<u8>,
    /// The message sequence number.
    pub seq: Option<u16>,
}

impl<'a> PacketView<'a> {
    /// Reads the packet header and packet TLVs (RFC 5444, section 5.1).
    ///
    /// # Errors
    ///
    /// A version other than 0, or a malformed header or packet TLV block. Discard the whole packet then (RFC 5444,
    /// section 5.5).
    pub fn new(octets: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(octets);
        let (seq, tlvs) = packet_header(&mut reader)?;
        let messages = Messages {
            offset: reader.position(),
            rest: reader.rest(),
        };
        Ok(Self {
            seq,
            tlvs,
            messages,
        })
    }

    /// Returns the messages, in order.
    pub fn messages(&self) -> Messages<'a> {
        self.messages.clone()
    }
}

impl<'a> Messages<'a> {
    fn read(&mut self) -> Result<RawMessage<'a>, DecodeError> {
        let size = message_size(self.rest).inspect_err(|_| self.rest = &[])?;
        let (octets, rest) = self.rest.split_at(size);
        self.rest = rest;
        let offset = self.offset;
        self.offset += size;
        let header = message_header(&mut Reader::new(octets))?;
        Ok(RawMessage {
            header,
            offset,
            octets,
        })
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<RawMessage<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.offset;
        let more = !self.rest.is_empty();
        more.then(|| self.read().map_err(|error| error.shifted(start)))
    }
}

impl RawMessage<'_> {
    /// Decodes header and body.
    ///
    /// # Errors
    ///
    /// The first malformed part of the message. Its offset counts from the start of the message.
    pub fn decode(&self) -> Result<Message, DecodeError> {
        Message::decode(self.octets)
    }

    /// Decodes the message TLVs alone. The body is not examined.
    ///
    /// # Errors
    ///
    /// A malformed header or message TLV block.
    pub fn message_tlvs(&self) -> Result<Vec<Tlv>, DecodeError> {
        let mut reader = Reader::new(self.octets);
        message_header(&mut reader)?;
        tlv_block(&mut reader)
    }

    /// Returns the octets that no router changes on the way: all except hop limit and hop count.
    pub fn lasting_octets(&self) -> impl Iterator<Item = u8> + '_ {
        let hops = [self.header.hop_limit, self.header.hop_count];
        let (before, rest) = self
            .octets
            .split_at(hop_limit_position(self.octets[1], self.header.addr_len));
        let after = &rest[hops.iter().flatten().count()..];
        before.iter().chain(after).copied()
    }

    /// Returns the octets with which the message is forwarded, see [`forward_copy`].
    pub fn forward_copy(&self) -> Option<Vec<u8>> {
        forward_copy(self.octets)
    }
}

/// Returns the octets with which a message is forwarded: a copy with the hop limit decremented and the hop count, if
/// there is one, incremented (RFC 7181, sections 14.1 and 14.3).
///
/// Returns `None` if the message must not be forwarded: it has no hop limit or one of 0 or 1, its hop count is already
/// 255, or its header is malformed. The body is not examined.
pub fn forward_copy(message: &[u8]) -> Option<Vec<u8>> {
    let header = message_header(&mut Reader::new(message)).ok()?;
    let hop_limit = header.hop_limit.filter(|&limit| limit > 1)?;
    let hop_count = match header.hop_count {
        Some(count) => Some(count.checked_add(1)?),
        None => None,
    };
    let mut copy = message.to_vec();
    let position = hop_limit_position(message[1], header.addr_len);
    copy[position] = hop_limit - 1;
    if let Some(count) = hop_count {
        copy[position + 1] = count;
    }
    Some(copy)
}

/// Returns the octets with which a message is sent only to the neighbours: a copy with a hop limit of 1.
///
/// Returns `None` if it has no hop limit, or its header is malformed.
pub fn last_hop_copy(message: &[u8]) -> Option<Vec<u8>> {
    let header = message_header(&mut Reader::new(message)).ok()?;
    header.hop_limit?;
    let mut copy = message.to_vec();
    copy[hop_limit_position(message[1], header.addr_len)] = 1;
    Some(copy)
}

/// Returns where the hop limit of a message is, if it has one.
pub(crate) fn hop_limit_position(flags: u8, addr_len: u8) -> usize {
    match flags & flag::HAS_ORIG {
        0 => MESSAGE_HEADER,
        _ => MESSAGE_HEADER + usize::from(addr_len),
    }
}
