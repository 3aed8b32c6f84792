//! Link metric values of 12 bits (RFC 7181, section 6.2).

/// A link metric: 1 to 16776960.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metric(u32);

impl Metric {
    /// The smallest metric.
    pub const MIN: Self = Self(1);
    /// The largest metric (MAXIMUM_METRIC).
    pub const MAX: Self = Self(16_776_960);

    /// A metric, or `None` when `value` is outside 1 to 16776960.
    pub const fn new(value: u32) -> Option<Self> {
        if Self::MIN.0 <= value && value <= Self::MAX.0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The value, 1 to 16776960.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The 12-bit code of the smallest representable metric that is not smaller than `metric`.
pub fn compress(metric: Metric) -> u16 {
    let _ = metric;
    unimplemented!()
}

/// The metric of a code; the four high bits, the flags of a LINK_METRIC TLV, are ignored.
pub fn decompress(code: u16) -> Metric {
    let _ = code;
    unimplemented!()
}
