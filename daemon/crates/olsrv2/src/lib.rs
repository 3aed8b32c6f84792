//! OLSRv2 (RFC 7181), sans-IO
#![no_std]
#![forbid(unsafe_code)]

