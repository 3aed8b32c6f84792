//! RFC 5444 packets, RFC 5497 time and RFC 7181 metric values
#![no_std]
#![forbid(unsafe_code)]

