//! Time values of one octet (RFC 5497).
//!
//! The low 3 bits are the mantissa a and the high 5 bits the exponent b of
//! (1 + a/8) * 2^b * C, with C = 1/1024 s (RFC 5497, sections 5 and 6).

use core::time::Duration;

/// The code of the shortest representable time that is not shorter than `time`.
///
/// Rounding is upwards; what exceeds the longest time (about 45.5 days) gets its
/// code, 255. Code 0 (the shortest, 1/1024 s) also serves for `Duration::ZERO`.
pub fn encode_time(time: Duration) -> u8 {
    let _ = time;
    unimplemented!()
}

/// The time that a code stands for, from 1/1024 s to 45.5 days, rounded up to a nanosecond.
pub fn decode_time(code: u8) -> Duration {
    let _ = code;
    unimplemented!()
}

/// The time for a receiver `hops` hops from the originator, from the value of
/// an INTERVAL_TIME or VALIDITY_TIME TLV: one default code, or codes by hop
/// count (RFC 5497, section 5).
///
/// `None` when the value is empty, of even length, or its distances do not increase.
pub fn time_at_distance(value: &[u8], hops: u8) -> Option<Duration> {
    let _ = (value, hops);
    unimplemented!()
}
