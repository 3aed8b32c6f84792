//! Neighbourhood discovery (RFC 6130) without I/O.
//!
//! Time and randomness are arguments. A router runs one [`Neighbourhood`] per address family. Each HELLO is decoded
//! once, into a [`Hello`]. The tuples also hold what an [`Extension`] such as OLSRv2 adds to them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod evict;
mod generate;
mod given_way;
mod hello;
mod neighbourhood;
mod process;
mod refresh;
mod timer;
mod tuples;
mod types;

pub use evict::{MAX_LINKS_OF_NEIGHBOUR, MAX_TWO_HOPS_OF_LINK};
pub use hello::{Hello, HelloError, HelloNeighbour, MAX_LOCAL_ADDRESSES};
pub use neighbourhood::{Changes, Neighbourhood, Params};
pub use process::Rejected;
pub use refresh::{Piece, Refresh};
pub use timer::{jitter, MessageTimer, Pace};
pub use tuples::{Extension, Link, LinkId, Neighbour, NeighbourId, TwoHop};
pub use types::{Family, InterfaceId, LinkStatus, Time};
