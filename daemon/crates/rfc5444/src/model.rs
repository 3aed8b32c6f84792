//! Packets and messages as values.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::Prefix;

/// A packet (RFC 5444, section 5.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The packet sequence number, if there is one.
    pub seq: Option<u16>,
    /// The packet TLVs.
    pub tlvs: Vec<Tlv>,
    /// The messages, in the order in which they are sent.
    pub messages: Vec<Message>,
}

/// A message (RFC 5444, section 5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The message type, see [`crate::iana::message`].
    pub typ: u8,
    /// The length of every address in the message in octets: 4 or 16.
    pub addr_len: u8,
    /// The originator address. Its family must agree with `addr_len`.
    pub originator: Option<IpAddr>,
    /// How many more hops the message may be forwarded.
    pub hop_limit: Option<u8>,
    /// How many hops the message has been forwarded.
    pub hop_count: Option<u8>,
    /// The message sequence number.
    pub seq: Option<u16>,
    /// The message TLVs.
    pub tlvs: Vec<Tlv>,
    /// The addresses of all address blocks, in the order in which they are sent.
    pub addresses: Vec<AddressEntry>,
}

/// An address or address prefix of a message with the TLVs that apply to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddressEntry {
    /// The address with its prefix length.
    pub prefix: Prefix,
    /// The TLVs of this address. Decoding orders them by type and type extension; those of the same full type keep the
    /// order in which they were sent.
    pub tlvs: Vec<Tlv>,
}

/// A type, a type extension and a value (RFC 5444, section 5.4.1).
///
/// A TLV without a value is the same as one with a value of length 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tlv {
    /// The TLV type, see [`crate::iana`].
    pub typ: u8,
    /// The type extension, 0 if the packet has none.
    pub ext: u8,
    /// The value, at most 65535 octets.
    pub value: Vec<u8>,
}

impl Message {
    /// Returns an empty message for addresses of the family of `originator`.
    pub fn new(typ: u8, originator: IpAddr) -> Self {
        let mut message = Self::without_originator(typ, address_length(originator));
        message.originator = Some(originator);
        message
    }

    /// Returns an empty message with addresses of `addr_len` octets (4 or 16) and no originator.
    pub fn without_originator(typ: u8, addr_len: u8) -> Self {
        Self {
            typ,
            addr_len,
            originator: None,
            hop_limit: None,
            hop_count: None,
            seq: None,
            tlvs: Vec::new(),
            addresses: Vec::new(),
        }
    }

    /// Returns the first message TLV of this type and type extension.
    pub fn tlv(&self, typ: u8, ext: u8) -> Option<&Tlv> {
        find(&self.tlvs, typ, ext)
    }
}

impl AddressEntry {
    /// Returns a prefix without TLVs.
    pub fn new(prefix: Prefix) -> Self {
        Self {
            prefix,
            tlvs: Vec::new(),
        }
    }

    /// Returns the first TLV of this type and type extension.
    pub fn tlv(&self, typ: u8, ext: u8) -> Option<&Tlv> {
        find(&self.tlvs, typ, ext)
    }

    /// Returns all TLVs of this type and type extension, in order.
    pub fn tlvs_of(&self, typ: u8, ext: u8) -> impl Iterator<Item = &Tlv> {
        self.tlvs.iter().filter(move |tlv| tlv.is(typ, ext))
    }
}

impl Tlv {
    /// Returns a TLV with a value, which may be empty.
    pub fn new(typ: u8, ext: u8, value: impl Into<Vec<u8>>) -> Self {
        Self {
            typ,
            ext,
            value: value.into(),
        }
    }

    /// Returns whether the full type is `typ`, `ext`.
    pub fn is(&self, typ: u8, ext: u8) -> bool {
        self.typ == typ && self.ext == ext
    }
}

/// Returns the length of an address in octets: 4 or 16.
pub(crate) fn address_length(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 16,
    }
}

fn find(tlvs: &[Tlv], typ: u8, ext: u8) -> Option<&Tlv> {
    tlvs.iter().find(|tlv| tlv.is(typ, ext))
}
