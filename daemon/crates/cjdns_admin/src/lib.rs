//! The admin API of cjdns (22), sans-IO. Existing tools send requests to a router in bencoded datagrams.
//!
//! # Theory of operation
//!
//! [`Server::handle`] takes a datagram and returns the answer. A caller first asks for a cookie, which is the server's
//! time, and hashes it with the password into its request. Functions that reveal no secret and change nothing need no
//! authentication. The table in `functions.rs` defines the functions; the caller of this crate implements [`Router`],
//! which provides their data and carries out their changes. Answers that come later, and log lines for subscribers
//! ([`Server::log`]), wait in the server for [`Server::poll_transmit`].
//!
//! Some functions ask other nodes. The router gets the question with a [`Ticket`] ([`Router::ask`]), and the caller
//! passes its [`Outcome`] to [`Server::complete`]. A question that is not answered in time ends with
//! [`Server::handle_timeout`].
//!
//! # Contract
//!
//! Nothing here panics, whatever the input. A request has at most [`MAX_REQUEST`] bytes, an answer at most
//! [`MAX_ANSWER`]. The state of callers is bounded by [`MAX_PENDING`], [`MAX_CALLERS`] and [`MAX_SUBSCRIPTIONS`], the
//! queue of datagrams by [`MAX_OUTBOX`].
//!
//! The protocol has two weaknesses: whoever can send to the socket may use the functions without authentication, and
//! whoever sees a request may repeat it within [`COOKIE_LIFETIME`]. So the socket belongs on the loopback interface.
//! The password is never formatted, and is overwritten when it is dropped.
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
