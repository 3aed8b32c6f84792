//! The times of a physical layer, and the rates of control frames.

use core::time::Duration;

use alloc::vec;
use alloc::vec::Vec;

use crate::rate::Rate;

/// Octets of control frames with their check sequence (section 9.3.1).
pub(crate) const RTS_OCTETS: usize = 20;
pub(crate) const CTS_OCTETS: usize = 14;
pub(crate) const ACK_OCTETS: usize = 14;
/// A compressed block acknowledgement.
pub(crate) const BLOCK_ACK_OCTETS: usize = 32;

/// The characteristics of a physical layer that the access to the air depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Phy {
    /// aSlotTime.
    pub slot: Duration,
    /// aSIFSTime.
    pub sifs: Duration,
    /// The signal extension after an OFDM frame in the 2.4 GHz band.
    pub extension: Duration,
    /// The contention window before the first attempt, in slots; 2^n - 1.
    pub cw_min: u32,
    /// The largest contention window, in slots; 2^n - 1.
    pub cw_max: u32,
    /// Time in which a station detects that another one has begun to send; one that decides sooner sends as well.
    pub detection: Duration,
    /// The basic rates, in ascending order: those of broadcasts and control frames. There is at least one.
    pub basic: Vec<Rate>,
}

impl Phy {
    /// Returns 802.11b (table 16-6): DSSS and CCK with long slots.
    pub fn b() -> Self {
        Self {
            slot: Duration::from_micros(20),
            sifs: Duration::from_micros(10),
            extension: Duration::ZERO,
            cw_min: 31,
            cw_max: 1023,
            detection: Duration::from_micros(15),
            basic: rates(&[1000, 2000]),
        }
    }

    /// Returns 802.11g and n in the 2.4 GHz band (table 18-5) among stations that all have OFDM: short slots, and
    /// control frames at 6, 12 and 24 Mbit/s.
    pub fn g() -> Self {
        Self {
            slot: Duration::from_micros(9),
            sifs: Duration::from_micros(10),
            extension: Duration::from_micros(6),
            cw_min: 15,
            cw_max: 1023,
            detection: Duration::from_micros(4),
            basic: rates(&[6000, 12_000, 24_000]),
        }
    }

    /// Returns 802.11a and n in the 5 GHz band (table 17-21).
    pub fn a() -> Self {
        Self {
            sifs: Duration::from_micros(16),
            extension: Duration::ZERO,
            ..Self::g()
        }
    }

    /// Returns DIFS: how long the air must be free before the slots count (section 10.3.7).
    pub fn difs(&self) -> Duration {
        self.sifs + 2 * self.slot
    }

    /// Returns EIFS, which takes the place of DIFS after a frame that could not be read.
    pub fn eifs(&self) -> Duration {
        self.sifs + self.difs() + self.duration(self.basic[0], ACK_OCTETS)
    }

    /// Returns how long a frame occupies the air.
    pub fn duration(&self, rate: Rate, octets: usize) -> Duration {
        let extension = if rate.is_ofdm() {
            self.extension
        } else {
            Duration::ZERO
        };
        rate.duration(octets) + extension
    }

    /// Returns the rate of the frame that answers one at this rate: the fastest basic rate that is not faster and of the
    /// same modulation, else the slowest (section 10.6.6.5.2).
    pub fn response_rate(&self, rate: Rate) -> Rate {
        let fits = |basic: &&Rate| basic.kbps() <= rate.kbps();
        let alike = |basic: &&Rate| basic.is_ofdm() == rate.is_ofdm() && fits(basic);
        let mut basic = self.basic.iter();
        let found = basic.clone().rfind(alike).or_else(|| basic.rfind(fits));
        *found.unwrap_or(&self.basic[0])
    }

    /// Returns the time after a frame at this rate within which its answer must have begun (section 10.3.2.11).
    pub(crate) fn answer_timeout(&self, rate: Rate) -> Duration {
        // aPHY-RX-START-Delay of OFDM is 25 us; that of DSSS is its preamble.
        let start = self
            .response_rate(rate)
            .preamble()
            .max(Duration::from_micros(25));
        self.sifs + self.slot + start
    }
}

fn rates(kbps: &[u32]) -> Vec<Rate> {
    let mut found = vec![];
    for one in kbps {
        found.extend(Rate::legacy(*one, false));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interframe_spaces_are_those_of_the_standard() {
        assert_eq!(Phy::b().difs(), Duration::from_micros(50));
        assert_eq!(Phy::g().difs(), Duration::from_micros(28));
        assert_eq!(Phy::a().difs(), Duration::from_micros(34));
        assert_eq!(Phy::b().eifs(), Duration::from_micros(364));
        assert_eq!(Phy::a().eifs(), Duration::from_micros(16 + 34 + 44));
    }

    #[test]
    fn an_answer_is_at_the_fastest_basic_rate_that_is_not_faster() {
        let rate = |kbps| Rate::legacy(kbps, false).unwrap();
        let phy = Phy::g();
        assert_eq!(phy.response_rate(rate(54_000)), rate(24_000));
        assert_eq!(phy.response_rate(rate(18_000)), rate(12_000));
        assert_eq!(phy.response_rate(rate(9000)), rate(6000));
        assert_eq!(
            phy.response_rate(Rate::ht(7, false, false).unwrap()),
            rate(24_000)
        );
        // Nothing is slower: the slowest.
        assert_eq!(phy.response_rate(rate(1000)), rate(6000));
    }
}
