//! A whole node of the overlay (cjdns, protocol versions 20 to 22) without I/O: links to neighbours, the switch between
//! them, and this node's own router with its inner sessions and paths.
//!
//! # Theory of operation
//!
//! ```text
//!   datagrams                                                     IPv6 packets
//!  ----------> receive -> link -> switch -> inner session -> ... ------------->  Verdict::Deliver
//!                                   |
//!  <---------- Verdict::Transmit <- link <- switch <- inner session <----------  send_packet
//! ```
//!
//! The caller owns the octets of a data frame. [`Node::receive`] and [`Node::send_packet`] work in its buffer, which
//! has [`HEAD_ROOM`] and [`TAIL_ROOM`] around the frame. They allocate nothing, and return in a [`Verdict`] what the
//! caller must do with which part of the buffer. After each call, fetch the messages of the node itself with
//! [`Node::poll_transmit`] until it returns `None`: handshakes, pings, DHT messages, errors, and packets that waited
//! for their session. Then call [`Node::poll_event`] and, for the timer, [`Node::poll_timeout`] and
//! [`Node::handle_timeout`].
//!
//! A node becomes a neighbour in one of three ways: it is configured ([`Node::connect`]), it knows a password
//! ([`Node::add_user`]), or its beacon was received ([`Beacons`]). `peer.rs` has the life of a link as a table.
//!
//! # Contract
//!
//! Nothing here panics, whatever the octets. [`Limits`] bounds everything that is stored. Work that needs curve
//! arithmetic, and answers that others can cause, are limited in rate. Each dropped frame is counted by its [`Cause`].
//! Time is an argument and never runs backwards. Randomness comes from the caller.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod beacon;
mod config;
mod counters;
mod event;
mod interface;
mod limiter;
mod meter;
mod node;
mod peer;
mod peers;
mod view;

pub use beacon::{Beacon, BEACON_LENGTH};
pub use config::{Admission, Config, Limits, Timing};
pub use counters::{Cause, Counters};
pub use event::{Event, PingId, PingResult, Question, Report};
pub use interface::{Beacons, Destination, InterfaceId, LinkAddress};
pub use node::{ConnectError, Connection, Node, Transmission, Verdict};
pub use overlay::SessionState;
pub use view::{Link, PeerState, PeerView, SessionView};

/// Monotonic time since an arbitrary start.
pub type Time = core::time::Duration;

/// Octets that a buffer must have before a frame or packet, enough for an inner handshake in a handshake of the link.
pub const HEAD_ROOM: usize = overlay::SESSION_HEAD_ROOM + cryptoauth::HEAD_ROOM;

/// Octets that a buffer must have after a frame or packet.
pub const TAIL_ROOM: usize = cryptoauth::TAIL_ROOM;

/// Octets that [`Node::poll_transmit`] needs at least. A packet that waited needs [`HEAD_ROOM`], its length and
/// [`TAIL_ROOM`].
pub const TRANSMIT_ROOM: usize = HEAD_ROOM + 1500 + TAIL_ROOM;
