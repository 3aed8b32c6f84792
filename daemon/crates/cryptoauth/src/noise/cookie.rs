//! The MACs of control messages, and cookies (Donenfeld, WireGuard, sections 5.4.4 and 5.4.7).

use core::time::Duration;

use blake2::digest::consts::U16;
use blake2::digest::{FixedOutput, Mac};
use blake2::{Blake2s256, Blake2sMac, Digest};
use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::XChaCha20Poly1305;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::message::{
    addressee, field, index, put_index, Addressee, BODY, CONTROL, COOKIE, COOKIE_LENGTH,
    COOKIE_NONCE, COOKIE_SEALED, FIRST_INDEX, MACS,
};
use crate::auth::Secret;
use crate::{Local, PublicKey, Refused, SealError};

const MAC: usize = MACS / 2;
/// How long a cookie is valid.
const COOKIE_LIFE: Duration = Duration::from_secs(120);
const LABEL_MAC1: &[u8] = b"mac1----";
const LABEL_COOKIE: &[u8] = b"cookie--";

/// A proof that this node receives what is sent to its address, and when it was received.
#[derive(Clone)]
pub(super) struct Cookie {
    value: [u8; MAC],
    received: Duration,
}

impl Cookie {
    pub(super) fn is_good(&self, now: Duration) -> bool {
        now.saturating_sub(self.received) < COOKIE_LIFE
    }

    /// Opens the COOKIE message that answers the message with this first MAC.
    pub(super) fn open(
        responder: &PublicKey,
        mac1: &[u8; MAC],
        now: Duration,
        frame: &[u8],
    ) -> Result<Self, Refused> {
        let mut value = field::<MAC>(frame, COOKIE_SEALED.start);
        let tag = field::<MAC>(frame, COOKIE_SEALED.start + MAC);
        let nonce = field::<24>(frame, COOKIE_NONCE.start);
        let cipher = XChaCha20Poly1305::new((&*label_key(LABEL_COOKIE, responder)).into());
        let opened = cipher.decrypt_in_place_detached(&nonce.into(), mac1, &mut value, &tag.into());
        opened.map_err(|_| Refused::Forged)?;
        Ok(Self {
            value,
            received: now,
        })
    }
}

/// The cookies with which a busy responder makes initiators prove their address. The secret changes every two minutes.
#[derive(Default)]
pub struct Cookies {
    secret: Secret,
    changed: Option<Duration>,
}

impl Cookies {
    /// Checks that an INIT proves that it comes from `source`, the octets of an address and a port.
    ///
    /// # Errors
    ///
    /// [`Refused::CookieRequired`]: send a cookie. [`Refused::Forged`] and others: send no answer.
    pub fn check(
        &self,
        local: &Local,
        now: Duration,
        source: &[u8],
        frame: &[u8],
    ) -> Result<(), Refused> {
        if addressee(frame)? != Addressee::Node {
            return Err(Refused::StrayKey);
        }
        check_mac1(local.public(), frame)?;
        let (covered, mac2) = frame.split_at(frame.len() - MAC);
        let good = self.is_good(now)
            && state(&self.value(source), &covered[BODY..])
                .verify_slice(mac2)
                .is_ok();
        good.then_some(()).ok_or(Refused::CookieRequired)
    }

    /// Writes the COOKIE message for an INIT without a valid cookie. Returns its length in octets.
    ///
    /// # Errors
    ///
    /// [`SealError::Room`], and [`SealError::NoKeys`] if the message is not an INIT.
    pub fn give<R: CryptoRng + ?Sized>(
        &mut self,
        local: &Local,
        now: Duration,
        rng: &mut R,
        source: &[u8],
        frame: &[u8],
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        if addressee(frame) != Ok(Addressee::Node) {
            return Err(SealError::NoKeys);
        }
        let out = out
            .get_mut(..COOKIE_LENGTH)
            .ok_or(SealError::Room(0, COOKIE_LENGTH))?;
        if !self.is_good(now) {
            rng.fill_bytes(&mut *self.secret);
            self.changed = Some(now);
        }
        let mut nonce = [0; 24];
        rng.fill_bytes(&mut nonce);
        let mut value = self.value(source);
        let mac1 = field::<MAC>(frame, frame.len() - MACS);
        let cipher = XChaCha20Poly1305::new((&*label_key(LABEL_COOKIE, local.public())).into());
        let tag = cipher.encrypt_in_place_detached(&nonce.into(), &mac1, &mut value);
        let tag = tag.map_err(|_| SealError::NoKeys)?;
        out[..BODY].copy_from_slice(&CONTROL);
        put_index(out, BODY, COOKIE);
        put_index(out, FIRST_INDEX, index(frame, FIRST_INDEX));
        out[COOKIE_NONCE].copy_from_slice(&nonce);
        out[COOKIE_SEALED][..MAC].copy_from_slice(&value);
        out[COOKIE_SEALED][MAC..].copy_from_slice(&tag);
        Ok(COOKIE_LENGTH)
    }

    fn is_good(&self, now: Duration) -> bool {
        self.changed
            .is_some_and(|changed| now.saturating_sub(changed) < COOKIE_LIFE)
    }

    fn value(&self, source: &[u8]) -> [u8; MAC] {
        state(&*self.secret, source).finalize_fixed().into()
    }
}

/// Refuses a control message whose first MAC was not made for this node.
pub(super) fn check_mac1(own: &PublicKey, frame: &[u8]) -> Result<(), Refused> {
    let (covered, macs) = frame.split_at(frame.len() - MACS);
    let state = state(&*label_key(LABEL_MAC1, own), &covered[BODY..]);
    state
        .verify_slice(&macs[..MAC])
        .map_err(|_| Refused::Forged)
}

/// Writes both MACs of a control message to `receiver`. Without a cookie the second is zero.
pub(super) fn put_macs(receiver: &PublicKey, cookie: Option<&Cookie>, frame: &mut [u8]) {
    let start = frame.len() - MACS;
    let mac1 = state(&*label_key(LABEL_MAC1, receiver), &frame[BODY..start]).finalize_fixed();
    frame[start..start + MAC].copy_from_slice(&mac1);
    let mac2: [u8; MAC] = match cookie {
        Some(cookie) => state(&cookie.value, &frame[BODY..start + MAC])
            .finalize_fixed()
            .into(),
        None => [0; MAC],
    };
    frame[start + MAC..].copy_from_slice(&mac2);
}

/// Returns the first MAC of a control message.
pub(super) fn mac1_of(frame: &[u8]) -> [u8; MAC] {
    field(frame, frame.len() - MACS)
}

/// Returns the state of keyed BLAKE2s with 16 octets of output (RFC 7693) after `data`.
fn state(key: &[u8], data: &[u8]) -> Blake2sMac<U16> {
    let state = <Blake2sMac<U16> as Mac>::new_from_slice(key).expect("keys have 16 or 32 octets");
    state.chain_update(data)
}

fn label_key(label: &[u8], key: &PublicKey) -> Secret {
    let state = Blake2s256::new()
        .chain_update(label)
        .chain_update(key.octets());
    Zeroizing::new(state.finalize().into())
}
