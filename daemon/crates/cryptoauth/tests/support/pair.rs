//! Two nodes in virtual time, and reproducible randomness.
#![allow(dead_code)]

use std::ops::Range;
use std::time::Duration;

use cryptoauth::{Credential, Local, Opened, PrivateKey, Refused, Session, HEAD_ROOM, TAIL_ROOM};
use rand_core::{CryptoRng, RngCore};

/// SplitMix64 (Steele and others, 2014): one sequence for each seed, only for tests.
pub struct Sequence(pub u64);

impl RngCore for Sequence {
    fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn fill_bytes(&mut self, octets: &mut [u8]) {
        octets.fill_with(|| self.next_u64() as u8);
    }
}

impl CryptoRng for Sequence {}

/// One end of a session.
pub struct End {
    pub local: Local,
    pub session: Session,
    pub rng: Sequence,
}

/// How the ends authenticate themselves.
#[derive(Clone, Copy, Debug)]
pub enum Auth {
    None,
    Password,
    Login,
}

/// Returns the two ends of a session. If `lower` is set, the first has the lower public key.
pub fn pair(seed: u64, lower: bool, auth: Auth) -> [End; 2] {
    let mut rng = Sequence(seed);
    let mut locals = [local(&mut rng), local(&mut rng)];
    if (locals[0].public() < locals[1].public()) != lower {
        locals.swap(0, 1);
    }
    let credential = match auth {
        Auth::None => None,
        Auth::Password => Some(Credential::password(b"open sesame")),
        Auth::Login => Some(Credential::login(b"ali baba", b"open sesame")),
    };
    for local in &mut locals {
        local
            .users
            .add(Some(b"ali baba"), b"open sesame", None)
            .unwrap();
    }
    let keys = [*locals[1].public(), *locals[0].public()];
    let mut seeds = [rng.next_u64(), rng.next_u64()].into_iter();
    let mut keys = keys.into_iter();
    locals.map(|local| {
        let peer = keys.next().unwrap();
        let required = credential.is_some();
        let session =
            Session::new(&local, peer, credential.clone(), required, Duration::ZERO).unwrap();
        End {
            local,
            session,
            rng: Sequence(seeds.next().unwrap()),
        }
    })
}

pub fn local(rng: &mut Sequence) -> Local {
    let mut key = [0; 32];
    rng.fill_bytes(&mut key);
    Local::new(PrivateKey::from_octets(key))
}

impl End {
    pub fn seal(&mut self, now: Duration, content: &[u8]) -> Vec<u8> {
        let (mut space, content) = with_room(content);
        let sealed = self
            .session
            .seal(&self.local, now, &mut self.rng, &mut space, content);
        space[sealed.expect("room for it")].to_vec()
    }

    pub fn open(&mut self, now: Duration, frame: &[u8]) -> Result<(Vec<u8>, Opened), Refused> {
        let mut frame = frame.to_vec();
        let opened = self.session.open(&self.local, now, &mut frame)?;
        Ok((frame[opened.content.clone()].to_vec(), opened))
    }
}

/// Returns a buffer with `content` and the space that a frame needs around it, and where the content is.
pub fn with_room(content: &[u8]) -> (Vec<u8>, Range<usize>) {
    let mut space = vec![0; HEAD_ROOM];
    space.extend_from_slice(content);
    space.resize(space.len() + TAIL_ROOM, 0);
    (space, HEAD_ROOM..HEAD_ROOM + content.len())
}
