//! Who hears whom how well: from positions, or given link by link.

use alloc::vec;
use alloc::vec::Vec;

use crate::rate::Rate;
use crate::StationId;

/// How a signal weakens with the distance: the log-distance model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Propagation {
    /// Power of every transmitter, in dBm.
    pub power_dbm: f64,
    /// Loss over the first metre, in dB; 40 at 2.4 GHz.
    pub loss_1m_db: f64,
    /// How fast the signal falls: 2 in free space, 3 to 4 between houses and trees.
    pub exponent: f64,
    /// Noise of a receiver with its own, in dBm; about -95 on 20 MHz.
    pub noise_dbm: f64,
}

impl Default for Propagation {
    fn default() -> Self {
        Self {
            power_dbm: 20.0,
            loss_1m_db: 40.0,
            exponent: 3.0,
            noise_dbm: -95.0,
        }
    }
}

impl Propagation {
    /// Returns the ratio of signal and noise in dB over so many metres. Below one metre nothing changes.
    pub fn snr_db(&self, metres: f64) -> f64 {
        let loss = self.loss_1m_db + 10.0 * self.exponent * libm::log10(metres.max(1.0));
        self.power_dbm - loss - self.noise_dbm
    }
}

/// The ratio of signal and noise from each station to each other one.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach {
    stations: usize,
    /// Signal over noise, as a factor; 0: nothing arrives.
    ratio: Vec<f64>,
}

impl Reach {
    /// Returns stations that do not hear each other.
    pub fn none(stations: usize) -> Self {
        Self {
            stations,
            ratio: vec![0.0; stations * stations],
        }
    }

    /// Returns stations that all hear each other, this many dB above the noise.
    pub fn all(stations: usize, snr_db: f64) -> Self {
        let mut reach = Self::none(stations);
        for from in 0..stations {
            for to in from + 1..stations {
                reach.link(from, to, snr_db);
            }
        }
        reach
    }

    /// Returns stations in a line: each hears its neighbours `snr_db` above the noise, and senses those up to
    /// `senses` places away by a signal too weak to be read at any rate.
    pub fn line(stations: usize, snr_db: f64, senses: usize) -> Self {
        let mut reach = Self::none(stations);
        for from in 0..stations {
            for to in from + 1..stations.min(from + senses.max(1) + 1) {
                let db = if to == from + 1 {
                    snr_db
                } else {
                    SENSED_ONLY_DB
                };
                reach.link(from, to, db);
            }
        }
        reach
    }

    /// Returns stations at positions in metres.
    pub fn positions(positions: &[(f64, f64)], propagation: &Propagation) -> Self {
        let mut reach = Self::none(positions.len());
        for (from, (x, y)) in positions.iter().enumerate() {
            for (to, (other_x, other_y)) in positions.iter().enumerate().skip(from + 1) {
                let metres = libm::hypot(x - other_x, y - other_y);
                reach.link(from, to, propagation.snr_db(metres));
            }
        }
        reach
    }

    /// Makes two stations hear each other this many dB above the noise. Unknown stations are ignored.
    pub fn link(&mut self, first: StationId, second: StationId, snr_db: f64) {
        self.path(first, second, snr_db);
        self.path(second, first, snr_db);
    }

    /// Makes one station hear another, and leaves the other direction as it is. Unknown stations are ignored.
    pub fn path(&mut self, from: StationId, to: StationId, snr_db: f64) {
        if from < self.stations && to < self.stations && from != to {
            self.ratio[from * self.stations + to] = libm::pow(10.0, snr_db / 10.0);
        }
    }

    /// Returns the number of stations.
    pub fn stations(&self) -> usize {
        self.stations
    }

    /// Returns signal over noise as a factor.
    pub(crate) fn ratio(&self, from: StationId, to: StationId) -> f64 {
        self.ratio[from * self.stations + to]
    }

    /// Returns signal over noise in dB; minus infinity if nothing arrives.
    pub fn snr_db(&self, from: StationId, to: StationId) -> f64 {
        decibels(self.ratio(from, to))
    }
}

/// A signal that carrier sense detects and no rate can read: between the two thresholds of [`crate::Settings`].
const SENSED_ONLY_DB: f64 = -2.0;

pub(crate) fn decibels(ratio: f64) -> f64 {
    if ratio > 0.0 {
        10.0 * libm::log10(ratio)
    } else {
        f64::NEG_INFINITY
    }
}

/// Returns the probability that a frame of so many octets is lost at this ratio of signal and noise.
///
/// A tenth of 1000 octets is lost where [`Rate::needs_db`] says; each dB more loses a tenth of that, each dB less ten
/// times as much. So the change from all to nothing takes about 3 dB, as with the codes of 802.11 without fading.
pub(crate) fn loss(rate: Rate, octets: usize, snr_db: f64) -> f64 {
    let above = snr_db - rate.needs_db();
    let of_1000 = libm::pow(10.0, -1.0 - above).min(1.0);
    1.0 - libm::pow(1.0 - of_1000, octets as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_total_below_and_nothing_above_what_the_rate_needs() {
        let rate = Rate::legacy(24_000, false).unwrap();
        assert!(loss(rate, 1500, f64::NEG_INFINITY) == 1.0);
        assert!(loss(rate, 1500, 10.5) > 0.9);
        assert!((loss(rate, 1000, 12.0) - 0.1).abs() < 1e-9);
        assert!(loss(rate, 1500, 20.0) < 1e-6);
        assert!(loss(rate, 100, 12.0) < loss(rate, 1500, 12.0));
    }

    #[test]
    fn a_signal_falls_by_the_exponent_with_each_decade() {
        let air = Propagation::default();
        assert!((air.snr_db(1.0) - 75.0).abs() < 1e-9);
        assert!((air.snr_db(100.0) - 15.0).abs() < 1e-9);
        assert_eq!(air.snr_db(0.0), air.snr_db(1.0));
    }

    #[test]
    fn a_path_is_one_way_and_unknown_stations_are_ignored() {
        let mut reach = Reach::none(2);
        reach.path(0, 1, 20.0);
        reach.link(0, 7, 20.0);
        reach.link(1, 1, 20.0);
        assert!((reach.snr_db(0, 1) - 20.0).abs() < 1e-9);
        assert_eq!(reach.snr_db(1, 0), f64::NEG_INFINITY);
        assert_eq!(reach.snr_db(1, 1), f64::NEG_INFINITY);
    }
}
