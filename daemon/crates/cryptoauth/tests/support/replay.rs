//! The recorded link between a and b: frames, secrets, plaintexts.
#![allow(dead_code)]

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use cryptoauth::{Ciphers, Credential, Local, Portable, PrivateKey, HEAD_ROOM, TAIL_ROOM};
use rand_core::{CryptoRng, RngCore};

use crate::support::{hex, hex_octets, octets, vectors};

/// Octets of the headers of LINUX_SLL2, IPv4 and UDP.
const SLL2: usize = 20;
const IP_UDP: usize = 28;

thread_local! {
    static CIPHERS: Cell<&'static dyn Ciphers> = const { Cell::new(&Portable) };
}

/// Replays with the portable ciphers, and with those of libsodium if this machine has it. Continuous integration has
/// it.
pub fn with_each_cipher(replay: impl Fn()) {
    replay();
    match sodium::load() {
        Ok(sodium) => CIPHERS.set(sodium),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            return eprintln!("not replayed with libsodium: {error}");
        }
    }
    replay();
}

/// The sender of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    A,
    B,
}

pub struct Recorded {
    pub from: Side,
    pub frame: Vec<u8>,
}

/// Predetermined randomness.
pub struct Script(pub VecDeque<u8>);

impl Script {
    pub fn new(parts: &[&[u8]]) -> Self {
        Self(parts.concat().into())
    }
}

impl RngCore for Script {
    fn next_u32(&mut self) -> u32 {
        unreachable!("only octets are drawn")
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("only octets are drawn")
    }

    fn fill_bytes(&mut self, octets: &mut [u8]) {
        octets.fill_with(|| self.0.pop_front().expect("no more randomness was recorded"));
    }
}

impl CryptoRng for Script {}

impl Side {
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    fn letter(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// Returns the node as it was configured: its key, and the login and password that it accepts.
    pub fn local(self, recording: &str) -> Local {
        let text = vectors(&format!("{recording}.{}.keys.json", self.letter()));
        let string = |name: &str| {
            let after = text
                .split(&format!("\"{name}\": \""))
                .nth(1)
                .expect("a member");
            after.split('"').next().expect("a string").to_owned()
        };
        let key = PrivateKey::from_octets(hex(&string("privateKey")));
        let mut local = Local::with_ciphers(key, CIPHERS.get());
        let (login, password) = (string("user"), string("password"));
        local
            .users
            .add(Some(login.as_bytes()), password.as_bytes(), None)
            .unwrap();
        local
    }

    /// Returns the credential that a shows to b.
    pub fn credential(self) -> Option<Credential> {
        (self == Self::A).then(|| Credential::login(b"login-b", b"password-of-b"))
    }

    /// Returns the lines of the recorded secrets as names and values.
    pub fn secrets(self, recording: &str) -> Vec<BTreeMap<String, String>> {
        let text = vectors(&format!("{recording}.{}.secrets.txt", self.letter()));
        let line = |line: &str| {
            let pairs = line
                .split_whitespace()
                .filter_map(|word| word.split_once('='));
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect()
        };
        text.lines().map(line).collect()
    }

    /// Returns the temporary private keys in the order in which they were made.
    pub fn temporary_keys(self, recording: &str) -> VecDeque<[u8; 32]> {
        let secrets = self.secrets(recording);
        let keys = secrets.iter().filter_map(|line| line.get("temp_private"));
        keys.map(|key| hex(key)).collect()
    }
}

/// Returns the frames of a recording in order.
pub fn recorded(recording: &str) -> Vec<Recorded> {
    let capture = octets(&format!("{recording}.pcap"));
    let mut rest = &capture[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (packet, after) = rest[16..].split_at(length);
        rest = after;
        let from = if packet[SLL2 + 15] == 1 {
            Side::A
        } else {
            Side::B
        };
        frames.push(Recorded {
            from,
            frame: packet[SLL2 + IP_UDP..].to_vec(),
        });
    }
    frames
}

/// Returns the plaintexts of the link's frames in order, as decrypted by another program.
pub fn link_plaintexts(recording: &str) -> Vec<Vec<u8>> {
    let text = vectors(&format!("{recording}.decoded.txt"));
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("link plaintext="));
    lines.map(hex_octets).collect()
}

/// Returns a buffer with `content` and the space that a frame needs around it, and where the content is.
pub fn with_room(content: &[u8]) -> (Vec<u8>, std::ops::Range<usize>) {
    let mut space = vec![0; HEAD_ROOM];
    space.extend_from_slice(content);
    space.resize(space.len() + TAIL_ROOM, 0);
    (space, HEAD_ROOM..HEAD_ROOM + content.len())
}
