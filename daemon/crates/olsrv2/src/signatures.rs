//! What an operator may choose about signatures, and what a verified one says.

/// How messages without a valid signature of their originator are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signatures {
    /// Signatures are not looked at.
    Off,
    /// Links that both ends have signed come first. Unsigned ones are the last resort, and nobody speaks unsigned for a
    /// router that has signed.
    #[default]
    Prefer,
    /// Unsigned messages are ignored, and a link counts only when both ends have signed it.
    Require,
}

/// The key of a trusted router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    /// Its Ed25519 public key.
    pub key: [u8; icv::KEY_LENGTH],
    /// It is known to sign its messages, so that nobody speaks for it unsigned.
    pub signs: bool,
}

/// What the verified signature of a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// The counter of the message.
    pub counter: u64,
    /// The lowest counter that the sender has used lately.
    pub floor: u64,
}

/// The low half of a counter, as messages quote it.
pub(crate) type Quote = u32;

/// Returns what is quoted of a counter.
pub(crate) fn quote(counter: u64) -> Quote {
    counter as Quote
}

/// Returns whether a quoted counter is not below a floor. Counters are compared as RFC 1982 compares serial numbers.
pub(crate) fn is_recent(quoted: Quote, floor: u64) -> bool {
    quoted.wrapping_sub(quote(floor)) < 1 << (Quote::BITS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_recent_from_the_floor_on_also_where_the_low_half_wraps() {
        for floor in [
            0,
            1,
            7,
            u64::from(u32::MAX),
            1 << 32,
            (5 << 32) - 1,
            u64::MAX,
        ] {
            let of = |counter: u64| is_recent(quote(counter), floor);
            assert!(of(floor) && of(floor.wrapping_add(1)) && of(floor.wrapping_add(1 << 30)));
            assert!(
                !of(floor.wrapping_sub(1)) && !of(floor.wrapping_sub(1 << 30)),
                "{floor}"
            );
        }
    }
}
