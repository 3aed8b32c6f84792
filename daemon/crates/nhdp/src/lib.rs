//! Neighbourhood discovery (RFC 6130), sans-IO.
//!
//! Time and randomness are arguments. A router runs one neighbourhood for each
//! address family.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod types;

pub use types::{Family, InterfaceId, LinkStatus, Time};
