//! The Internet checksum (RFC 1071) and the pseudo-header of IPv6 (RFC 8200, section 8.1).

/// Returns the ones' complement sum of `octets` and `initial`. An odd byte is summed as if a zero byte followed.
pub fn sum(octets: &[u8], initial: u64) -> u64 {
    let (words, rest) = octets.split_at(octets.len() / 4 * 4);
    let total = words
        .chunks_exact(4)
        .map(|word| u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]])))
        .fold(initial, u64::wrapping_add);
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_be_bytes(last))
}

/// Folds a sum to 16 bits.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the sum of the pseudo-header of an IPv6 packet: its addresses, the length of the summed content and its
/// protocol.
pub fn pseudo_header(packet: &[u8], length: usize, protocol: u8) -> u64 {
    sum(&packet[8..40], length as u64 + u64::from(protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        // Section 3: 00 01 f2 03 f4 f5 f6 f7 sums up to ddf2 (with the carries in).
        let octets = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&octets, 0)), 0xddf2);
        assert_eq!(
            fold(sum(&octets[..7], 0)),
            fold(sum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0], 0))
        );
        assert_eq!(fold(sum(&octets[..1], 0xffff)), fold(0xffff));
    }
}
