//! A received packet, message by message.
//!
//! A message that cannot be decoded, or whose type is unknown, must still be
//! forwarded unchanged (RFC 7181, section 14) and must not spoil the messages
//! beside it.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::{DecodeError, Message, Tlv};

/// The header of a packet, decoded, and its messages, not yet decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketView<'a> {
    /// The packet sequence number.
    pub seq: Option<u16>,
    /// The packet TLVs.
    pub tlvs: Vec<Tlv>,
    messages: &'a [u8],
}

/// The messages of a [`PacketView`]; ends after the first error, because then
/// the start of the next message is unknown.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

/// One message of a packet: its header, decoded, and all of its octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawMessage<'a> {
    /// The decoded message header.
    pub header: MessageHeader,
    /// The message as it travelled, header included.
    pub octets: &'a [u8],
}

/// A message header (RFC 5444, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// The message type.
    pub typ: u8,
    /// The length of the message's addresses in octets: 1 to 16.
    pub addr_len: u8,
    /// The originator; `None` also when its length is neither 4 nor 16 octets.
    pub originator: Option<IpAddr>,
    /// How many more hops the message may travel.
    pub hop_limit: Option<u8>,
    /// How many hops the message has travelled.
    pub hop_count: Option<u8>,
    /// The message sequence number.
    pub seq: Option<u16>,
}

impl<'a> PacketView<'a> {
    /// Reads the packet header and packet TLVs (RFC 5444, section 5.1).
    ///
    /// # Errors
    ///
    /// A version other than 0, or a malformed header or packet TLV block.
    pub fn new(octets: &'a [u8]) -> Result<Self, DecodeError> {
        let _ = octets;
        unimplemented!()
    }

    /// The messages, in order.
    pub fn messages(&self) -> Messages<'a> {
        Messages {
            rest: self.messages,
        }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<RawMessage<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let _ = self.rest;
        unimplemented!()
    }
}

impl RawMessage<'_> {
    /// Decodes header and body.
    ///
    /// # Errors
    ///
    /// Anything malformed in the message; offsets count from its start.
    pub fn decode(&self) -> Result<Message, DecodeError> {
        unimplemented!()
    }
}

/// The octets with which a message is forwarded: a copy with the hop limit
/// decremented and the hop count, if there is one, incremented and nothing
/// else changed (RFC 7181, section 14.3).
///
/// `None` when the message must not travel on: it has no hop limit or one of
/// 0 or 1, its hop count is 255 already, or its header is malformed.
pub fn forward_copy(message: &[u8]) -> Option<Vec<u8>> {
    let _ = message;
    unimplemented!()
}
