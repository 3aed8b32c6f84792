//! Netlink without a family: sockets for requests, for notices and for both, datagrams split into messages, and the
//! messages of generic netlink.
#![forbid(unsafe_code)]

mod datagram;
mod generic;
mod socket;

pub use datagram::messages;
pub use generic::{attributes, text, u16_of, u32_of, u64_of, Message};
pub use socket::{error_of, Asker, Duplex, Listener};
