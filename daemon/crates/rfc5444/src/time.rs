//! Time values of one octet (RFC 5497).
//!
//! The low 3 bits are the mantissa a and the high 5 bits the exponent b of (1 + a/8) * 2^b * C (RFC 5497, section 5),
//! with C = 1/1024 s (RFC 7181, section 5.6.3). Zero and infinite times are not used (RFC 6130, section 10.1; RFC 7181,
//! section 16.1).

use core::time::Duration;

/// All time values are whole multiples of C/8.
const UNITS_PER_SECOND: u128 = 8 * 1024;
const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// Returns the code of the shortest time value that is not shorter than `time`.
///
/// A time above the longest value (45.5 days) gets its code, 255.
pub fn encode_time(time: Duration) -> u8 {
    let units = (time.as_nanos() * UNITS_PER_SECOND).div_ceil(NANOSECONDS_PER_SECOND);
    let exponent = units.max(8).ilog2() - 3;
    let mantissa = units.div_ceil(1 << exponent).saturating_sub(8);
    // A mantissa of 8 carries into the exponent.
    u8::try_from(u128::from(exponent) * 8 + mantissa).unwrap_or(u8::MAX)
}

/// Returns the time value of a code, from 1/1024 s to 45.5 days, in whole nanoseconds.
pub fn decode_time(code: u8) -> Duration {
    let units = u128::from(8 + (code & 7)) << (code >> 3);
    let nanoseconds = units * NANOSECONDS_PER_SECOND / UNITS_PER_SECOND;
    let seconds = (nanoseconds / NANOSECONDS_PER_SECOND) as u64;
    Duration::new(seconds, (nanoseconds % NANOSECONDS_PER_SECOND) as u32)
}

/// Returns the time value for a receiver `hop_count` hops from the originator. `value` is that of an INTERVAL_TIME or
/// VALIDITY_TIME TLV: pairs of a code and the greatest hop count that it is for, then the code for all others (RFC
/// 5497, section 6).
///
/// Returns `None` if the value is malformed: its length is even, or its hop counts do not increase or reach 255.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_recorded_from_olsrd2() {
        for (code, seconds) in [(0x58, 2), (0x72, 20), (0x62, 5), (0x92, 320)] {
            assert_eq!(decode_time(code), Duration::from_secs(seconds));
            assert_eq!(encode_time(Duration::from_secs(seconds)), code);
        }
    }

    #[test]
    fn extremes() {
        assert_eq!(decode_time(0), Duration::from_nanos(976_562));
        assert_eq!(decode_time(255), Duration::from_secs(15 << 18));
        assert_eq!(encode_time(Duration::ZERO), 0);
        assert_eq!(encode_time(Duration::from_nanos(976_562)), 0);
        assert_eq!(encode_time(Duration::from_nanos(976_563)), 1);
        assert_eq!(encode_time(Duration::from_secs(15 << 18)), 255);
        assert_eq!(encode_time(Duration::MAX), 255);
    }

    #[test]
    fn every_code_survives_and_what_is_longer_is_rounded_up() {
        for code in 0..=255 {
            let time = decode_time(code);
            assert_eq!(encode_time(time), code);
            let longer = encode_time(time + Duration::from_nanos(1));
            assert_eq!(longer, code.saturating_add(1), "code {code}");
        }
    }

    #[test]
    fn time_depends_on_the_distance() {
        let at = |value: &[u8], hop_count| time_at_distance(value, hop_count);
        let value = [1, 0, 2, 3, 3, 254, 4];
        let codes = [(0, 1), (1, 2), (3, 2), (4, 3), (254, 3), (255, 4)];
        for (hop_count, code) in codes {
            assert_eq!(
                at(&value, hop_count),
                Some(decode_time(code)),
                "{hop_count} hops"
            );
        }
        assert_eq!(at(&[0x72], 255), Some(decode_time(0x72)));
    }

    #[test]
    fn malformed_time_values() {
        let malformed: [&[u8]; 5] = [
            &[],
            &[1, 2],
            &[1, 3, 2, 3, 4],
            &[1, 3, 2, 2, 4],
            &[1, 255, 2],
        ];
        for value in malformed {
            assert_eq!(time_at_distance(value, 1), None, "{value:?}");
        }
    }
}
