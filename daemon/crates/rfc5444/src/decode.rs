//! Octets to values.

use crate::{DecodeError, Message, Packet};

/// How many entries each octet of a message may expand to.
///
/// An entry is an address, a TLV of an address, or an octet of that TLV's
/// value. A dense HELLO of one-octet mids with all the TLVs of RFC 6130 and
/// RFC 7181 needs about 10 for each octet, an attack some hundreds.
pub const MAX_EXPANSION: usize = 16;

/// How many entries a message may expand to, whatever its size.
pub const MAX_MESSAGE_ENTRIES: usize = 65_536;

impl Packet {
    /// Decodes a whole packet.
    ///
    /// # Errors
    ///
    /// The first malformed part; use [`crate::PacketView`] to get at the other messages.
    pub fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        let _ = octets;
        unimplemented!()
    }
}

impl Message {
    /// Decodes one message; `octets` must be exactly the message.
    ///
    /// # Errors
    ///
    /// The first malformed part.
    pub fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        let _ = octets;
        unimplemented!()
    }
}
