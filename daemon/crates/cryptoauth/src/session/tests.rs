use rand_core::RngCore;

use super::*;
use crate::auth::KIND_NONE;
use crate::header::{Kind, NONCE_LENGTH, SEALED};
use crate::sealed::{handshake_secret, seal};
use crate::PrivateKey;

const NOW: Duration = Duration::ZERO;
const ROOM: usize = HANDSHAKE_OVERHEAD;

/// Octets that differ from all recent ones.
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
        self.0 += 1;
        octets.fill(self.0);
    }
}

impl CryptoRng for Counter {}

fn pair() -> ([Local; 2], [Session; 2]) {
    let locals = [1, 2].map(|octet| Local::new(PrivateKey::from_octets([octet; 32])));
    let new = |end: usize| {
        let peer = *locals[1 - end].public();
        Session::new(&locals[end], peer, None, false, NOW).unwrap()
    };
    let sessions = [new(0), new(1)];
    (locals, sessions)
}

fn seal_one(session: &mut Session, local: &Local) -> [u8; ROOM + 1] {
    let mut space = [0; ROOM + 1];
    session
        .seal(local, NOW, &mut Counter(0), &mut space, ROOM..ROOM + 1)
        .unwrap();
    space
}

#[test]
fn keys_are_given_up_before_their_nonces_are() {
    let (locals, mut sessions) = pair();
    for step in 0..4 {
        let (from, to) = (step % 2, 1 - step % 2);
        let mut space = [0; ROOM + 1];
        let rng = &mut Counter(10 * step as u8);
        let content = ROOM..ROOM + 1;
        let frame = sessions[from].seal(&locals[from], NOW, rng, &mut space, content);
        sessions[to]
            .open(&locals[to], NOW, &mut space[frame.unwrap()])
            .unwrap();
    }
    let [session, _] = &mut sessions;
    let run = session.current.run.as_mut().unwrap();
    run.skip(0xffff_ffef - run.next_nonce());
    let last = seal_one(session, &locals[0]);
    assert_eq!(last[ROOM - DATA_OVERHEAD..][..4], [0xff, 0xff, 0xff, 0xef]);
    let hello = seal_one(session, &locals[0]);
    assert_eq!(
        (&hello[..4], session.stage()),
        (&[0; 4][..], Stage::SentHello)
    );
}

/// Returns a HELLO of the second node with this temporary key.
fn hello_with(locals: &[Local; 2], sessions: &[Session; 2], temporary: &PublicKey) -> [u8; ROOM] {
    let header = Header {
        kind: Kind::Hello,
        lookup: [KIND_NONE; 8],
        unused: [0; 4],
        nonce: [0; NONCE_LENGTH],
        sender: *locals[1].public(),
    };
    let mut frame = [0; ROOM];
    header.encode(temporary, &mut frame);
    let secret = handshake_secret(&sessions[1].permanent, None);
    seal(&secret, &header.nonce, &mut frame[SEALED..]);
    frame
}

#[test]
fn temporary_keys_that_make_no_secret_are_refused() {
    let (locals, mut sessions) = pair();
    seal_one(&mut sessions[0], &locals[0]);
    let own = sessions[0].current.own.as_ref().unwrap().public;
    let (mut one, mut other) = ([0; 32], [0; 32]);
    one[0] = 1;
    other.copy_from_slice(locals[1].public().octets());
    let expected = [
        (PublicKey::from_octets([0; 32]), Err(Refused::WeakKey)),
        (PublicKey::from_octets(one), Err(Refused::WeakKey)),
        (own, Err(Refused::Reflected)),
        (*locals[0].public(), Err(Refused::Reflected)),
        (PublicKey::from_octets(other), Ok(Event::Hello)),
    ];
    for (temporary, expected) in expected {
        let mut frame = hello_with(&locals, &sessions, &temporary);
        sessions[0].current.stage = Stage::SentKey; // in which a HELLO is never stood firm against
        let opened = sessions[0].open(&locals[0], NOW, &mut frame);
        assert_eq!(opened.map(|opened| opened.event), expected, "{temporary}");
    }
}
