//! Numbers assigned by IANA or fixed by an RFC, and nothing else.

use core::net::{Ipv4Addr, Ipv6Addr};

/// UDP port "manet" (RFC 5498).
pub const MANET_PORT: u16 = 269;
/// IP protocol "manet" (RFC 5498).
pub const MANET_PROTOCOL: u8 = 138;
/// IPv4 multicast group LL-MANET-Routers (RFC 5498).
pub const LL_MANET_ROUTERS_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 109);
/// IPv6 multicast group LL-MANET-Routers (RFC 5498).
pub const LL_MANET_ROUTERS_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x6d);

/// Message types.
pub mod message {
    /// HELLO (RFC 6130).
    pub const HELLO: u8 = 0;
    /// Topology control (RFC 7181).
    pub const TC: u8 = 1;
}

/// Packet TLV types (RFC 7182).
pub mod packet_tlv {
    /// Integrity check value.
    pub const ICV: u8 = 5;
    /// Timestamp.
    pub const TIMESTAMP: u8 = 6;
}

/// Message TLV types.
pub mod message_tlv {
    /// Interval until the next message of this type (RFC 5497).
    pub const INTERVAL_TIME: u8 = 0;
    /// How long the content stays valid (RFC 5497).
    pub const VALIDITY_TIME: u8 = 1;
    /// Integrity check value (RFC 7182).
    pub const ICV: u8 = 5;
    /// Timestamp (RFC 7182).
    pub const TIMESTAMP: u8 = 6;
    /// Willingness to be a flooding and a routing MPR (RFC 7181).
    pub const MPR_WILLING: u8 = 7;
    /// Content sequence number (RFC 7181).
    pub const CONT_SEQ_NUM: u8 = 8;
}

/// Type extensions of the CONT_SEQ_NUM message TLV (RFC 7181, section 24.4).
pub mod cont_seq_num {
    /// The message contains all of the originator's advertised content.
    pub const COMPLETE: u8 = 0;
    /// The message contains a part of it.
    pub const INCOMPLETE: u8 = 1;
}

/// Address block TLV types.
pub mod address_tlv {
    /// Interval until the next message with the address (RFC 5497).
    pub const INTERVAL_TIME: u8 = 0;
    /// How long the address stays valid (RFC 5497).
    pub const VALIDITY_TIME: u8 = 1;
    /// The address belongs to an interface of the sender (RFC 6130).
    pub const LOCAL_IF: u8 = 2;
    /// State of the link to the address (RFC 6130).
    pub const LINK_STATUS: u8 = 3;
    /// State of the neighbour over all links (RFC 6130).
    pub const OTHER_NEIGHB: u8 = 4;
    /// Integrity check value (RFC 7182).
    pub const ICV: u8 = 5;
    /// Timestamp (RFC 7182).
    pub const TIMESTAMP: u8 = 6;
    /// Link and neighbour metrics (RFC 7181).
    pub const LINK_METRIC: u8 = 7;
    /// The neighbour is a multipoint relay of the sender (RFC 7181).
    pub const MPR: u8 = 8;
    /// The kind of a neighbour's address in a TC (RFC 7181).
    pub const NBR_ADDR_TYPE: u8 = 9;
    /// An attached network. The value is its distance (RFC 7181).
    pub const GATEWAY: u8 = 10;
}

/// Values of LOCAL_IF (RFC 7188, section 5.1).
pub mod local_if {
    /// The interface from which the message is sent.
    pub const THIS_IF: u8 = 0;
    /// Another interface of the sender.
    pub const OTHER_IF: u8 = 1;
    /// Not specified.
    pub const UNSPECIFIED: u8 = 255;
}

/// Values of LINK_STATUS (RFC 7188, section 5.2).
pub mod link_status {
    /// The link is lost.
    pub const LOST: u8 = 0;
    /// The link works in both directions.
    pub const SYMMETRIC: u8 = 1;
    /// The sender hears the address.
    pub const HEARD: u8 = 2;
    /// Not specified.
    pub const UNSPECIFIED: u8 = 255;
}

/// Values of OTHER_NEIGHB (RFC 7188, section 5.3).
pub mod other_neighb {
    /// No link to the neighbour is symmetric any more.
    pub const LOST: u8 = 0;
    /// Some link to the neighbour is symmetric.
    pub const SYMMETRIC: u8 = 1;
    /// Not specified.
    pub const UNSPECIFIED: u8 = 255;
}

/// Flags of LINK_METRIC, a value of 16 bits: 4 flags and a metric code of 12 bits (RFC 7181, section 13.3.2).
pub mod link_metric {
    /// The metric of the link from the address.
    pub const INCOMING_LINK: u16 = 0x8000;
    /// The metric of the link to the address.
    pub const OUTGOING_LINK: u16 = 0x4000;
    /// The metric from the neighbour, over its best link.
    pub const INCOMING_NEIGHBOR: u16 = 0x2000;
    /// The metric to the neighbour, over its best link.
    pub const OUTGOING_NEIGHBOR: u16 = 0x1000;
    /// The bits of the metric code, see [`crate::metric`].
    pub const CODE: u16 = 0x0fff;
}

/// Bits of MPR (RFC 7188, section 5.4).
pub mod mpr {
    /// A flooding MPR only.
    pub const FLOODING: u8 = 1;
    /// A routing MPR only.
    pub const ROUTING: u8 = 2;
    /// Both.
    pub const FLOOD_ROUTE: u8 = 3;
}

/// Bits of NBR_ADDR_TYPE (RFC 7188, section 5.5).
pub mod nbr_addr_type {
    /// The neighbour's originator address.
    pub const ORIGINATOR: u8 = 1;
    /// An address that packets may be sent to.
    pub const ROUTABLE: u8 = 2;
    /// Both.
    pub const ROUTABLE_ORIG: u8 = 3;
}

/// Willingness, each nibble of MPR_WILLING (RFC 7181, section 5.3).
pub mod willingness {
    /// Never an MPR.
    pub const NEVER: u8 = 0;
    /// The default value.
    pub const DEFAULT: u8 = 7;
    /// Always an MPR.
    pub const ALWAYS: u8 = 15;
}

/// Type extensions of ICV (RFC 7182, sections 13.5, 13.7 and 13.9).
pub mod icv {
    /// The value is the ICV. The deployment defines how it is calculated (section 11).
    pub const BASIC: u8 = 0;
    /// The value also holds the hash function, cryptographic function and key identifier (section 12).
    pub const HASH_AND_CRYPTO: u8 = 1;
    /// As [`HASH_AND_CRYPTO`], and the ICV covers the source address of the datagram (section 12).
    pub const HASH_AND_CRYPTO_WITH_SOURCE: u8 = 2;
}

/// Type extensions of TIMESTAMP (RFC 7182, sections 13.6, 13.8 and 13.10).
pub mod timestamp {
    /// Unsigned, of any length. The protocol defines what it counts.
    pub const UNSIGNED: u8 = 0;
    /// 32 bits: POSIX time.
    pub const POSIX: u8 = 1;
    /// NTP timestamp format.
    pub const NTP: u8 = 2;
    /// Of any length and without order, for instance random.
    pub const SIGNED: u8 = 3;
}

/// Hash functions of ICV (RFC 7182, section 13.11).
pub mod hash_function {
    /// The identity function.
    pub const NONE: u8 = 0;
    /// SHA-1.
    pub const SHA_1: u8 = 1;
    /// SHA-224.
    pub const SHA_224: u8 = 2;
    /// SHA-256.
    pub const SHA_256: u8 = 3;
    /// SHA-384.
    pub const SHA_384: u8 = 4;
    /// SHA-512.
    pub const SHA_512: u8 = 5;
}

/// Cryptographic functions of ICV (RFC 7182, section 13.12).
pub mod cryptographic_function {
    /// The identity function.
    pub const NONE: u8 = 0;
    /// RSA.
    pub const RSA: u8 = 1;
    /// DSA.
    pub const DSA: u8 = 2;
    /// HMAC.
    pub const HMAC: u8 = 3;
    /// Triple DES.
    pub const TRIPLE_DES: u8 = 4;
    /// AES.
    pub const AES: u8 = 5;
    /// ECDSA.
    pub const ECDSA: u8 = 6;
}
