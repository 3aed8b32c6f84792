//! The generalised MANET packet and message format (RFC 5444), the time values of RFC 5497 and the metric values of RFC
//! 7181.
//!
//! The octets of a packet are decoded once, at the edge, to typed values in which every address has its own TLVs. Index
//! ranges, multi-value TLVs and address compression exist only inside the codec.
//!
//! # Contract
//!
//! Decoding never panics, whatever the octets, and allocates no more than a fixed multiple of the input's size (see
//! [`MAX_EXPANSION`] and [`MAX_ENTRIES`]). Encoding is deterministic: equal values give equal octets.
//!
//! A router receives with [`PacketView`]: a malformed message does not affect the others, and a message can be
//! forwarded octet by octet. It sends with [`Message::encode`] and [`PacketWriter`]. [`Packet`] decodes or encodes a
//! whole packet, and fails if any message is malformed.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod decode;
mod encode;
mod error;
pub mod iana;
mod icv;
pub mod metric;
mod model;
mod prefix;
pub mod time;
mod view;
mod wire;
mod writer;

pub use decode::{MAX_ENTRIES, MAX_EXPANSION};
pub use error::{DecodeCause, DecodeError, EncodeError};
pub use icv::{covered_octets, with_message_tlv};
pub use metric::Metric;
pub use model::{AddressEntry, Message, Packet, Tlv};
pub use prefix::{ParsePrefixError, Prefix};
pub use view::{forward_copy, last_hop_copy, MessageHeader, Messages, PacketView, RawMessage};
pub use writer::PacketWriter;
