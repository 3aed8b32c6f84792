//! Frames that two nodes make of the input's content, damaged as the input says: what nothing protects may be
//! accepted, all else is refused and changes nothing. Or the input is a frame itself.
//!
//! The input is an octet that chooses the frame, an octet with the number of damages, three octets for each (position,
//! what to change), and the content. A high first octet makes the rest a frame.
#![no_main]

use std::time::Duration;

use cryptoauth::noise::{Cookies, Link, Request, Timestamp, MESSAGE_ROOM};
use cryptoauth::{Credential, Local, PrivateKey, Session, HEAD_ROOM, TAIL_ROOM};
use libfuzzer_sys::fuzz_target;
use rand_core::{CryptoRng, RngCore};

const NOW: Duration = Duration::from_secs(1);
const RAW: u8 = 0x80;
const VERSION: u32 = 22;

/// Randomness that is the same in every run.
struct Counter(u8);

impl RngCore for Counter {
    fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }

    fn next_u64(&mut self) -> u64 {
        let mut octets = [0; 8];
        self.fill_bytes(&mut octets);
        u64::from_le_bytes(octets)
    }

    fn fill_bytes(&mut self, octets: &mut [u8]) {
        self.0 = self.0.wrapping_add(1);
        octets.fill(self.0);
    }
}

impl CryptoRng for Counter {}

/// Both ends of a session of each kind.
struct Ends {
    locals: [Local; 2],
    sessions: [Session; 2],
    links: [Link; 2],
    rng: Counter,
}

fuzz_target!(|input: &[u8]| {
    let [first, rest @ ..] = input else {
        return;
    };
    let mut ends = ends();
    if first & RAW != 0 {
        raw(&mut ends, rest);
    } else if let [count, rest @ ..] = rest {
        let damages = rest.len().min(3 * usize::from(count % 8));
        let (damages, content) = rest.split_at(damages);
        if first & 1 == 0 {
            session(&mut ends, usize::from(first >> 1) % 4, damages, content);
        } else {
            link(&mut ends, usize::from(first >> 1) % 3, damages, content);
        }
    }
});

fn ends() -> Ends {
    let credential = || Some(Credential::login(b"login", b"password"));
    // None of the keys that the generator draws.
    let mut locals = [0xf1, 0xf2].map(|octet| Local::new(PrivateKey::from_octets([octet; 32])));
    for local in &mut locals {
        local.users.add(Some(b"login"), b"password", None).unwrap();
    }
    let keys = [*locals[0].public(), *locals[1].public()];
    let session = |end: usize| {
        Session::new(&locals[end], keys[1 - end], credential(), true, NOW).expect("a good key")
    };
    let sessions = [session(0), session(1)];
    let links = [
        Link::new(keys[1], credential(), 1, VERSION),
        Link::new(keys[0], None, 2, VERSION),
    ];
    Ends {
        locals,
        sessions,
        links,
        rng: Counter(0),
    }
}

/// Any octets at all.
fn raw(ends: &mut Ends, frame: &[u8]) {
    let local = &ends.locals[0];
    for require_auth in [false, true] {
        let mut frame = frame.to_vec();
        let _ = Session::answer(local, require_auth, NOW, &mut frame);
        let _ = Request::open(local, require_auth, &frame);
    }
    let _ = Cookies::default().check(local, NOW, b"here", frame);
    assert!(ends.sessions[0]
        .open(local, NOW, &mut frame.to_vec())
        .is_err());
    assert!(ends.links[0].open(local, NOW, &mut frame.to_vec()).is_err());
}

/// Frame number `which` of a session: HELLO, KEY, the first data of each end.
fn session(ends: &mut Ends, which: usize, damages: &[u8], content: &[u8]) {
    let Ends {
        locals,
        sessions,
        rng,
        ..
    } = ends;
    for step in 0..=which {
        let (from, to) = (step % 2, 1 - step % 2);
        let content = if content.is_empty() {
            b"content"
        } else {
            content
        };
        let (mut space, range) = with_room(content);
        let sealed = sessions[from].seal(&locals[from], NOW, rng, &mut space, range);
        let frame = &mut space[sealed.expect("there is room")];
        if step == which
            && damage(frame, damages, &|octet, bits| {
                unprotected(which, octet, bits)
            })
        {
            let before = sessions[to].stage();
            assert!(
                sessions[to].open(&locals[to], NOW, frame).is_err(),
                "{which}"
            );
            assert_eq!(sessions[to].stage(), before);
        } else {
            let opened = sessions[to]
                .open(&locals[to], NOW, frame)
                .expect("it is authentic");
            assert_eq!(&frame[opened.content], content);
        }
    }
}

/// Which bits of a handshake's octet nothing protects: repeated or not, fields that are not used.
fn unprotected(which: usize, octet: usize, bits: u8) -> bool {
    which < 2 && (octet == 3 && bits == 1 || (12..16).contains(&octet))
}

/// Frame number `which` of a link: INIT, REPLY, data.
fn link(ends: &mut Ends, which: usize, damages: &[u8], content: &[u8]) {
    let Ends {
        locals, links, rng, ..
    } = ends;
    let mut space = [0; MESSAGE_ROOM];
    let length = links[0].initiate(&locals[0], NOW, rng, Timestamp([1; 12]), &mut space);
    let frame = &mut space[..length.expect("there is room")];
    let mac2 = frame.len() - 16;
    let damaged = which == 0 && damage(frame, damages, &|octet, _| octet >= mac2);
    let request = Request::open(&locals[1], true, frame);
    assert_eq!(request.is_err(), damaged);
    let Ok(request) = request else {
        return;
    };
    let mut reply = [0; MESSAGE_ROOM];
    let length = links[1]
        .answer(request, NOW, rng, &mut reply)
        .expect("a first request");
    let reply = &mut reply[..length];
    let mac2 = reply.len() - 16;
    let damaged = which == 1 && damage(reply, damages, &|octet, _| octet >= mac2);
    assert_eq!(links[0].open(&locals[0], NOW, reply).is_err(), damaged);
    if damaged {
        return;
    }
    if which < 2 {
        return;
    }
    let (mut space, range) = with_room(content);
    let sealed = links[0]
        .seal(NOW, &mut space, range)
        .expect("there are keys");
    let frame = &mut space[sealed];
    let damaged = damage(frame, damages, &|_, _| false);
    assert_eq!(links[1].open(&locals[1], NOW, frame).is_err(), damaged);
}

/// Changes a frame; says whether something changed that is protected.
fn damage(frame: &mut [u8], damages: &[u8], unprotected: &dyn Fn(usize, u8) -> bool) -> bool {
    let before = frame.to_vec();
    for damage in damages.chunks_exact(3) {
        let position = usize::from(u16::from_be_bytes([damage[0], damage[1]])) % frame.len();
        frame[position] ^= damage[2];
    }
    let mut changes = before
        .iter()
        .zip(&*frame)
        .map(|(before, after)| before ^ after)
        .enumerate();
    changes.any(|(octet, bits)| bits != 0 && !unprotected(octet, bits))
}

fn with_room(content: &[u8]) -> (Vec<u8>, std::ops::Range<usize>) {
    let space = [&[0; HEAD_ROOM][..], content, &[0; TAIL_ROOM]].concat();
    (space, HEAD_ROOM..HEAD_ROOM + content.len())
}
