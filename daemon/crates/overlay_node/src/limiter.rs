//! Limits how often others can cause work.

use core::time::Duration;

use fastrand::Rng;

use crate::config::Limits;
use crate::interface::LinkAddress;
use crate::Time;

/// Time within which an unused rate can be used up in a burst.
const BURST: Duration = Duration::from_millis(500);

/// One rate limit: the generic cell rate algorithm (ITU-T I.371, annex A).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limiter {
    /// When the next event would occur if events were evenly spaced.
    next: Time,
}

/// Rate limits of sources. Many sources share one, so that the table cannot grow.
struct Sources {
    seed: u64,
    limiters: [Limiter; Self::COUNT],
}

/// Limits handshakes of strangers, from each source and in total.
pub(crate) struct Gate {
    sources: Sources,
    all: Limiter,
}

impl Gate {
    pub(crate) fn new(random: &mut Rng) -> Self {
        Self {
            sources: Sources::new(random),
            all: Limiter::default(),
        }
    }

    /// Returns whether another handshake is allowed. A source that exceeds its own limit does not use up the total.
    pub(crate) fn take(&mut self, now: Time, source: &LinkAddress, limits: &Limits) -> bool {
        let of_source = self.sources.of(source);
        of_source.take(now, limits.link_handshakes_by_source)
            && self.all.take(now, limits.link_handshakes)
    }

    /// Returns whether more than half of a burst is used up.
    pub(crate) fn is_busy(&self, now: Time) -> bool {
        self.all.is_busy(now)
    }
}

impl Limiter {
    /// Returns whether another event is allowed now, at `rate` per second.
    pub(crate) fn take(&mut self, now: Time, rate: u32) -> bool {
        if rate == 0 || self.next > now + BURST {
            return false;
        }
        self.next = self.next.max(now) + Duration::from_secs(1) / rate;
        true
    }

    /// Returns whether more than half of a burst is used up.
    fn is_busy(&self, now: Time) -> bool {
        self.next > now + BURST / 2
    }
}

impl Sources {
    const COUNT: usize = 256;

    fn new(random: &mut Rng) -> Self {
        Self {
            seed: random.u64(..),
            limiters: [Limiter::default(); Self::COUNT],
        }
    }

    /// Returns the rate limit of a source. Of an IPv6 address only the first half counts, because a host can use every
    /// address of a /64.
    fn of(&mut self, source: &LinkAddress) -> &mut Limiter {
        let number = match source {
            LinkAddress::Udp(address) => match address.ip() {
                core::net::IpAddr::V4(ip) => u64::from(ip.to_bits()),
                core::net::IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64,
            },
            LinkAddress::Ethernet([a, b, c, d, e, f]) => {
                u64::from_be_bytes([0, 0, *a, *b, *c, *d, *e, *f])
            }
        };
        // The seed is secret, so nobody can choose an address that shares a limit with a given victim.
        let mixed = (number ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed =
            (mixed ^ mixed >> 29 ^ self.seed.rotate_left(17)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        &mut self.limiters[(mixed >> 56) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_rate_and_half_a_second_of_it_pass() {
        let mut limiter = Limiter::default();
        let passed = |limiter: &mut Limiter, from: u64, to: u64| {
            let times = from..to;
            times
                .filter(|at| limiter.take(Duration::from_millis(*at), 100))
                .count()
        };
        assert_eq!(passed(&mut limiter, 0, 1), 1);
        let burst = (0..1000)
            .filter(|_| limiter.take(Duration::from_millis(1), 100))
            .count();
        assert!((49..=51).contains(&burst), "{burst}");
        assert!(limiter.is_busy(Duration::from_millis(1)));
        let second = passed(&mut limiter, 1000, 2000);
        assert!(
            (140..=151).contains(&second),
            "{second}: rested, then the rate"
        );
        assert!(!Limiter::default().take(Duration::ZERO, 0));
    }
}
