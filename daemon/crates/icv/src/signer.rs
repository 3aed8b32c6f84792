//! Signing this router's own messages.

use alloc::vec::Vec;
use core::fmt;

use ed25519_dalek::{Signer as _, SigningKey};
use rfc5444::iana::message_tlv;
use rfc5444::{with_message_tlv, EncodeError, Tlv};

use crate::signature::{signed_octets, ICV_EXTENSION, TIMESTAMP_EXTENSION};
use crate::KEY_LENGTH;

/// A private key that signs messages. It is never formatted, and it is overwritten when it is dropped.
pub struct Signer(SigningKey);

impl Signer {
    /// Returns the signer of an Ed25519 private key (the seed of RFC 8032, section 5.1.5).
    pub fn new(seed: &[u8; KEY_LENGTH]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Returns the public key.
    pub fn public(&self) -> [u8; KEY_LENGTH] {
        self.0.verifying_key().to_bytes()
    }

    /// Returns the message with its signature. `counter` must be greater than that of every message signed before, and
    /// exceeds the lowest one used lately by `age`.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Message`] if `message` is not exactly one message, whose address blocks are not examined. A message
    /// that becomes longer than 65535 octets.
    pub fn sign(&self, message: &[u8], counter: u64, age: u32) -> Result<Vec<u8>, EncodeError> {
        let mut value = counter.to_be_bytes().to_vec();
        value.extend(age.to_be_bytes());
        let timestamp = Tlv::new(message_tlv::TIMESTAMP, TIMESTAMP_EXTENSION, value);
        let dated = with_message_tlv(message, &timestamp)?;
        let signed = signed_octets(&dated)?;
        let mut value = self.public().to_vec();
        value.extend(self.0.sign(&signed).to_bytes());
        with_message_tlv(&dated, &Tlv::new(message_tlv::ICV, ICV_EXTENSION, value))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}
