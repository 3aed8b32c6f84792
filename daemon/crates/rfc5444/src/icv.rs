//! What signing a message needs: the octets that its integrity check value covers, and one more TLV in its encoded form
//! (RFC 7182, section 9.1).

use alloc::vec::Vec;

use crate::decode::{message_header, raw_message_tlvs, Reader};
use crate::encode::push_message_tlv;
use crate::iana::message_tlv;
use crate::view::hop_limit_position;
use crate::wire::MESSAGE_HEADER;
use crate::{DecodeError, EncodeError, Tlv};

/// Octets of the length field of a TLV block (RFC 5444, section 5.4).
const BLOCK_LENGTH: usize = 2;

/// Returns the octets of a message that its ICV covers: without ICV message TLVs, with the sizes of the message and of
/// its TLV block reduced accordingly, and with a hop limit and a hop count of 0, because relays change them.
///
/// `message` must be exactly one message. Its address blocks are not examined.
///
/// # Errors
///
/// A malformed message header or message TLV block.
pub fn covered_octets(message: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut reader = Reader::new(message);
    let header = message_header(&mut reader)?;
    let block = reader.position();
    let tlvs = raw_message_tlvs(&mut reader)?;
    let mut covered = message[..block + BLOCK_LENGTH].to_vec();
    for (typ, octets) in tlvs {
        if typ != message_tlv::ICV {
            covered.extend(octets);
        }
    }
    let tlv_length = covered.len() - block - BLOCK_LENGTH;
    covered.extend(reader.rest());
    let hops = hop_limit_position(message[1], header.addr_len);
    let fields = [header.hop_limit, header.hop_count];
    covered[hops..][..fields.iter().flatten().count()].fill(0);
    // Both sizes fit their fields, because nothing has become longer.
    set_sizes(&mut covered, block, tlv_length as u16);
    Ok(covered)
}

/// Returns the message with one more TLV at the end of its message TLV block. Everything else keeps its octets.
///
/// `message` must be exactly one message. Its address blocks are not examined.
///
/// # Errors
///
/// [`EncodeError::Message`] for a malformed message header or message TLV block. A TLV, TLV block or message that becomes
/// longer than 65535 octets.
pub fn with_message_tlv(message: &[u8], tlv: &Tlv) -> Result<Vec<u8>, EncodeError> {
    let mut reader = Reader::new(message);
    message_header(&mut reader)?;
    let block = reader.position();
    raw_message_tlvs(&mut reader)?;
    let mut longer = message[..reader.position()].to_vec();
    push_message_tlv(&mut longer, tlv)?;
    let tlv_length = longer.len() - block - BLOCK_LENGTH;
    longer.extend(reader.rest());
    let tlv_length =
        u16::try_from(tlv_length).map_err(|_| EncodeError::TlvBlockTooLong(tlv_length))?;
    if longer.len() > usize::from(u16::MAX) {
        return Err(EncodeError::MessageTooLong(longer.len()));
    }
    set_sizes(&mut longer, block, tlv_length);
    Ok(longer)
}

/// Writes the size of the message, and that of the TLV block which begins at `block`.
fn set_sizes(message: &mut [u8], block: usize, tlv_length: u16) {
    let size = message.len() as u16;
    message[MESSAGE_HEADER - 2..MESSAGE_HEADER].copy_from_slice(&size.to_be_bytes());
    message[block..][..BLOCK_LENGTH].copy_from_slice(&tlv_length.to_be_bytes());
}
