//! The AEADs that seal and open data frames, as a trait, so that a caller can supply a faster implementation.

use chacha20poly1305::ChaCha20Poly1305;
use crypto_secretbox::aead::{AeadInPlace, KeyInit};
use crypto_secretbox::XSalsa20Poly1305;

use crate::KEY_LENGTH;

/// Octets of a tag.
pub const TAG_LENGTH: usize = 16;

/// A tag of Poly1305.
pub type Tag = [u8; TAG_LENGTH];
/// A key of either cipher.
pub type Key = [u8; KEY_LENGTH];

/// Seals and opens data frames in place. Handshakes are always sealed by [`Portable`].
///
/// An implementation takes the same time for all keys and contents of a length. `open_*` returns whether the tag is
/// right. If it is not, `content` must be unchanged, because other keys may be tried on it.
pub trait Ciphers: Sync {
    /// Returns the name of the implementation.
    fn name(&self) -> &'static str;

    /// Seals with XSalsa20-Poly1305, as `crypto_secretbox` of NaCl does. CryptoAuth uses it.
    fn seal_xsalsa20(&self, key: &Key, nonce: &[u8; 24], content: &mut [u8]) -> Tag;

    /// Opens what [`Ciphers::seal_xsalsa20`] has sealed. Returns whether the tag is right.
    fn open_xsalsa20(&self, key: &Key, nonce: &[u8; 24], content: &mut [u8], tag: &Tag) -> bool;

    /// Seals with ChaCha20-Poly1305 (RFC 8439, section 2.8) without additional data. Noise uses it.
    fn seal_chacha20(&self, key: &Key, nonce: &[u8; 12], content: &mut [u8]) -> Tag;

    /// Opens what [`Ciphers::seal_chacha20`] has sealed. Returns whether the tag is right.
    fn open_chacha20(&self, key: &Key, nonce: &[u8; 12], content: &mut [u8], tag: &Tag) -> bool;
}

/// The ciphers of RustCrypto, which run on every machine.
pub struct Portable;

/// The ciphers can seal 2^38 octets under one nonce. No frame is that long.
const SHORT: &str = "a frame is shorter than 2^38 octets";

impl Ciphers for Portable {
    fn name(&self) -> &'static str {
        "portable"
    }

    fn seal_xsalsa20(&self, key: &Key, nonce: &[u8; 24], content: &mut [u8]) -> Tag {
        let cipher = XSalsa20Poly1305::new(key.into());
        let tag = cipher.encrypt_in_place_detached(nonce.into(), &[], content);
        tag.expect(SHORT).into()
    }

    fn open_xsalsa20(&self, key: &Key, nonce: &[u8; 24], content: &mut [u8], tag: &Tag) -> bool {
        let cipher = XSalsa20Poly1305::new(key.into());
        let opened = cipher.decrypt_in_place_detached(nonce.into(), &[], content, tag.into());
        opened.is_ok()
    }

    fn seal_chacha20(&self, key: &Key, nonce: &[u8; 12], content: &mut [u8]) -> Tag {
        let cipher = ChaCha20Poly1305::new(key.into());
        let tag = cipher.encrypt_in_place_detached(nonce.into(), &[], content);
        tag.expect(SHORT).into()
    }

    fn open_chacha20(&self, key: &Key, nonce: &[u8; 12], content: &mut [u8], tag: &Tag) -> bool {
        let cipher = ChaCha20Poly1305::new(key.into());
        let opened = cipher.decrypt_in_place_detached(nonce.into(), &[], content, tag.into());
        opened.is_ok()
    }
}
