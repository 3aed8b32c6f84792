//! Neighbourhood discovery (RFC 6130), sans-IO.
//!
//! Time and randomness are arguments. A router runs one [`Neighbourhood`] for
//! each address family. A HELLO is read once, into a [`Hello`]; the tuples
//! carry what an [`Extension`] such as OLSRv2 adds to them.
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
