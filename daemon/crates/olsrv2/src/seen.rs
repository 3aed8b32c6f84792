//! Which sources were heard before, in bounded memory however many there are.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use nhdp::{InterfaceId, Time};

use crate::belief::HELLO_INTERVAL_MAX;

/// A source is remembered for so long, and at most twice as long: from one HELLO to the next.
const MEMORY: Duration = HELLO_INTERVAL_MAX;
/// Bits of a generation, of which each source sets three. The limiter lets 8192 strangers a second through: 49152 of
/// them fill an eighth, so that in two generations one new source of 220 looks as if it had been heard (37 a second).
const BITS: u32 = 20;

/// A Bloom filter of two generations. It takes 256 KiB while it is used, and nothing otherwise.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Secret, so that nobody finds sources that look like those of others.
    key: u64,
    began: Time,
    present: Vec<u64>,
    before: Vec<u64>,
}

impl Seen {
    pub(crate) fn new(now: Time, key: u64) -> Self {
        Self {
            key,
            began: now,
            present: Vec::new(),
            before: Vec::new(),
        }
    }

    /// Returns whether a source was heard before, and records it.
    pub(crate) fn is_again(&mut self, now: Time, source: (InterfaceId, IpAddr)) -> bool {
        self.expire(now);
        if self.present.is_empty() {
            self.present = vec![0; 1 << (BITS - u64::BITS.ilog2())];
        }
        let bits = self.bits(source);
        let has = |set: &[u64]| {
            bits.iter()
                .all(|(at, bit)| set.get(*at).is_some_and(|word| word & bit != 0))
        };
        let is_again = has(&self.present) || has(&self.before);
        for (at, bit) in bits {
            self.present[at] |= bit;
        }
        is_again
    }

    /// Forgets what is too old.
    pub(crate) fn expire(&mut self, now: Time) {
        let elapsed = now.saturating_sub(self.began);
        if elapsed < MEMORY {
            return;
        }
        let ended = core::mem::take(&mut self.present);
        self.before = if elapsed < 2 * MEMORY {
            ended
        } else {
            Vec::new()
        };
        self.began = now;
    }

    /// Returns the words and bits of a source.
    fn bits(&self, (interface, address): (InterfaceId, IpAddr)) -> [(usize, u64); 3] {
        let address = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        let words = [(address >> 64) as u64, address as u64, interface.0.into()];
        let digest = words
            .iter()
            .fold(self.key, |digest, word| mixed(digest ^ word));
        [0, BITS, 2 * BITS].map(|shift| {
            let bit = digest >> shift & ((1 << BITS) - 1);
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }
}

/// Mixes all bits (the finalizer of SplitMix64).
fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;

    fn source(number: u128) -> (InterfaceId, IpAddr) {
        (
            InterfaceId(1),
            Ipv6Addr::from_bits(0xfe80 << 112 | number).into(),
        )
    }

    #[test]
    fn a_source_is_remembered_for_one_to_two_memories() {
        let mut seen = Seen::new(Time::ZERO, 77);
        let mut is_again = |at: Duration, number| seen.is_again(at, source(number));
        assert!(!is_again(Time::ZERO, 1) && is_again(Time::ZERO, 1) && !is_again(Time::ZERO, 2));
        let first = MEMORY - Duration::from_nanos(1);
        assert!(!is_again(first, 3));
        assert!(is_again(first + MEMORY, 3));
        assert!(!is_again(10 * MEMORY, 3), "after a pause");
        assert!(!seen.is_again(10 * MEMORY, (InterfaceId(2), source(3).1)));
        seen.expire(12 * MEMORY);
        assert!(seen.present.is_empty() && seen.before.is_empty());
    }

    #[test]
    fn one_of_200_new_sources_looks_old_where_the_limiter_lets_most_through() {
        let mut seen = Seen::new(Time::ZERO, 0x1234_5678_9abc_def1);
        let most = 8192 * MEMORY.as_secs();
        let mut again = 0;
        for number in 0..2 * u128::from(most) {
            let now = Time::from_secs(number as u64 / 8192);
            again += usize::from(seen.is_again(now, source(number * 7919)));
        }
        assert!(again < 2 * most as usize / 200, "{again}");
    }
}
