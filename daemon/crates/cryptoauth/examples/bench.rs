//! Measures how fast frames are sealed and opened, and how long handshakes take. Run: `cargo run --release -p
//! cryptoauth --example bench [OCTETS]`.

use std::time::{Duration, Instant};

use cryptoauth::noise::{Link, Request, Timestamp, MESSAGE_ROOM};
use cryptoauth::{Local, PrivateKey, Session, HEAD_ROOM, TAIL_ROOM};
use rand_core::{CryptoRng, RngCore};

const NOW: Duration = Duration::ZERO;
/// Duration of each measurement.
const SPAN: Duration = Duration::from_secs(2);
/// Repetitions in a batch.
const BATCH: u32 = 16;
const DEFAULT_OCTETS: usize = 1304;

/// No randomness at all, which suffices for a benchmark.
struct Counter(u64);

impl RngCore for Counter {
    fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }

    fn next_u64(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    fn fill_bytes(&mut self, octets: &mut [u8]) {
        octets.fill_with(|| self.next_u64() as u8);
    }
}

impl CryptoRng for Counter {}

fn main() {
    let argument = std::env::args().nth(1);
    let octets = argument.map_or(DEFAULT_OCTETS, |octets| octets.parse().expect("octets"));
    let locals = [1, 2].map(|octet| Local::new(PrivateKey::from_octets([octet; 32])));
    handshakes(&locals);
    println!("frames of {octets} octets of content, sealed and opened by one thread:");
    let mut sessions = sessions(&locals);
    frames(
        "CryptoAuth (XSalsa20-Poly1305)",
        octets,
        |space, content| {
            let [first, second] = &mut sessions;
            let frame = first
                .seal(&locals[0], NOW, &mut Counter(1), space, content)
                .expect("room");
            second
                .open(&locals[1], NOW, &mut space[frame])
                .expect("authentic");
        },
    );
    let mut links = links(&locals);
    frames("Noise (ChaCha20-Poly1305)", octets, |space, content| {
        let frame = links[0].seal(NOW, space, content).expect("room");
        links[1]
            .open(&locals[1], NOW, &mut space[frame])
            .expect("authentic");
    });
}

/// Returns the seconds per repetition in the fastest of many short batches, because other programs may use the
/// processor.
fn seconds(mut action: impl FnMut()) -> f64 {
    let begun = Instant::now();
    let mut quickest = f64::MAX;
    while begun.elapsed() < SPAN {
        let start = Instant::now();
        (0..BATCH).for_each(|_| action());
        quickest = quickest.min(start.elapsed().as_secs_f64());
    }
    quickest / f64::from(BATCH)
}

fn frames(name: &str, octets: usize, mut action: impl FnMut(&mut [u8], std::ops::Range<usize>)) {
    let mut space = vec![0; HEAD_ROOM + octets + TAIL_ROOM];
    let each = seconds(|| action(&mut space, HEAD_ROOM..HEAD_ROOM + octets));
    let megabits = 8e-6 * octets as f64 / each;
    println!("  {name}: {megabits:.0} Mbit/s, {:.0} frames/s", 1.0 / each);
}

fn handshakes(locals: &[Local; 2]) {
    let mut hello = [0; HEAD_ROOM + 1];
    let new = |end: usize| Session::new(&locals[end], *locals[1 - end].public(), None, false, NOW);
    let mut session = new(0).expect("a good key");
    let content = HEAD_ROOM..HEAD_ROOM + 1;
    session
        .seal(&locals[0], NOW, &mut Counter(1), &mut hello, content)
        .expect("room");
    let answered = seconds(|| {
        assert!(Session::answer(&locals[1], false, NOW, &mut hello.clone()).is_ok());
    });
    hello[HEAD_ROOM] ^= 1;
    let forged = seconds(|| {
        assert!(Session::answer(&locals[1], false, NOW, &mut hello.clone()).is_err());
    });
    let mut session = new(1).expect("a good key");
    let known = seconds(|| {
        assert!(session.open(&locals[1], NOW, &mut hello.clone()).is_err());
    });
    println!("a HELLO that makes a session: {:.1} us", 1e6 * answered);
    println!(
        "a forged HELLO: {:.1} us, on a session {:.1} us",
        1e6 * forged,
        1e6 * known
    );
}

fn sessions(locals: &[Local; 2]) -> [Session; 2] {
    let peer = |end: usize| *locals[1 - end].public();
    let new = |end| Session::new(&locals[end], peer(end), None, false, NOW).expect("a good key");
    let mut sessions = [new(0), new(1)];
    for step in 0..4 {
        let (from, to) = (step % 2, 1 - step % 2);
        let (mut space, content) = ([0; HEAD_ROOM + 1], HEAD_ROOM..HEAD_ROOM + 1);
        let rng = &mut Counter(step as u64);
        let frame = sessions[from].seal(&locals[from], NOW, rng, &mut space, content);
        let frame = &mut space[frame.expect("room")];
        sessions[to]
            .open(&locals[to], NOW, frame)
            .expect("authentic");
    }
    sessions
}

fn links(locals: &[Local; 2]) -> [Link; 2] {
    let new = |end: usize| Link::new(*locals[1 - end].public(), None, 1, 22);
    let mut links = [new(0), new(1)];
    let (mut init, mut reply) = ([0; MESSAGE_ROOM], [0; MESSAGE_ROOM]);
    let rng = &mut Counter(0);
    let length = links[0].initiate(&locals[0], NOW, rng, Timestamp([0; 12]), &mut init);
    let request = Request::open(&locals[1], false, &init[..length.expect("room")]);
    let length = links[1].answer(request.expect("authentic"), NOW, rng, &mut reply);
    let reply = &mut reply[..length.expect("a first request")];
    links[0].open(&locals[0], NOW, reply).expect("authentic");
    links
}
