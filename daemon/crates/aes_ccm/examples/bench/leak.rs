//! Whether the time depends on secrets: samples of two classes in random order, compared by Welch's t.
//!
//! A value of |t| beyond 4.5 says that the classes differ; one below says that so many samples do not show it. The last
//! row compares octets one by one and stops at the first difference, so it must show a difference.

use std::hint::black_box;
use std::time::Instant;

use aes_ccm::Ccm;

use crate::contenders::{nonce, NONCE};

const TAG: usize = 16;
const OCTETS: usize = 256;
/// The slowest tenth of the samples is left out: they were interrupted.
const KEPT: f64 = 0.9;

/// Splitmix64, which is random enough to choose classes and contents.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Fills octets with random ones, or with zeros in the same way.
    fn fill(&mut self, octets: &mut [u8], any: bool) {
        let mask = black_box(u8::from(any).wrapping_neg());
        octets.fill_with(|| self.next() as u8 & mask);
    }
}

pub fn run(samples: usize) {
    let random = &mut Random(1);
    let mut ccm = Ccm::new(&[0x2b; 16], TAG, NONCE).expect("allowed lengths");
    let (mut content, mut tag) = ([0; OCTETS], [0; TAG]);

    let t = welch(samples, random, |second, random| {
        let drawn = random.next();
        random.fill(&mut content, second);
        timed(|| ccm.seal(&nonce::<NONCE>(drawn), &[], &mut content, &mut tag))
    });
    report("sealing zeros or any content", t);

    let t = welch(samples, random, |second, random| {
        let mut key = [0; 16];
        random.fill(&mut key, second);
        ccm = Ccm::new(&key, TAG, NONCE).expect("allowed lengths");
        timed(|| ccm.seal(&nonce::<NONCE>(1), &[], &mut content, &mut tag))
    });
    report("sealing by a key of zeros or any key", t);

    let mut sealed = [0; OCTETS];
    ccm.seal(&nonce::<NONCE>(1), &[], &mut sealed, &mut tag)
        .expect("allowed lengths");
    let t = welch(samples, random, |second, _| {
        content = sealed;
        let mut wrong = tag;
        wrong[if second { TAG - 1 } else { 0 }] ^= 1;
        timed(|| ccm.open(&nonce::<NONCE>(1), &[], &mut content, &wrong))
    });
    report(
        "opening with the first or the last octet of the tag wrong",
        t,
    );

    let t = welch(samples, random, |second, _| {
        content = sealed;
        content[if second { OCTETS - 1 } else { 0 }] ^= 1;
        timed(|| {
            black_box(&sealed)
                .iter()
                .zip(black_box(&content))
                .all(|(one, other)| black_box(one == other))
        })
    });
    report("comparing until the first difference, which must show", t);
}

/// Returns nanoseconds.
fn timed<T>(action: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    black_box(action());
    start.elapsed().as_nanos() as f64
}

fn welch(
    samples: usize,
    random: &mut Random,
    mut sample: impl FnMut(bool, &mut Random) -> f64,
) -> f64 {
    let mut taken: Vec<(bool, f64)> = Vec::with_capacity(samples);
    for _ in 0..samples {
        let second = random.next() & 1 == 1;
        taken.push((second, sample(second, random)));
    }
    let mut times: Vec<f64> = taken.iter().map(|(_, time)| *time).collect();
    times.sort_by(f64::total_cmp);
    let limit = times[(times.len() as f64 * KEPT) as usize];
    let [first, second] = [false, true].map(|class| {
        let of_class =
            |(kind, time): &(bool, f64)| (*kind == class && *time <= limit).then_some(*time);
        mean_and_error(&taken.iter().filter_map(of_class).collect::<Vec<f64>>())
    });
    (first.0 - second.0) / (first.1 + second.1).sqrt()
}

/// Returns the mean, and its variance.
fn mean_and_error(times: &[f64]) -> (f64, f64) {
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    (mean, squares / (count - 1.0) / count)
}

fn report(what: &str, t: f64) {
    println!("{{\"what\": \"{what}\", \"t\": {:.2}}}", t.abs());
}
