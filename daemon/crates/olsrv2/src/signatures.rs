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

/// How far a quoted counter may exceed a floor.
///
/// A floor that is known here is two TC validities old at most, or 4096 counters behind for each restart of its router.
/// olsrv2-signer signs 500 messages a second at most, so this is worth 35 minutes, or 256 restarts.
///
/// Nobody gains by guessing a quote: who can sign as a router hears the counters of others in their TCs, and nobody else
/// can change a quote. What a quote must show is that a recorded message is old, to a router that remembers nothing
/// of its sender. Counters come round after 99 days at 500 a second. But those of a router that has lost its file go on
/// by the clock, 65536 a second, and then what was quoted before is anywhere in the 32 bits: one old quote of 4096 looks
/// recent. It was one of two when half of all numbers counted as higher, as in RFC 1982. 64 bits would add 4 octets for
/// each neighbour to each HELLO and TC.
const AHEAD: Quote = 1 << 20;

/// Returns whether a quoted counter is not below a floor, nor far above it. Both may have passed the end of the low half.
pub(crate) fn is_recent(quoted: Quote, floor: u64) -> bool {
    quoted.wrapping_sub(quote(floor)) < AHEAD
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
            let last = u64::from(AHEAD) - 1;
            assert!(of(floor) && of(floor.wrapping_add(1)) && of(floor.wrapping_add(last)));
            for far in [1, 1 << 30, 3 << 30] {
                assert!(!of(floor.wrapping_sub(far)), "{floor} - {far}");
            }
            assert!(!of(floor.wrapping_add(last + 1)), "{floor}");
        }
    }
}
