//! Time values of one octet (RFC 5497).
//!
//! The low 3 bits are the mantissa a and the high 5 bits the exponent b of
//! (1 + a/8) * 2^b * C (RFC 5497, section 5), with C = 1/1024 s (RFC 7181,
//! section 5.6.3). Zero and infinite times are not used (RFC 6130, section
//! 12.1; RFC 7181, section 16.1).

use core::time::Duration;

/// C/8 is the unit of which all time values are whole multiples.
const UNITS_PER_SECOND: u128 = 8 * 1024;
const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// The code of the shortest time value that is not shorter than `time`.
///
/// What is longer than the longest time value (45.5 days) gets its code, 255.
pub fn encode_time(time: Duration) -> u8 {
    let units = (time.as_nanos() * UNITS_PER_SECOND).div_ceil(NANOSECONDS_PER_SECOND);
    let exponent = units.max(8).ilog2() - 3;
    let mantissa = units.div_ceil(1 << exponent).saturating_sub(8);
    // A mantissa of 8 carries into the exponent.
    u8::try_from(u128::from(exponent) * 8 + mantissa).unwrap_or(u8::MAX)
}

/// The time value of a code, from 1/1024 s to 45.5 days, in whole nanoseconds.
pub fn decode_time(code: u8) -> Duration {
    let units = u128::from(8 + (code & 7)) << (code >> 3);
    let nanoseconds = units * NANOSECONDS_PER_SECOND / UNITS_PER_SECOND;
    let seconds = (nanoseconds / NANOSECONDS_PER_SECOND) as u64;
    Duration::new(seconds, (nanoseconds % NANOSECONDS_PER_SECOND) as u32)
}

/// The time value for a receiver `hop_count` hops from the originator, from
/// the value of an INTERVAL_TIME or VALIDITY_TIME TLV: pairs of a code and the
/// greatest hop count it is for, then the code for all others (RFC 5497, section 6).
///
/// `None` when the value is malformed: it is of even length, or its hop counts
/// do not increase or reach 255.
pub fn time_at_distance(value: &[u8], hop_count: u8) -> Option<Duration> {
    let (&default, pairs) = value.split_last()?;
    let hop_counts = || pairs.chunks(2).map(|pair| pair.get(1).copied());
    let increasing = hop_counts().is_sorted_by(|a, b| a < b);
    let in_range = hop_counts().all(|hops| hops.is_some_and(|hops| hops < u8::MAX));
    if !increasing || !in_range {
        return None;
    }
    let nearest = pairs.chunks_exact(2).find(|pair| hop_count <= pair[1]);
    Some(decode_time(nearest.map_or(default, |pair| pair[0])))
}
