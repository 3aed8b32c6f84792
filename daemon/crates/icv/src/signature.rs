//! Reading and verifying what a message says about its signature.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use ed25519_dalek::{Signature, VerifyingKey};
use rfc5444::iana::message_tlv;
use rfc5444::{covered_octets, DecodeError, Tlv};
use sha2::{Digest, Sha512};

use crate::{Fault, DOMAIN, KEY_LENGTH, SIGNATURE_LENGTH};

/// The first type extension that RFC 7182 (sections 13.7, 13.8 and 13.10) reserves for experiments: 252 to 255.
const EXPERIMENTAL: u8 = 252;
/// The type extension of the ICV message TLV: a key and a signature.
pub const ICV_EXTENSION: u8 = EXPERIMENTAL;
/// The type extension of the TIMESTAMP message TLV: a counter and its age.
pub const TIMESTAMP_EXTENSION: u8 = EXPERIMENTAL;

/// The first octet of a node's address, and the bit in which its locator differs (fc00::/8 and fd00::/8).
const ADDRESS_OCTET: u8 = 0xfc;
const LOCATOR_BIT: u8 = 0x01;

/// What a message says about its signature, not verified yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The Ed25519 public key.
    pub key: [u8; KEY_LENGTH],
    /// The counter of the message.
    pub counter: u64,
    /// How much the counter exceeds the lowest one that the sender has used lately.
    pub age: u32,
    signature: [u8; SIGNATURE_LENGTH],
}

impl Claim {
    /// Reads the claim from the TLVs of a message; `None` when it has neither TLV. Those with other type extensions
    /// are of other protocols.
    ///
    /// # Errors
    ///
    /// [`Fault::Count`] and [`Fault::Length`].
    pub fn read(tlvs: &[Tlv]) -> Result<Option<Self>, Fault> {
        let icv = only(tlvs, message_tlv::ICV, ICV_EXTENSION)?;
        let timestamp = only(tlvs, message_tlv::TIMESTAMP, TIMESTAMP_EXTENSION)?;
        let (icv, timestamp) = match (icv, timestamp) {
            (None, None) => return Ok(None),
            (Some(icv), Some(timestamp)) => (icv, timestamp),
            _ => return Err(Fault::Count),
        };
        let length = Fault::Length(timestamp.len());
        let (counter, age) = timestamp.split_first_chunk().ok_or(length)?;
        let age = age.try_into().map_err(|_| length)?;
        let length = Fault::Length(icv.len());
        let (key, signature) = icv.split_first_chunk().ok_or(length)?;
        let signature = signature.try_into().map_err(|_| length)?;
        Ok(Some(Self {
            key: *key,
            counter: u64::from_be_bytes(*counter),
            age: u32::from_be_bytes(age),
            signature,
        }))
    }

    /// Returns the lowest counter that the sender has used lately.
    pub fn floor(&self) -> u64 {
        self.counter.saturating_sub(self.age.into())
    }

    /// Returns what makes `message`, which makes this claim, the same message as another one: the octets that are
    /// covered, the key and the signature. Everybody can change the rest and its signature still verifies: the hop limit
    /// and count, other ICV TLVs, and the encoding and position of this one.
    ///
    /// # Errors
    ///
    /// A malformed message header or message TLV block.
    pub fn essence(&self, message: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut octets = covered_octets(message)?;
        octets.extend(self.key);
        octets.extend(self.signature);
        Ok(octets)
    }

    /// Verifies that the key has signed `message`, and that it may speak for `originator`, the message's.
    ///
    /// # Errors
    ///
    /// [`Fault::Address`] before any arithmetic on the signature, so that a false address costs one hash and one point.
    /// [`Fault::Key`] for a key that is not on the curve, has a small order or is not in its only encoding.
    /// [`Fault::Signature`] also for a message
    /// whose header or TLV block is malformed.
    pub fn verify(&self, originator: IpAddr, message: &[u8]) -> Result<(), Fault> {
        let key = VerifyingKey::from_bytes(&self.key).map_err(|_| Fault::Key)?;
        if key.is_weak() || !is_canonical(&self.key) {
            return Err(Fault::Key);
        }
        if !may_speak(&key, originator) {
            return Err(Fault::Address);
        }
        let signed = signed_octets(message).map_err(|_| Fault::Signature)?;
        key.verify_strict(&signed, &Signature::from_bytes(&self.signature))
            .map_err(|_| Fault::Signature)
    }
}

/// Returns whether an address is the address or the locator of a key. False for a key that is not on the curve.
pub fn is_hash_of(address: Ipv6Addr, key: &[u8; KEY_LENGTH]) -> bool {
    VerifyingKey::from_bytes(key).is_ok_and(|key| is_of(address, &key))
}

/// Returns whether a message has an ICV TLV of another type extension. No signature covers it (RFC 7182, section 9.1), so
/// beside a signature it is whatever the last one who passed the message on has made of it.
pub fn has_other_icv(tlvs: &[Tlv]) -> bool {
    let is_other = |tlv: &Tlv| tlv.typ == message_tlv::ICV && tlv.ext != ICV_EXTENSION;
    tlvs.iter().any(is_other)
}

/// Returns the hash of a key: the first 16 octets of SHA-512(SHA-512(X25519 public key)). It is the address of the key's
/// owner where it begins with 0xfc. `None` for a key that is not on the curve.
pub fn address_of(key: &[u8; KEY_LENGTH]) -> Option<Ipv6Addr> {
    VerifyingKey::from_bytes(key).ok().map(|key| hash(&key))
}

/// Returns the octets that a signature covers.
///
/// # Errors
///
/// A malformed message header or message TLV block.
pub(crate) fn signed_octets(message: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut octets = DOMAIN.to_vec();
    octets.extend(covered_octets(message)?);
    Ok(octets)
}

/// Returns whether an originator is the hash of the key that may speak for it: whether it is in fc00::/7.
pub fn is_hash(originator: IpAddr) -> bool {
    match originator {
        IpAddr::V6(address) => address.octets()[0] & !LOCATOR_BIT == ADDRESS_OCTET,
        IpAddr::V4(_) => false,
    }
}

/// Returns whether a key may speak for an originator. In fc00::/7 the originator itself says so.
fn may_speak(key: &VerifyingKey, originator: IpAddr) -> bool {
    match originator {
        IpAddr::V6(address) if is_hash(originator) => is_of(address, key),
        _ => true,
    }
}

/// The locator differs from the address in one bit.
fn is_of(address: Ipv6Addr, key: &VerifyingKey) -> bool {
    let mut octets = address.octets();
    octets[0] &= !LOCATOR_BIT;
    octets[0] == ADDRESS_OCTET && octets == hash(key).octets()
}

fn hash(key: &VerifyingKey) -> Ipv6Addr {
    let digest = Sha512::digest(Sha512::digest(key.to_montgomery().as_bytes()));
    let mut octets = [0; 16];
    octets.copy_from_slice(&digest[..16]);
    octets.into()
}

/// Returns whether the y coordinate in a key is less than 2^255 - 19, as RFC 8032, section 5.1.3, demands.
fn is_canonical(key: &[u8; KEY_LENGTH]) -> bool {
    let [lowest, between @ .., highest] = key;
    *lowest < 0xed || between.iter().any(|octet| *octet != 0xff) || highest & 0x7f != 0x7f
}

/// Returns the value of the only TLV of this type and type extension.
fn only(tlvs: &[Tlv], typ: u8, ext: u8) -> Result<Option<&[u8]>, Fault> {
    let mut found = tlvs.iter().filter(|tlv| tlv.is(typ, ext));
    match (found.next(), found.next()) {
        (first, None) => Ok(first.map(|tlv| tlv.value.as_slice())),
        _ => Err(Fault::Count),
    }
}
