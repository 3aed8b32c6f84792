//! A whole node of the overlay (cjdns, protocol versions 20 to 22), sans-IO: links to neighbours, the switch between
//! them, and this node's own router with its inner sessions and ways.
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
//! The caller owns the octets of a frame of data: [`Node::receive`] and [`Node::send_packet`] work in its buffer, which
//! has [`HEAD_ROOM`] and [`TAIL_ROOM`] around the frame, allocate nothing and return in a [`Verdict`] what is to be
//! done with which part of it. What the node says by itself (handshakes, pings, DHT messages, errors, packets that
//! waited for their session) is fetched with [`Node::poll_transmit`] after each call, until it is `None`. Then stand
//! [`Node::poll_event`] and, for the timer, [`Node::poll_timeout`] and [`Node::handle_timeout`].
//!
//! A neighbour becomes a peer by one of three ways: it is configured ([`Node::connect`]), it knows a password
//! ([`Node::add_user`]), or beacons introduced it ([`Beacons`]). `peer.rs` has the life of a link as a table.
//!
//! # Contract
//!
//! Nothing here panics, whatever the octets. All that is kept is bounded by [`Limits`]; work that costs curve
//! arithmetic, and answers that somebody else can cause, are limited in rate. Each frame that is dropped is counted by its
//! [`Cause`]. Time is an argument and never runs backwards, randomness comes from the caller.
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
pub use event::{Event, PingId, PingResult, Question, Told};
pub use interface::{Beacons, Destination, InterfaceId, LinkAddress};
pub use node::{ConnectError, Connection, Node, Transmission, Verdict};
pub use overlay::SessionState;
pub use view::{Link, PeerState, PeerView, SessionView};

/// Monotonic time since an arbitrary start.
pub type Time = core::time::Duration;

/// Octets that a buffer must have before a frame or packet: of an inner handshake in a handshake of the link.
pub const HEAD_ROOM: usize = overlay::SESSION_HEAD_ROOM + cryptoauth::HEAD_ROOM;

/// Octets that a buffer must have after a frame or packet.
pub const TAIL_ROOM: usize = cryptoauth::TAIL_ROOM;

/// Octets that [`Node::poll_transmit`] needs at least; a packet that waited needs [`HEAD_ROOM`], its length and
/// [`TAIL_ROOM`].
pub const TRANSMIT_ROOM: usize = HEAD_ROOM + 1500 + TAIL_ROOM;
