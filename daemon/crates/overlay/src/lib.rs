//! The overlay of cjdns (protocol versions 20 to 22) without I/O: the messages of its routers, and how they find paths.
//!
//! - [`bencode`] and [`Message`]: DHT messages.
//! - [`Content`] and its functions: the content of inner sessions.
//! - [`Sessions`]: encryption from end to end, over the labels that the finder finds.
//! - [`Store`]: the known nodes, and several paths to each.
//! - [`Finder`]: sends and answers queries, finds paths and keeps them working.
//!
//! # Contract
//!
//! Nothing here panics, whatever the octets, and decoding allocates no more than [`bencode::MAX_VALUES`] values.
//! [`Limits`] bounds what is stored. Time is an argument and never runs backwards. Randomness comes from the caller.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bencode;
mod finder;
mod frame;
mod message;
mod session_error;
mod session_state;
mod sessions;
mod store;

/// Monotonic time since an arbitrary start.
pub type Time = core::time::Duration;

pub use finder::{Counters, Dropped, Event, Finder, Reply, Transmit, PROBE_INTERVAL, WANTED_FOR};
pub use frame::{
    ipv6_header, remove_ipv6_header, split_data, split_start, Content, FrameError, DATA_HEADER,
    IPV6_HEADER,
};
pub use message::{
    Body, Contact, Message, MessageError, Query, Txid, MAX_NODES, MAX_TXID, NODES_PER_REPLY,
};
pub use session_error::{InnerError, InnerSealError};
pub use session_state::{Delivered, SessionLimits, SessionState, SESSION_HEAD_ROOM};
pub use sessions::{Sessions, SESSION_TIMEOUT};
pub use store::{distance, Limits, Node, Store, Way, FORGET_AFTER};
