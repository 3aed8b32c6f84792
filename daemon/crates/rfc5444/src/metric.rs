//! Link metric values of 12 bits (RFC 7181, section 6.2).
//!
//! The low 8 bits are the mantissa a and the high 4 bits the exponent b of
//! (257 + a) * 2^b - 256.

/// The code of the largest metric.
const CODE_MAX: u16 = 0xfff;

/// A link metric: 1 to 16776960.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metric(u32);

impl Metric {
    /// The smallest metric.
    pub const MIN: Self = Self(1);
    /// The largest metric (MAXIMUM_METRIC).
    pub const MAX: Self = Self(16_776_960);

    /// Returns a metric, or `None` if `value` is outside 1 to 16776960.
    pub const fn new(value: u32) -> Option<Self> {
        if Self::MIN.0 <= value && value <= Self::MAX.0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// Returns the value, 1 to 16776960.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the next larger metric that a code represents exactly, or the largest metric.
    pub fn next_larger(self) -> Self {
        decompress((compress(self) + 1).min(CODE_MAX))
    }
}

/// Returns the 12-bit code of the smallest representable metric that is not smaller than `metric`.
pub fn compress(metric: Metric) -> u16 {
    let shifted = metric.0 + 256;
    let exponent = shifted.next_power_of_two().ilog2().saturating_sub(9);
    let mantissa = shifted.div_ceil(1 << exponent) - 257;
    ((exponent << 8) | mantissa) as u16
}

/// Returns the metric of a code. Ignores the four high bits, which are the flags of a LINK_METRIC TLV.
pub fn decompress(code: u16) -> Metric {
    let (exponent, mantissa) = ((code >> 8) & 0xf, u32::from(code & 0xff));
    Metric(((257 + mantissa) << exponent) - 256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range() {
        assert_eq!(Metric::new(0), None);
        assert_eq!(Metric::new(1), Some(Metric::MIN));
        assert_eq!(Metric::new(16_776_960), Some(Metric::MAX));
        assert_eq!(Metric::new(16_776_961), None);
    }

    #[test]
    fn extremes_and_first_steps() {
        for (code, value) in [
            (0x000, 1),
            (0x001, 2),
            (0x0ff, 256),
            (0x100, 258),
            (0xfff, 16_776_960),
        ] {
            assert_eq!(decompress(code).get(), value);
            assert_eq!(compress(Metric(value)), code);
        }
    }

    #[test]
    fn every_code_survives_and_what_is_larger_is_rounded_up() {
        for code in 0..0xfff {
            let metric = decompress(code);
            assert_eq!(compress(metric), code);
            assert_eq!(
                compress(Metric(metric.get() + 1)),
                code + 1,
                "code {code:#x}"
            );
        }
    }

    #[test]
    fn next_larger() {
        let next = |value| Metric(value).next_larger().get();
        assert_eq!(
            (next(1), next(256), next(257), next(258)),
            (2, 258, 260, 260)
        );
        assert_eq!(
            (next(16_776_959), next(16_776_960)),
            (16_776_960, 16_776_960)
        );
    }

    #[test]
    fn flags_do_not_matter() {
        assert_eq!(decompress(0xf123), decompress(0x0123));
    }
}
