//! The messages of generic netlink (linux/genetlink.h), and what they contain.
//!
//! Messages are checked: an attribute that is truncated or too short is skipped, and nothing panics.

use std::convert::Infallible;

use netlink_packet_core::{
    NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, NlasIterator,
};

/// Number of the controller's family, which lists all other families (GENL_ID_CTRL).
const CONTROLLER: u16 = 16;
/// Length of `struct genlmsghdr` in bytes: command, version, 16 reserved bits.
const HEADER: usize = 4;
/// Length of `struct nlattr` in bytes.
const ATTRIBUTE_HEADER: usize = 4;
/// Commands and attributes of the controller.
const CMD_GETFAMILY: u8 = 3;
const ATTR_FAMILY_ID: u16 = 1;
const ATTR_FAMILY_NAME: u16 = 2;

/// A generic netlink message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of the family.
    pub family: u16,
    /// The command.
    pub command: u8,
    /// The attributes, not decoded.
    pub attributes: Vec<u8>,
}

impl Message {
    /// Asks the controller for all families.
    pub fn families() -> Self {
        Self::new(CONTROLLER, CMD_GETFAMILY, &[])
    }

    /// Returns a request with these attributes.
    pub fn new(family: u16, command: u8, attributes: &[(u16, &[u8])]) -> Self {
        let mut octets = Vec::new();
        for (kind, value) in attributes {
            let length = (ATTRIBUTE_HEADER + value.len()) as u16;
            octets.extend_from_slice(&length.to_ne_bytes());
            octets.extend_from_slice(&kind.to_ne_bytes());
            octets.extend_from_slice(value);
            octets.resize(octets.len().next_multiple_of(4), 0);
        }
        Self {
            family,
            command,
            attributes: octets,
        }
    }

    /// Returns the number of the family with this name if this answer of the controller describes it.
    pub fn family_id(&self, wanted: &[u8]) -> Option<u16> {
        let (mut id, mut named) = (None, false);
        for (kind, value) in attributes(&self.attributes) {
            match kind {
                ATTR_FAMILY_ID => id = u16_of(value),
                ATTR_FAMILY_NAME => named = text(value) == wanted,
                _ => {}
            }
        }
        id.filter(|_| named)
    }
}

impl NetlinkDeserializable for Message {
    type Error = Infallible;

    /// Decodes a message. One that is shorter than its header gets command 0, which no family knows.
    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Self::Error> {
        Ok(Self {
            family: header.message_type,
            command: payload.first().copied().unwrap_or(0),
            attributes: payload.get(HEADER..).unwrap_or_default().to_vec(),
        })
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEADER + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (header, attributes) = buffer.split_at_mut(HEADER);
        header.copy_from_slice(&[self.command, 1, 0, 0]);
        attributes.copy_from_slice(&self.attributes);
    }
}

/// Returns the attributes before the first malformed one.
pub fn attributes(octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(octets).map_while(|attribute| {
        let attribute = attribute.ok()?;
        let (kind, end) = (attribute.kind(), usize::from(attribute.length()));
        Some((kind, attribute.into_inner().get(ATTRIBUTE_HEADER..end)?))
    })
}

/// Returns a string without the zero byte at its end.
pub fn text(value: &[u8]) -> &[u8] {
    value.strip_suffix(b"\0").unwrap_or(value)
}

/// Returns the first 16 bits of a value.
pub fn u16_of(value: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(value.get(..2)?.try_into().ok()?))
}

/// Returns the first 32 bits of a value.
pub fn u32_of(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?))
}

/// Returns the first 64 bits of a value.
pub fn u64_of(value: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(value.get(..8)?.try_into().ok()?))
}
