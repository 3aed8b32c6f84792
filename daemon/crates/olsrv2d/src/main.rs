//! OLSRv2 router for Linux.
#![forbid(unsafe_code)]
mod config;
mod netlink;
fn main() {}
