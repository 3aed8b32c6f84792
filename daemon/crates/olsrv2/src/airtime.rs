//! The directional airtime metric of a link, from what its link layer measures (RFC 7779).
//!
//! L_in_metric is the airtime that a bit takes: 2^21 for 1 kbit/s without loss, less in proportion to the rate,
//! more in proportion to the transmissions that a delivery takes, at most [`MAXIMUM_LOSS`] times as much. Beyond the
//! RFC each transmission costs [`ACCESS`], which no bit rate makes shorter: of two fast paths the one with fewer hops
//! is taken, although rate control, which learns from the frames sent, has judged equal links differently.
//!
//! Theory of operation. A rate jitters with each frame, and a metric that followed it would move routes and flood
//! TCs all the time. So a measurement passes two stages. The smoothed airtime moves towards it with the time constant
//! [`SMOOTHING`], however often is measured. The metric advertised follows the smoothed airtime only when that has left the
//! band of [`BAND`] around it, and not more often than once in [`PAUSE`]. Whatever stays within such a band never
//! changes the metric; whatever jitters wildly changes it once in a pause at the most.

use core::num::NonZeroU64;
use core::time::Duration;

use nhdp::Time;
use rfc5444::Metric;

/// Airtime of a lossless link of 1 bit/s: 2^24 / DAT_MAXIMUM_LOSS at DAT_MINIMUM_BITRATE, which is 1 kbit/s (RFC 7779,
/// section 10.2).
const AIRTIME_AT_1_BIT: u64 = (1 << 21) * 1000;
/// What getting at the channel costs, whatever the rate: about 150 us of contention, preamble and acknowledgement
/// for a frame of 12,000 bits, as much airtime as those bits take at 80 Mbit/s.
pub const ACCESS: u32 = 26;
/// DAT_MAXIMUM_LOSS, the most by which loss multiplies airtime (RFC 7779, section 6).
pub const MAXIMUM_LOSS: u32 = 8;
/// Time constant of the smoothing: ten looks at 200 ms each.
pub const SMOOTHING: Duration = Duration::from_secs(2);
/// The metric advertised stands while the smoothed airtime is neither greater nor less by more than this ratio.
pub const BAND: (u64, u64) = (5, 4);
/// The shortest time between two changes of the metric advertised: each costs a HELLO and a TC.
pub const PAUSE: Duration = Duration::from_secs(1);
/// Fraction bits of the smoothed airtime, so that fast links are not smoothed in steps of a whole metric.
const FRACTION_BITS: u32 = 8;

/// What was measured of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Usable bit rate in bit/s.
    pub bit_rate: NonZeroU64,
    /// Transmissions, repeated ones included; 0: none were counted, or `bit_rate` takes loss into account.
    pub attempts: u32,
    /// Frames among them that were acknowledged.
    pub delivered: u32,
}

impl Measurement {
    /// The airtime of a bit, with [`FRACTION_BITS`].
    fn airtime(self) -> u64 {
        let (lowest, highest) = (u64::from(Metric::MIN.get()), u64::from(Metric::MAX.get()));
        // At most 2^40; the product below has up to 72 bits.
        let access = u64::from(ACCESS) << FRACTION_BITS;
        let lossless = (AIRTIME_AT_1_BIT << FRACTION_BITS) / self.bit_rate + access;
        let worst = lossless * u64::from(MAXIMUM_LOSS);
        let repeated = u128::from(lossless) * u128::from(self.attempts);
        let airtime = match (self.attempts, self.delivered) {
            (0, _) => lossless,
            (_, 0) => worst,
            (_, delivered) => u64::try_from(repeated / u128::from(delivered)).unwrap_or(worst),
        };
        let airtime = airtime.clamp(lossless, worst);
        airtime.clamp(lowest << FRACTION_BITS, highest << FRACTION_BITS)
    }
}

/// The metric of one link, damped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Airtime {
    smoothed: Option<(u64, Time)>,
    advertised: Option<(Metric, Time)>,
}

impl Airtime {
    /// Takes in a measurement made at `now` and gives the metric to announce.
    pub fn measure(&mut self, now: Time, measurement: Measurement) -> Metric {
        let smoothed = self.smooth(now, measurement.airtime());
        match self.advertised {
            Some((metric, since)) if now < since + PAUSE || within_band(smoothed, metric) => metric,
            _ => {
                let metric = round(smoothed);
                self.advertised = Some((metric, now));
                metric
            }
        }
    }

    /// The metric advertised; `None` until something was measured.
    pub fn metric(&self) -> Option<Metric> {
        self.advertised.map(|(metric, _)| metric)
    }

    fn smooth(&mut self, now: Time, airtime: u64) -> u64 {
        let smoothed = match self.smoothed {
            None => airtime,
            Some((old, since)) => {
                let weight = now.saturating_sub(since).min(100 * SMOOTHING).as_millis() as u64;
                let rest = SMOOTHING.as_millis() as u64;
                (old * rest + airtime * weight) / (rest + weight)
            }
        };
        self.smoothed = Some((smoothed, now));
        smoothed
    }
}

fn within_band(smoothed: u64, metric: Metric) -> bool {
    let advertised = u64::from(metric.get()) << FRACTION_BITS;
    let (more, less) = BAND;
    smoothed * less <= advertised * more && advertised * less <= smoothed * more
}

fn round(smoothed: u64) -> Metric {
    let rounded = (smoothed + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS;
    u32::try_from(rounded)
        .ok()
        .and_then(Metric::new)
        .unwrap_or(Metric::MAX)
}
