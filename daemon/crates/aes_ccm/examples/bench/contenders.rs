//! What is compared: three implementations of AES-128-CCM with CCMP's lengths, and the other AEADs of this project.

use aes::Aes128;
use aes_ccm::Ccm;
use ccm::aead::{AeadInPlace, KeyInit};
use ccm::consts::{U13, U8};
use cryptoauth::{Ciphers, Portable};

use crate::openssl;

/// Octets of the tag and of the nonce: M and 15 - L of CCMP (IEEE 802.11, 12.5.3.1).
pub const TAG: usize = 8;
pub const NONCE: usize = 13;
const KEY: [u8; 16] = [0x2b; 16];

/// A tag; of the ciphers with a shorter one, zeros follow.
pub type Tag = [u8; 16];

/// A cipher with a key. The number of a message becomes its nonce.
pub trait Contender: Send {
    fn name(&self) -> &'static str;
    fn seal(&mut self, number: u64, associated: &[u8], content: &mut [u8]) -> Tag;
    fn open(&mut self, number: u64, associated: &[u8], content: &mut [u8], tag: &Tag) -> bool;
}

/// Returns all contenders that this machine has.
pub fn all() -> Vec<Box<dyn Contender>> {
    let mut all: Vec<Box<dyn Contender>> = vec![Box::new(Ours::new()), Box::new(RustCrypto::new())];
    for mode in [openssl::CCM, openssl::GCM] {
        match openssl::Aead::new(mode, &KEY) {
            Ok(aead) => all.push(Box::new(aead)),
            Err(lacks) => eprintln!("bench: {lacks}"),
        }
    }
    match sodium::load() {
        Ok(sodium) => all.push(Box::new(Overlay(sodium, "ChaCha20-Poly1305, libsodium"))),
        Err(lacks) => eprintln!("bench: {lacks}"),
    }
    all.push(Box::new(Overlay(&Portable, "ChaCha20-Poly1305, portable")));
    all
}

/// Returns a nonce of this length, which ends with the number.
pub fn nonce<const LENGTH: usize>(number: u64) -> [u8; LENGTH] {
    let mut nonce = [0; LENGTH];
    nonce[LENGTH - 8..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// The crate under test.
pub struct Ours(Ccm);

impl Ours {
    pub fn new() -> Self {
        Self(Ccm::new(&KEY, TAG, NONCE).expect("allowed lengths"))
    }
}

impl Contender for Ours {
    fn name(&self) -> &'static str {
        "AES-128-CCM, meshsec"
    }

    fn seal(&mut self, number: u64, associated: &[u8], content: &mut [u8]) -> Tag {
        let mut tag = Tag::default();
        let sealed = self.0.seal(
            &nonce::<NONCE>(number),
            associated,
            content,
            &mut tag[..TAG],
        );
        sealed.expect("allowed lengths");
        tag
    }

    fn open(&mut self, number: u64, associated: &[u8], content: &mut [u8], tag: &Tag) -> bool {
        self.0
            .open(&nonce::<NONCE>(number), associated, content, &tag[..TAG])
            .is_ok()
    }
}

struct RustCrypto(ccm::Ccm<Aes128, U8, U13>);

impl RustCrypto {
    fn new() -> Self {
        Self(ccm::Ccm::new(&KEY.into()))
    }
}

impl Contender for RustCrypto {
    fn name(&self) -> &'static str {
        "AES-128-CCM, RustCrypto"
    }

    fn seal(&mut self, number: u64, associated: &[u8], content: &mut [u8]) -> Tag {
        let nonce = nonce::<NONCE>(number);
        let sealed = self
            .0
            .encrypt_in_place_detached(&nonce.into(), associated, content);
        let mut tag = Tag::default();
        tag[..TAG].copy_from_slice(&sealed.expect("not too long"));
        tag
    }

    fn open(&mut self, number: u64, associated: &[u8], content: &mut [u8], tag: &Tag) -> bool {
        let nonce = nonce::<NONCE>(number);
        let tag = tag[..TAG].into();
        self.0
            .decrypt_in_place_detached(&nonce.into(), associated, content, tag)
            .is_ok()
    }
}

/// What the overlay seals its data frames with. It has no associated data.
struct Overlay<'a>(&'a dyn Ciphers, &'static str);

impl Contender for Overlay<'_> {
    fn name(&self) -> &'static str {
        self.1
    }

    fn seal(&mut self, number: u64, _: &[u8], content: &mut [u8]) -> Tag {
        self.0.seal_chacha20(&[0x2b; 32], &nonce(number), content)
    }

    fn open(&mut self, number: u64, _: &[u8], content: &mut [u8], tag: &Tag) -> bool {
        self.0
            .open_chacha20(&[0x2b; 32], &nonce(number), content, tag)
    }
}
