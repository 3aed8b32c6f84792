//! Encodes values to as few octets as possible.

mod address;
mod blocks;
mod tlv;

pub(crate) use tlv::push_message_tlv;

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::model::address_length;
use crate::{wire, AddressEntry, EncodeError, Message, Packet};

impl Packet {
    /// Encodes the packet (RFC 5444, section 5.1).
    ///
    /// # Errors
    ///
    /// A value that does not fit its field, see [`EncodeError`].
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = packet_header(self.seq);
        if !self.tlvs.is_empty() {
            out[0] |= wire::packet::HAS_TLV;
            tlv::block(&mut out, &self.tlvs)?;
        }
        for message in &self.messages {
            out.extend(message.encode()?);
        }
        Ok(out)
    }
}

impl Message {
    /// Encodes the message (RFC 5444, section 5.2).
    ///
    /// Addresses keep their order, in blocks of up to 255. The TLVs of an address are ordered by type and type
    /// extension; those of the same full type keep their order.
    ///
    /// # Errors
    ///
    /// A value that does not fit its field, see [`EncodeError`].
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        self.check()?;
        let mut out = self.header();
        tlv::block(&mut out, &self.tlvs)?;
        for block in blocks::cut(&self.addresses) {
            address::block(&mut out, block);
            tlv::address_block(&mut out, block)?;
        }
        let size = u16::try_from(out.len()).map_err(|_| EncodeError::MessageTooLong(out.len()))?;
        out[2..4].copy_from_slice(&size.to_be_bytes());
        Ok(out)
    }

    fn check(&self) -> Result<(), EncodeError> {
        if !matches!(self.addr_len, 4 | 16) {
            return Err(EncodeError::AddressLength(self.addr_len));
        }
        if let Some(addr) = self.originator {
            check_family(addr, self.addr_len)?;
        }
        let check = |entry| check_entry(entry, self.addr_len);
        self.addresses.iter().try_for_each(check)
    }

    /// Encodes the message header. Its size field is still zero.
    fn header(&self) -> Vec<u8> {
        let mut out = Vec::from([self.typ, self.flags() | (self.addr_len - 1), 0, 0]);
        if let Some(addr) = self.originator {
            address::push(&mut out, addr);
        }
        out.extend(self.hop_limit);
        out.extend(self.hop_count);
        out.extend(self.seq.into_iter().flat_map(u16::to_be_bytes));
        out
    }

    fn flags(&self) -> u8 {
        [
            (self.originator.is_some(), wire::message::HAS_ORIG),
            (self.hop_limit.is_some(), wire::message::HAS_HOP_LIMIT),
            (self.hop_count.is_some(), wire::message::HAS_HOP_COUNT),
            (self.seq.is_some(), wire::message::HAS_SEQ_NUM),
        ]
        .into_iter()
        .filter_map(|(present, flag)| present.then_some(flag))
        .sum()
    }
}

/// Encodes a packet header without TLVs.
pub(crate) fn packet_header(seq: Option<u16>) -> Vec<u8> {
    let first = wire::VERSION << 4;
    match seq {
        None => Vec::from([first]),
        Some(seq) => {
            let [high, low] = seq.to_be_bytes();
            Vec::from([first | wire::packet::HAS_SEQ_NUM, high, low])
        }
    }
}

fn check_entry(entry: &AddressEntry, addr_len: u8) -> Result<(), EncodeError> {
    check_family(entry.prefix.addr, addr_len)?;
    if entry.prefix.len > addr_len * 8 {
        return Err(EncodeError::PrefixLength(entry.prefix.len));
    }
    Ok(())
}

fn check_family(addr: IpAddr, addr_len: u8) -> Result<(), EncodeError> {
    match address_length(addr) == addr_len {
        true => Ok(()),
        false => Err(EncodeError::AddressFamily(addr)),
    }
}
