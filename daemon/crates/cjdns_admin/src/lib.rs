//! The admin API of cjdns (22), sans-IO: existing tools ask a router by it, in
//! bencoded datagrams.
//!
//! # Theory of operation
//!
//! [`Server::handle`] takes a datagram and gives the answer. A caller asks for
//! a cookie, which is the server's time, and hashes it with the password into
//! its request; functions that tell nothing secret and change nothing need
//! none of that. What the functions mean is the table in `functions.rs`; what
//! they tell and change is a [`Router`]'s, which the caller implements. An answer that
//! comes later, and a line of the log to those who subscribed
//! ([`Server::log`]), wait in the server for [`Server::poll_transmit`].
//!
//! Some functions ask other nodes. The router is given a [`Ticket`] with
//! the question ([`Router::ask`]) and the caller hands its [`Outcome`] to
//! [`Server::complete`]; a question that nobody answers in time ends by
//! [`Server::handle_timeout`].
//!
//! # Contract
//!
//! Nothing here panics, whatever the octets. A request is of at most
//! [`MAX_REQUEST`] octets, an answer of at most [`MAX_ANSWER`]; what is kept of
//! callers is bounded by [`MAX_PENDING`], [`MAX_CALLERS`] and
//! [`MAX_SUBSCRIPTIONS`], what waits to be sent by [`MAX_OUTBOX`]. Whoever may send
//! to the socket gets what needs no authentication, and whoever hears a
//! request may repeat it within [`COOKIE_LIFETIME`]: that is the protocol's, so
//! the socket belongs on the loopback interface. The password is never
//! formatted, and is overwritten when it is dropped.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod answer;
mod arguments;
mod auth;
mod call;
mod callers;
mod counters;
mod functions;
mod log_lines;
mod neighbours;
mod now;
mod outcome;
mod questions;
mod router;
mod search;
mod server;
mod sessions;
mod store;
mod subscriptions;
mod words;

pub use auth::{EmptyPassword, Password, COOKIE_LIFETIME};
pub use callers::MAX_CALLERS;
pub use counters::Counters;
pub use functions::FUNCTIONS_PER_PAGE;
pub use now::Now;
pub use router::{
    Ask, Beacon, Connect, Control, Interface, InterfaceKind, Link, Listed, Node, Outcome, Page,
    Parent, Peer, PeerState, Pong, Refused, Router, Session, Target, Ticket,
};
pub use server::{Server, MAX_ANSWER, MAX_OUTBOX, MAX_PENDING, MAX_REQUEST};
pub use subscriptions::{LogLevel, LogLine, MAX_SUBSCRIPTIONS};
pub use words::{Entries, ENTRIES};
