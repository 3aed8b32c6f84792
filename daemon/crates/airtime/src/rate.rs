//! Bit rates, the time that a frame takes at each, and the signal that it needs.

use core::time::Duration;

/// Bits that every OFDM frame has beside its octets: the SERVICE field and the tail.
const SERVICE_AND_TAIL_BITS: usize = 16 + 6;
/// Highest HT modulation and coding scheme with equal modulation on all streams.
const MCS_MAX: u8 = 31;
/// Data bits of an OFDM symbol on 20 MHz for one stream (table 19-27), and on 40 MHz (table 19-31).
const HT20_BITS: [u32; 8] = [26, 52, 78, 104, 156, 208, 234, 260];
const HT40_BITS: [u32; 8] = [54, 108, 162, 216, 324, 432, 486, 540];
/// Ratio of signal and noise in dB at which a tenth of the frames of 1000 octets is lost, by HT scheme. It is the
/// required sensitivity (table 19-23) over the noise of 20 MHz with the standard's margins of 10 and 5 dB.
const HT_NEEDS: [f64; 8] = [4.0, 7.0, 9.0, 12.0, 16.0, 20.0, 21.0, 22.0];

/// A bit rate, with what decides how long its preamble is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dsss { kbps: u32, short: bool },
    Ofdm { kbps: u32 },
    Ht { mcs: u8, wide: bool, short_gi: bool },
}

impl Rate {
    /// Returns the DSSS, CCK or OFDM rate of that many kbit/s; `None` if 802.11b/g has no such rate.
    ///
    /// `short` is the short preamble (section 16.2.2.3), which 1 Mbit/s and OFDM do not have.
    pub fn legacy(kbps: u32, short: bool) -> Option<Self> {
        match kbps {
            1000 => Some(Self(Kind::Dsss { kbps, short: false })),
            2000 | 5500 | 11_000 => Some(Self(Kind::Dsss { kbps, short })),
            6000 | 9000 | 12_000 | 18_000 | 24_000 | 36_000 | 48_000 | 54_000 => {
                Some(Self(Kind::Ofdm { kbps }))
            }
            _ => None,
        }
    }

    /// Returns the HT rate of a scheme (0 to 31) on 20 MHz, or on 40 MHz if `wide`; `None` beyond that.
    pub fn ht(mcs: u8, wide: bool, short_gi: bool) -> Option<Self> {
        let kind = Kind::Ht {
            mcs,
            wide,
            short_gi,
        };
        (mcs <= MCS_MAX).then_some(Self(kind))
    }

    /// Returns whether it is an HT rate, at which frames may be aggregated.
    pub fn is_ht(self) -> bool {
        matches!(self.0, Kind::Ht { .. })
    }

    /// Returns whether it is an OFDM rate (802.11g, a or n) rather than one of 802.11b.
    pub fn is_ofdm(self) -> bool {
        !matches!(self.0, Kind::Dsss { .. })
    }

    /// Returns the rate of the octets in kbit/s.
    pub fn kbps(self) -> u32 {
        match self.0 {
            Kind::Dsss { kbps, .. } | Kind::Ofdm { kbps } => kbps,
            Kind::Ht { short_gi, .. } => {
                let bits = self.symbol_bits();
                if short_gi {
                    bits * 10_000 / 36
                } else {
                    bits * 1000 / 4
                }
            }
        }
    }

    /// Returns how long a frame of so many octets takes with its preamble, without the signal extension.
    pub fn duration(self, octets: usize) -> Duration {
        Duration::from_nanos(match self.0 {
            Kind::Dsss { kbps, short } => {
                let preamble = if short { 96_000 } else { 192_000 };
                let bits = octets as u64 * 8;
                // Section 16.2.3.5: the LENGTH field counts whole microseconds.
                preamble + (bits * 1000).div_ceil(u64::from(kbps)) * 1000
            }
            Kind::Ofdm { .. } => 20_000 + self.symbols(octets) * 4000,
            Kind::Ht { short_gi, .. } => {
                let data = if short_gi {
                    (self.symbols(octets) * 3600).next_multiple_of(4000)
                } else {
                    self.symbols(octets) * 4000
                };
                self.ht_preamble() + data
            }
        })
    }

    /// Returns the ratio of signal and noise in dB at which a tenth of the frames of 1000 octets is lost.
    ///
    /// For OFDM it follows from the required sensitivity (table 17-18) as for HT. For 802.11b the figures are rounded
    /// from the same consideration, with the gain of the spreading at 1 and 2 Mbit/s.
    pub fn needs_db(self) -> f64 {
        match self.0 {
            Kind::Dsss { kbps, .. } => match kbps {
                1000 => 0.0,
                2000 => 3.0,
                5500 => 6.0,
                _ => 9.0,
            },
            Kind::Ofdm { kbps } => match kbps {
                6000 => 4.0,
                9000 => 5.0,
                12_000 => 7.0,
                18_000 => 9.0,
                24_000 => 12.0,
                36_000 => 16.0,
                48_000 => 20.0,
                _ => 21.0,
            },
            Kind::Ht { mcs, wide, .. } => {
                let streams = f64::from(mcs / 8);
                HT_NEEDS[usize::from(mcs % 8)] + if wide { 3.0 } else { 0.0 } + 3.0 * streams
            }
        }
    }

    /// Returns the slowest time in which a receiver notices that a frame has begun: its preamble and header.
    pub(crate) fn preamble(self) -> Duration {
        match self.0 {
            Kind::Dsss { short: true, .. } => Duration::from_micros(96),
            Kind::Dsss { .. } => Duration::from_micros(192),
            _ => Duration::from_micros(20),
        }
    }

    fn symbols(self, octets: usize) -> u64 {
        let bits = (SERVICE_AND_TAIL_BITS + octets * 8) as u64;
        bits.div_ceil(u64::from(self.symbol_bits()))
    }

    /// Returns the data bits of one OFDM symbol.
    fn symbol_bits(self) -> u32 {
        match self.0 {
            Kind::Dsss { kbps, .. } | Kind::Ofdm { kbps } => kbps * 4 / 1000,
            Kind::Ht { mcs, wide, .. } => {
                let bits = if wide { HT40_BITS } else { HT20_BITS };
                bits[usize::from(mcs % 8)] * (u32::from(mcs / 8) + 1)
            }
        }
    }

    /// Returns the preamble of the HT-mixed format in nanoseconds (section 19.3.9.2).
    fn ht_preamble(self) -> u64 {
        let Kind::Ht { mcs, .. } = self.0 else {
            return 0;
        };
        // L-STF, L-LTF, L-SIG, HT-SIG and HT-STF, then one long training field for each stream, but four for three.
        let training = match mcs / 8 {
            0 => 1,
            1 => 2,
            _ => 4,
        };
        (8 + 8 + 4 + 8 + 4 + 4 * training) * 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(rate: Option<Rate>, octets: usize) -> f64 {
        rate.unwrap().duration(octets).as_nanos() as f64 / 1000.0
    }

    #[test]
    fn the_time_of_a_frame_is_that_of_the_standard() {
        // An acknowledgement at 1 Mbit/s, and the textbook's frame of 1536 octets at 11 and 54 Mbit/s.
        assert_eq!(micros(Rate::legacy(1000, false), 14), 192.0 + 112.0);
        assert_eq!(micros(Rate::legacy(11_000, false), 1536), 192.0 + 1118.0);
        assert_eq!(micros(Rate::legacy(11_000, true), 1536), 96.0 + 1118.0);
        assert_eq!(micros(Rate::legacy(54_000, false), 1536), 20.0 + 57.0 * 4.0);
        assert_eq!(micros(Rate::legacy(6000, false), 14), 20.0 + 6.0 * 4.0);
        assert_eq!(micros(Rate::ht(7, false, false), 1536), 36.0 + 48.0 * 4.0);
        assert_eq!(micros(Rate::ht(15, false, false), 1536), 40.0 + 24.0 * 4.0);
        assert_eq!(micros(Rate::ht(7, false, true), 1536), 36.0 + 176.0);
        assert_eq!(micros(Rate::ht(7, true, false), 1536), 36.0 + 23.0 * 4.0);
    }

    #[test]
    fn the_preamble_of_1_mbit_is_always_long() {
        assert_eq!(Rate::legacy(1000, true), Rate::legacy(1000, false));
    }

    #[test]
    fn rates_that_do_not_exist_are_refused() {
        assert_eq!(Rate::legacy(7000, false), None);
        assert_eq!(Rate::legacy(0, false), None);
        assert_eq!(Rate::ht(32, false, false), None);
    }

    #[test]
    fn the_rate_of_a_scheme_is_that_of_the_table() {
        assert_eq!(Rate::ht(7, false, false).unwrap().kbps(), 65_000);
        assert_eq!(Rate::ht(7, false, true).unwrap().kbps(), 72_222);
        assert_eq!(Rate::ht(15, true, true).unwrap().kbps(), 300_000);
    }
}
