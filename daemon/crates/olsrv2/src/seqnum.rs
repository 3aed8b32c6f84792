//! Sequence numbers that wrap around (RFC 7181, section 21).

/// Whether `a` is newer than `b`. Of two numbers 32768 apart neither is newer.
pub(crate) fn newer(a: u16, b: u16) -> bool {
    let distance = a.wrapping_sub(b);
    distance != 0 && distance < 0x8000
}

#[cfg(test)]
mod tests {
    use super::newer;

    #[test]
    fn newer_wraps_around() {
        for (a, b, expected) in [
            (1, 0, true),
            (0, 1, false),
            (7, 7, false),
            (0, 65535, true),
            (65535, 0, false),
            (32767, 0, true),
            (32768, 0, false),
            (0, 32768, false),
            (32769, 0, false),
            (0, 32769, true),
        ] {
            assert_eq!(newer(a, b), expected, "{a} newer than {b}");
        }
    }
}
