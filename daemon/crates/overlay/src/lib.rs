//! The overlay of cjdns (protocol versions 20 to 22), sans-IO: what its
//! routers say to each other, and how they find ways.
//!
//! - [`bencode`] and [`Message`]: DHT messages.
//! - [`Content`] and its functions: what inner sessions carry.
//! - [`Sessions`]: end to end, over the labels that the finder finds.
//! - [`Store`]: the nodes that are known, and several ways to each.
//! - [`Finder`]: asks and answers, finds ways and keeps them.
//!
//! # Contract
//!
//! Nothing here panics, whatever the octets, and decoding allocates no more
//! than [`bencode::MAX_VALUES`] values. What is kept is bounded by [`Limits`].
//! Time is an argument and never runs backwards, randomness comes from the caller.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bencode;
mod finder;
mod frame;
mod message;
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
pub use sessions::{
    Delivered, InnerError, InnerSealError, SessionLimits, SessionState, Sessions,
    SESSION_HEAD_ROOM, SESSION_TIMEOUT,
};
pub use store::{distance, Limits, Node, Store, Way, FORGET_AFTER};
