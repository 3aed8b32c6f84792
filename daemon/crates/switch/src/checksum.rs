//! The Internet checksum (RFC 1071) of control frames.

/// Returns the one's complement of the one's complement sum. It is 0 if the octets include their checksum.
pub(crate) fn checksum(octets: &[u8]) -> u16 {
    let pairs = octets.chunks_exact(2);
    let rest = pairs.remainder();
    let mut sum: u64 = pairs
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair[1]))
        .sum();
    if let [last] = rest {
        sum += u64::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
