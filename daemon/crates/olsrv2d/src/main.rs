//! OLSRv2 router for Linux.
#![forbid(unsafe_code)]
mod config;
mod fib;
mod links;
mod mesh;
mod netlink;
fn main() {}
