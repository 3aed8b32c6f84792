//! Neighbourhood discovery (RFC 6130), sans-IO
#![no_std]
#![forbid(unsafe_code)]

