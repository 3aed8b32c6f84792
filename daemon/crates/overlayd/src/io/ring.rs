//! Sets how many pieces the TUN device may queue until they are read.
//!
//! The device does not slow down a program that sends datagrams. Packets that arrive while this process waits for a
//! processor stay in the kernel's ring, or are lost. So the ring becomes long when it overflows with single packets. It
//! becomes short again when the processor is not the bottleneck: on a slow link a long queue delays everything, and
//! pieces of many packets take much memory. `docs/development/adr/0047-tun-ring.md` has the measurements.

use std::time::Duration;

use daemonkit::Time;

/// Initial length in pieces, which the kernel gives a device (TUN_READQ_SIZE).
pub const SHORT: u16 = 500;
/// Large length in pieces: the output of a busy program in about 30 ms, for which a busy machine may delay this
/// process.
pub const LONG: u16 = 4000;
/// Number of turns that must leave packets in the ring before it becomes long.
const CROWDED_TURNS: u32 = 3;
/// Time for which it stays short, because the kernel passes no packet while it changes the length.
const CALM: Duration = Duration::from_secs(10);
/// Average number of packets in a piece up to which the ring may become long; and the number above which it becomes
/// short.
const SINGLE: u64 = 2;
const JOINED: u64 = 4;

/// The ring of the device.
pub struct Ring {
    length: u16,
    crowded: u32,
    short_until: Time,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            length: SHORT,
            crowded: 0,
            short_until: Time::ZERO,
        }
    }
}

impl Ring {
    /// Notes a turn that read `pieces` with `packets` in all and left others in the ring. Returns the new length if it
    /// changes.
    pub fn crowd(&mut self, now: Time, pieces: u64, packets: u64) -> Option<u16> {
        if packets > pieces * JOINED {
            return self.stall(now);
        }
        if packets > pieces * SINGLE || now < self.short_until {
            return None;
        }
        self.crowded = self.crowded.saturating_add(1);
        if self.crowded < CROWDED_TURNS {
            return None;
        }
        self.set(LONG)
    }

    /// Notes that an interface is blocked or pieces are large. Returns the new length if it changes.
    pub fn stall(&mut self, now: Time) -> Option<u16> {
        self.crowded = 0;
        self.short_until = now + CALM;
        self.set(SHORT)
    }

    fn set(&mut self, length: u16) -> Option<u16> {
        (self.length != length).then(|| {
            self.length = length;
            length
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1000);

    fn long() -> Ring {
        let mut ring = Ring::default();
        let lengths = [(); 4].map(|()| ring.crowd(NOW, 128, 128));
        assert_eq!(lengths, [None, None, Some(LONG), None]);
        ring
    }

    #[test]
    fn a_ring_that_runs_over_with_single_packets_becomes_long_once() {
        long();
    }

    #[test]
    fn a_link_that_takes_no_more_makes_it_short_and_keeps_it_so() {
        let mut ring = long();
        assert_eq!(ring.stall(NOW), Some(SHORT));
        assert_eq!(ring.stall(NOW), None);
        for _ in 0..10 {
            assert_eq!(ring.crowd(NOW + CALM / 2, 128, 128), None);
        }
        let lengths = [(); 3].map(|()| ring.crowd(NOW + CALM, 128, 128));
        assert_eq!(lengths, [None, None, Some(LONG)]);
    }

    #[test]
    fn stalls_between_crowds_keep_it_short() {
        let mut ring = Ring::default();
        for second in 0..100 {
            let now = NOW + CALM * second;
            assert_eq!(ring.crowd(now, 128, 128), None);
            assert_eq!(ring.crowd(now, 128, 128), None);
            assert_eq!(ring.stall(now), None);
        }
    }

    #[test]
    fn large_pieces_make_it_short() {
        assert_eq!(long().crowd(NOW, 10, 256), Some(SHORT));
        let mut ring = Ring::default();
        for _ in 0..10 {
            assert_eq!(ring.crowd(NOW, 100, 300), None);
        }
    }
}
