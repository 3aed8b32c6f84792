//! Decodes octets to values.
//!
//! Every function reads through a [`Reader`], which cannot run past its end. A [`Budget`] limits how much the octets
//! may decode to, and is charged before anything is allocated.

mod address;
mod header;
mod reader;
mod tlv;

use alloc::vec::Vec;

use crate::{
    wire, AddressEntry, DecodeCause, DecodeError, Message, Packet, PacketView, RawMessage, Tlv,
};

pub(crate) use header::{message_header, message_size};
pub(crate) use reader::Reader;
pub(crate) use tlv::{block as tlv_block, raw_message_tlvs};

/// Largest number of entries to which each octet of a packet or message may decode.
///
/// An entry is an address, a TLV of an address, or an octet of that TLV's value. A dense HELLO of one-octet mids with
/// all TLVs of RFC 6130 and RFC 7181 needs up to 19 for each octet, an attack several hundred.
pub const MAX_EXPANSION: usize = 32;

/// Largest number of entries to which a packet or message of any size may decode.
pub const MAX_ENTRIES: usize = 65_536;

impl Packet {
    /// Decodes a whole packet.
    ///
    /// # Errors
    ///
    /// The first malformed part, with its offset in the packet. Use [`PacketView`] to read the other messages.
    pub fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        let view = PacketView::new(octets)?;
        let mut budget = Budget::for_octets(octets);
        let mut decode = |raw: RawMessage| {
            let message = message(raw.octets, &mut budget);
            message.map_err(|error| error.shifted(raw.offset))
        };
        let messages = view.messages().map(|raw| decode(raw?));
        Ok(Self {
            seq: view.seq,
            messages: messages.collect::<Result<_, _>>()?,
            tlvs: view.tlvs,
        })
    }
}

impl Message {
    /// Decodes one message. `octets` must be exactly the message.
    ///
    /// # Errors
    ///
    /// The first malformed part. Addresses that are neither IPv4 nor IPv6 are refused too, although RFC 5444 allows
    /// them.
    pub fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        message(octets, &mut Budget::for_octets(octets))
    }
}

fn message(octets: &[u8], budget: &mut Budget) -> Result<Message, DecodeError> {
    let mut reader = Reader::new(octets);
    let header = message_header(&mut reader)?;
    if !matches!(header.addr_len, 4 | 16) {
        let value = usize::from(header.addr_len);
        return Err(DecodeError::new(DecodeCause::AddressLength, 1, value));
    }
    Ok(Message {
        typ: header.typ,
        addr_len: header.addr_len,
        originator: header.originator,
        hop_limit: header.hop_limit,
        hop_count: header.hop_count,
        seq: header.seq,
        tlvs: tlv::block(&mut reader)?,
        addresses: address_blocks(&mut reader, header.addr_len, budget)?,
    })
}

/// Reads the sequence number and the TLVs of the packet header (RFC 5444, section 5.1).
pub(crate) fn packet_header(reader: &mut Reader) -> Result<(Option<u16>, Vec<Tlv>), DecodeError> {
    let first = reader.u8()?;
    let version = first >> 4;
    if version != wire::VERSION {
        return Err(DecodeError::new(DecodeCause::Version, 0, version.into()));
    }
    let seq = reader.optional_u16(first & wire::packet::HAS_SEQ_NUM != 0)?;
    let tlvs = match first & wire::packet::HAS_TLV {
        0 => Vec::new(),
        _ => tlv::block(reader)?,
    };
    Ok((seq, tlvs))
}

/// Reads the address blocks with their TLV blocks, to the end of the message.
fn address_blocks(
    reader: &mut Reader,
    addr_len: u8,
    budget: &mut Budget,
) -> Result<Vec<AddressEntry>, DecodeError> {
    let mut entries = Vec::new();
    while !reader.is_empty() {
        let start = entries.len();
        address::block(reader, addr_len, &mut entries, budget)?;
        let block = &mut entries[start..];
        tlv::address_block(reader, block, budget)?;
    }
    Ok(entries)
}

/// The number of entries to which the octets may decode, and the number so far.
struct Budget {
    allowed: usize,
    spent: usize,
}

impl Budget {
    fn for_octets(octets: &[u8]) -> Self {
        Self {
            allowed: (octets.len() * MAX_EXPANSION).min(MAX_ENTRIES),
            spent: 0,
        }
    }

    /// Charges `count` objects of `size` entries each, at most 255 * 65536.
    fn spend(&mut self, offset: usize, count: usize, size: usize) -> Result<(), DecodeError> {
        self.spent += count * size;
        if self.spent > self.allowed {
            return Err(DecodeError::new(
                DecodeCause::Expansion,
                offset,
                self.allowed,
            ));
        }
        Ok(())
    }
}
