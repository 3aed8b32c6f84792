//! AES-CCM: counter mode with CBC-MAC (RFC 3610, NIST SP 800-38C), with every tag and nonce length, for AES-128, AES-192
//! and AES-256.
//!
//! # Theory of operation
//!
//! CCM enciphers two kinds of blocks: those of a chain, each of which needs the one before (CBC-MAC), and counters, which
//! need nothing. A processor with AES instructions waits for each step of the chain, and AES without such instructions
//! computes several blocks in the time of one. So both are enciphered together: the chain takes one of the cipher's
//! parallel lanes, and counters take the others (`lanes.rs`).
//!
//! # Contract
//!
//! [`Ccm::seal`] and [`Ccm::open`] work in the caller's buffer and allocate nothing. No input makes them panic. Time and
//! memory accesses depend on lengths alone, not on key, nonce, content or tag, as long as those of the `aes` crate do:
//! it uses the processor's AES instructions (on arm64 if compiled with `--cfg aes_armv8`), or computes without tables.
//! A key is overwritten when its [`Ccm`] is dropped, and the key stream when a call ends; moving a [`Ccm`] may leave a
//! copy where it was.
//!
//! The caller must use each nonce once for a key: a second use reveals the exclusive or of two contents, and ends what
//! the tag proves. A key may encipher 2^61 blocks (SP 800-38C, section 5.3), and a tag of 4 octets is guessed in 2^32
//! attempts, so the caller bounds both.
#![no_std]
#![forbid(unsafe_code)]

mod error;
mod formatting;
mod lanes;

use aes::cipher::{BlockEncrypt, KeyInit};
use aes::{Aes128Enc, Aes192Enc, Aes256Enc};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

pub use error::{LengthError, OpenError, SetupError};
use formatting::Format;
use lanes::{Block, Direction, Message};

/// Octets of the longest tag.
pub const MAX_TAG_LENGTH: usize = 16;

/// A key, with the lengths of the tag and of the nonce.
pub struct Ccm {
    cipher: Cipher,
    format: Format,
}

/// The key schedule. Decryption needs only the cipher's forward direction too (RFC 3610, section 2.5).
enum Cipher {
    Aes128(Aes128Enc),
    Aes192(Aes192Enc),
    Aes256(Aes256Enc),
}

impl Ccm {
    /// Prepares a key of 16, 24 or 32 octets. `tag_length` is the RFC's M: 4, 6, 8, 10, 12, 14 or 16 octets.
    /// `nonce_length` is 15 - L: 7 to 13 octets, which leave L octets for the content's length.
    ///
    /// # Errors
    ///
    /// The first length that is not allowed.
    pub fn new(key: &[u8], tag_length: usize, nonce_length: usize) -> Result<Self, SetupError> {
        let wrong_key = |_| SetupError::Key(key.len());
        let cipher = match key.len() {
            16 => Cipher::Aes128(Aes128Enc::new_from_slice(key).map_err(wrong_key)?),
            24 => Cipher::Aes192(Aes192Enc::new_from_slice(key).map_err(wrong_key)?),
            _ => Cipher::Aes256(Aes256Enc::new_from_slice(key).map_err(wrong_key)?),
        };
        let format = Format::new(tag_length, nonce_length)?;
        Ok(Self { cipher, format })
    }

    /// Returns the octets of the longest content: 2^(8L) - 1 (RFC 3610, section 2.1).
    #[must_use]
    pub fn max_content(&self) -> u64 {
        self.format.max_content()
    }

    /// Enciphers `content` in place, and writes the tag of it and of `associated` to `tag`.
    ///
    /// # Errors
    ///
    /// The nonce or the tag has another length than the key was prepared for, or the content is too long. Nothing is
    /// changed then.
    pub fn seal(
        &self,
        nonce: &[u8],
        associated: &[u8],
        content: &mut [u8],
        tag: &mut [u8],
    ) -> Result<(), LengthError> {
        self.format
            .check(nonce.len(), content.len() as u64, tag.len())?;
        let mut full = self.run(Direction::Seal, nonce, associated, content);
        tag.copy_from_slice(&full[..tag.len()]);
        full.zeroize();
        Ok(())
    }

    /// Deciphers `content` in place, if `tag` is that of it and of `associated`.
    ///
    /// # Errors
    ///
    /// As [`Ccm::seal`], with nothing changed; or [`OpenError::Forged`], with `content` overwritten by zeros.
    pub fn open(
        &self,
        nonce: &[u8],
        associated: &[u8],
        content: &mut [u8],
        tag: &[u8],
    ) -> Result<(), OpenError> {
        self.format
            .check(nonce.len(), content.len() as u64, tag.len())?;
        let mut full = self.run(Direction::Open, nonce, associated, content);
        let authentic = bool::from(full[..tag.len()].ct_eq(tag));
        full.zeroize();
        if authentic {
            return Ok(());
        }
        content.zeroize();
        Err(OpenError::Forged)
    }

    /// Enciphers or deciphers the content, and returns the whole tag. The lengths have been checked.
    fn run(
        &self,
        direction: Direction,
        nonce: &[u8],
        associated: &[u8],
        content: &mut [u8],
    ) -> [u8; MAX_TAG_LENGTH] {
        let mut tag = Block::default();
        let message = Message {
            first: self
                .format
                .first_block(nonce, !associated.is_empty(), content.len() as u64),
            counter: self.format.counter_block(nonce),
            associated,
            content,
            direction,
            tag: &mut tag,
        };
        match &self.cipher {
            Cipher::Aes128(cipher) => cipher.encrypt_with_backend(message),
            Cipher::Aes192(cipher) => cipher.encrypt_with_backend(message),
            Cipher::Aes256(cipher) => cipher.encrypt_with_backend(message),
        }
        tag.into()
    }
}
