//! The layout constants of RFC 5444, section 5, for decoder and encoder.

/// The only packet version.
pub const VERSION: u8 = 0;
/// Octets of the version and the packet flags.
pub const PACKET_HEADER: usize = 1;
/// Octets of the message type, the flags with address length, and the size.
pub const MESSAGE_HEADER: usize = 4;
/// Largest number of addresses in an address block.
pub const BLOCK_ADDRESSES: usize = 255;

/// Packet flags, low nibble of the first octet (section 5.1).
pub mod packet {
    pub const HAS_SEQ_NUM: u8 = 0x08;
    pub const HAS_TLV: u8 = 0x04;
}

/// Message flags, high nibble of the second octet (section 5.2).
pub mod message {
    pub const HAS_ORIG: u8 = 0x80;
    pub const HAS_HOP_LIMIT: u8 = 0x40;
    pub const HAS_HOP_COUNT: u8 = 0x20;
    pub const HAS_SEQ_NUM: u8 = 0x10;
}

/// Address block flags (section 5.3).
pub mod address {
    pub const HAS_HEAD: u8 = 0x80;
    pub const HAS_FULL_TAIL: u8 = 0x40;
    pub const HAS_ZERO_TAIL: u8 = 0x20;
    pub const HAS_SINGLE_PRELEN: u8 = 0x10;
    pub const HAS_MULTI_PRELEN: u8 = 0x08;
}

/// TLV flags (section 5.4.1).
pub mod tlv {
    pub const HAS_TYPE_EXT: u8 = 0x80;
    pub const HAS_SINGLE_INDEX: u8 = 0x40;
    pub const HAS_MULTI_INDEX: u8 = 0x20;
    pub const HAS_VALUE: u8 = 0x10;
    pub const HAS_EXT_LEN: u8 = 0x08;
    pub const IS_MULTI_VALUE: u8 = 0x04;
}
