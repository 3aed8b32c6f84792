//! Message headers (RFC 5444, section 5.2).

use core::net::IpAddr;

use super::Reader;
use crate::wire::{message as flag, MESSAGE_HEADER};
use crate::{DecodeCause, DecodeError, MessageHeader};

/// Reads the header of a message. The reader must hold exactly this message.
pub(crate) fn message_header(reader: &mut Reader) -> Result<MessageHeader, DecodeError> {
    let start = reader.position();
    let size = message_size(reader.rest()).map_err(|error| error.shifted(start))?;
    if size != reader.rest().len() {
        return Err(DecodeError::new(DecodeCause::MessageSize, start + 2, size));
    }
    let typ = reader.u8()?;
    let flags = reader.u8()?;
    reader.u16()?;
    let addr_len = (flags & 0x0f) + 1;
    Ok(MessageHeader {
        typ,
        addr_len,
        originator: originator(reader, flags, addr_len)?,
        hop_limit: reader.optional_u8(flags & flag::HAS_HOP_LIMIT != 0)?,
        hop_count: reader.optional_u8(flags & flag::HAS_HOP_COUNT != 0)?,
        seq: reader.optional_u16(flags & flag::HAS_SEQ_NUM != 0)?,
    })
}

/// Returns the size of the message at the start of `octets`, from its header.
///
/// Fails if the size is smaller than the shortest header or larger than `octets`.
pub(crate) fn message_size(octets: &[u8]) -> Result<usize, DecodeError> {
    let mut reader = Reader::new(octets);
    reader.take(2)?;
    let size = usize::from(reader.u16()?);
    if size < MESSAGE_HEADER || size > octets.len() {
        return Err(DecodeError::new(DecodeCause::MessageSize, 2, size));
    }
    Ok(size)
}

fn originator(reader: &mut Reader, flags: u8, addr_len: u8) -> Result<Option<IpAddr>, DecodeError> {
    if flags & flag::HAS_ORIG == 0 {
        return Ok(None);
    }
    let octets = reader.take(addr_len.into())?;
    Ok(super::address::from_octets(octets))
}
