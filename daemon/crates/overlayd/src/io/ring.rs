//! How many pieces may wait in front of the TUN device, until they are read.
//!
//! The device holds no program up that sends datagrams: what comes while this process waits for a processor lies in the
//! kernel's ring, or is lost. So the ring is made long when it runs over with single packets, and short again when it is
//! not the processor that is short: on a slow link a long queue makes everything late, and pieces of many packets take
//! much memory. `docs/adr/0047-tun-ring.md` has the measurements.

use std::time::Duration;

use daemonkit::Time;

/// Pieces: what the kernel gives a device (TUN_READQ_SIZE).
pub const SHORT: u16 = 500;
/// Pieces: what a program that does nothing else sends in some 30 ms, for which a busy machine may let us wait.
pub const LONG: u16 = 4000;
/// So many turns have to leave packets behind first.
const CROWDED_TURNS: u32 = 3;
/// It stays short for so long, since the kernel lets nothing pass while it changes the length.
const CALM: Duration = Duration::from_secs(10);
/// Packets in a piece, on average, up to which it may become long, and beyond which it becomes short.
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
    /// A turn took pieces with so many packets in all and left others behind. The new length, if it is another.
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

    /// An interface takes no more for now, or pieces are large. The new length, if it is another.
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
