//! Measures how long one thread takes to seal, forward and open packets of user data, in the fastest of many batches.

#[path = "../tests/support/mod.rs"]
mod support;

use std::ops::Range;
use std::time::{Duration, Instant};

use overlay_node::{Verdict, HEAD_ROOM, TAIL_ROOM};
use support::{packet, Habits, Mesh, Random, SECOND};

const BATCH: u32 = 2000;
const BATCHES: u32 = 20;

fn main() {
    for length in [64, 1304] {
        for noise in [false, true] {
            let mut bench = Bench::new(length, noise);
            let times = (0..BATCHES).map(|_| bench.batch());
            let best = times.reduce(|a, b| [0, 1, 2].map(|step| a[step].min(b[step])));
            let link = if noise { "Noise" } else { "CryptoAuth" };
            for (step, time) in ["seal", "forward", "open"]
                .iter()
                .zip(best.unwrap_or_default())
            {
                let each = time.as_secs_f64() / f64::from(BATCH);
                let rate = 8.0 * length as f64 / each / 1e6;
                println!(
                    "{link:10} {length:5} octets {step:8} {:6.2} us {rate:7.0} Mbit/s",
                    each * 1e6
                );
            }
        }
    }
}

/// A line of three nodes.
struct Bench {
    mesh: Mesh,
    packet: Vec<u8>,
}

impl Bench {
    fn new(length: usize, noise: bool) -> Self {
        let habits = Habits {
            noise,
            latency: Duration::ZERO,
            ..Habits::default()
        };
        let mut mesh = Mesh::line(3, 1, habits);
        assert_eq!(mesh.pairs_without_data(&[(0, 2), (2, 0)], SECOND * 5), []);
        let mut packet = packet(mesh.address(0), mesh.address(2), 0);
        packet.resize(length, 0);
        packet[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        Self { mesh, packet }
    }

    /// Returns how long each of the three nodes takes for a batch.
    fn batch(&mut self) -> [Duration; 3] {
        let mut buffers: Vec<_> = (0..BATCH).map(|_| self.buffer()).collect();
        let begin = Instant::now();
        for (buffer, range) in &mut buffers {
            self.send(buffer, range);
        }
        let sealed = Instant::now();
        for (buffer, range) in &mut buffers {
            self.pass(1, 0, buffer, range);
        }
        let forwarded = Instant::now();
        for (buffer, range) in &mut buffers {
            self.pass(2, 1, buffer, range);
        }
        let opened = Instant::now();
        self.mesh.run(SECOND / 10);
        [sealed - begin, forwarded - sealed, opened - forwarded]
    }

    fn buffer(&self) -> (Vec<u8>, Range<usize>) {
        let mut buffer = vec![0; HEAD_ROOM];
        buffer.extend(&self.packet);
        buffer.extend([0; TAIL_ROOM]);
        (buffer, HEAD_ROOM..HEAD_ROOM + self.packet.len())
    }

    fn send(&mut self, buffer: &mut [u8], range: &mut Range<usize>) {
        let Mesh {
            now,
            random,
            stations,
            ..
        } = &mut self.mesh;
        let random: &mut Random = random;
        let verdict = stations[0]
            .node
            .send_packet(*now, random, buffer, range.clone());
        *range = place(verdict);
    }

    fn pass(&mut self, node: usize, from: usize, buffer: &mut [u8], range: &mut Range<usize>) {
        let Mesh {
            now,
            random,
            stations,
            ..
        } = &mut self.mesh;
        let (from, by) = (stations[from].link_address, stations[node].interface);
        let node = &mut stations[node].node;
        let verdict = node.receive(*now, random, by, &from, buffer, range.clone());
        *range = place(verdict);
    }
}

fn place(verdict: Verdict) -> Range<usize> {
    match verdict {
        Verdict::Transmit { frame, .. } => frame,
        Verdict::Deliver { packet } => packet,
        Verdict::Nothing => panic!("a packet got lost"),
    }
}
