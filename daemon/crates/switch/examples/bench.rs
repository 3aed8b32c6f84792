//! Measures how many frames per second one core forwards. The table of frames does not fit into the first-level cache.
//! Run: `cargo run --release -p switch --example bench`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use switch::{forward, Header, Interface, Interfaces, Label};

const FRAMES: usize = 1024;
const FRAME: usize = 1500;
const DURATION: Duration = Duration::from_secs(2);

fn main() {
    let interfaces = every();
    let mut random = fastrand::Rng::with_seed(1);
    let headers: Vec<_> = (0..FRAMES)
        .map(|_| header(&interfaces, &mut random))
        .collect();
    let mut frames = vec![[0; FRAME]; FRAMES];
    let (mut forwarded, started) = (0_u64, Instant::now());
    while started.elapsed() < DURATION {
        for ((source, header), frame) in headers.iter().zip(&mut frames) {
            frame[..Header::LEN].copy_from_slice(header);
            let leaves_by = forward(&interfaces, *source, black_box(frame));
            forwarded += u64::from(black_box(leaves_by).is_ok());
        }
    }
    let rate = forwarded as f64 / started.elapsed().as_secs_f64();
    println!("{rate:.3e} frames/s, {:.1} ns each", 1e9 / rate);
}

/// Returns a path through a switch over random interfaces, with directors of random length.
fn header(interfaces: &Interfaces, random: &mut fastrand::Rng) -> (Interface, [u8; Header::LEN]) {
    loop {
        let source = Interface::new(random.u16(..Interface::COUNT)).unwrap_or(Interface::ROUTER);
        let mut header = Header::new(Label(random.u64(..) >> 12 | 1 << 52)).encode();
        let octets = header;
        if forward(interfaces, source, &mut header).is_ok() {
            return (source, octets);
        }
    }
}

fn every() -> Interfaces {
    let mut interfaces = Interfaces::new();
    while interfaces.add().is_some() {}
    interfaces
}
