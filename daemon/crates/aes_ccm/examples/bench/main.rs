//! Measures AES-CCM beside other implementations and other ciphers; `make bench-ccm` runs it.
//!
//! - `bench time ROUNDS OCTETS...`: nanoseconds of sealing and opening a message
//! - `bench udp MESSAGES OCTETS...`: messages over UDP between two threads, as in figure 12 of Agosto-Padilla's
//!   dissertation (2016)
//! - `bench network MESSAGES OCTETS...`: the same, as a capture between the two ends would time it
//! - `bench leak SAMPLES`: whether the time depends on secrets, by Welch's t (dudect of Reparaz, Balasch and Verbauwhede)
//!
//! Each line of the output is a JSON object.

mod contenders;
mod leak;
mod openssl;
mod udp;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use contenders::Contender;

/// Octets of the header that is authenticated in the clear, as long as that of CCMP without address 4 and QoS (IEEE
/// 802.11, 12.5.3.3.3).
const ASSOCIATED: [u8; 22] = [0x88; 22];
/// Time of a batch, and how many make a sample: the quickest counts, because other programs may use the processor.
const BATCH: Duration = Duration::from_micros(20);
const BATCHES: usize = 16;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Option<Vec<usize>> = arguments
        .iter()
        .skip(1)
        .map(|text| text.parse().ok())
        .collect();
    match (arguments.first().map(String::as_str), numbers.as_deref()) {
        (Some("time"), Some([rounds, sizes @ ..])) => time(*rounds, sizes),
        (Some("udp"), Some([messages, sizes @ ..])) => return udp::run(*messages, sizes),
        (Some("network"), Some([messages, sizes @ ..])) => return udp::network(*messages, sizes),
        (Some("leak"), Some([samples])) => leak::run(*samples),
        _ => {
            eprintln!(
                "usage: bench time ROUNDS OCTETS... | udp MESSAGES OCTETS... | network MESSAGES OCTETS... | leak SAMPLES"
            );
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Measures every contender in every round, so that none of them has the quieter machine.
fn time(rounds: usize, sizes: &[usize]) {
    let mut contenders = contenders::all();
    for octets in sizes {
        for round in 0..rounds {
            let count = contenders.len();
            for number in 0..count {
                let at = if round % 2 == 0 {
                    number
                } else {
                    count - 1 - number
                };
                measure(contenders[at].as_mut(), *octets);
            }
        }
    }
}

fn measure(contender: &mut dyn Contender, octets: usize) {
    let plain = vec![0x5a; octets];
    let mut content = plain.clone();
    let mut number = 0;
    let sealing = nanoseconds(|| {
        number += 1;
        content.copy_from_slice(&plain);
        black_box(contender.seal(number, &ASSOCIATED, &mut content));
    });
    report(contender.name(), "encryption", octets, sealing);
    content.copy_from_slice(&plain);
    let tag = contender.seal(1, &ASSOCIATED, &mut content);
    let sealed = content.clone();
    let opening = nanoseconds(|| {
        content.copy_from_slice(&sealed);
        assert!(black_box(contender.open(
            1,
            &ASSOCIATED,
            &mut content,
            &tag
        )));
    });
    assert_eq!(content, plain, "{}", contender.name());
    report(contender.name(), "decryption", octets, opening);
}

/// Returns the time of an action in the quickest of several batches.
fn nanoseconds(mut action: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut count = 0;
    while count == 0 || start.elapsed() < BATCH {
        action();
        count += 1;
    }
    let batch = |_| {
        let start = Instant::now();
        (0..count).for_each(|_| action());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    };
    (0..BATCHES).map(batch).fold(f64::MAX, f64::min)
}

fn report(by: &str, what: &str, octets: usize, nanoseconds: f64) {
    println!("{{\"what\": \"{what}\", \"by\": \"{by}\", \"octets\": {octets}, \"ns\": {nanoseconds:.1}}}");
}
