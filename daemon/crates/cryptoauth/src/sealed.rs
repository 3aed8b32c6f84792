//! XSalsa20-Poly1305 (crypto_secretbox of NaCl) in place, and the secrets for it.

use core::ops::Range;

use salsa20::cipher::consts::U10;
use salsa20::hsalsa;
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use crate::auth::Secret;
use crate::window::Window;
use crate::{Ciphers, Portable, Received, Refused, SealError, Tag};

/// Octets of a tag.
pub(crate) const TAG: usize = crate::TAG_LENGTH;
/// Octets of a data frame in addition to its content: nonce and tag.
pub(crate) const DATA_OVERHEAD: usize = 4 + TAG;
/// Lowest nonce of a data frame. Lower ones are handshakes.
pub(crate) const FIRST_DATA_NONCE: u32 = 4;
/// Nonce from which on the keys must be renewed.
const NONCE_LIMIT: u32 = 0xffff_fff0;

/// Returns the key of a handshake frame, from an X25519 secret and, if there is one, a password.
pub(crate) fn handshake_secret(agreed: &Secret, password: Option<&Secret>) -> Secret {
    match password {
        None => run_secret(agreed),
        Some(password) => {
            let state = Sha256::new()
                .chain_update(**agreed)
                .chain_update(**password);
            Zeroizing::new(state.finalize().into())
        }
    }
}

/// Returns the key of crypto_box: HSalsa20 of an X25519 secret and zeros (Bernstein, Cryptography in NaCl, section 8).
fn run_secret(agreed: &Secret) -> Secret {
    let mut key = hsalsa::<U10>((&**agreed).into(), &Default::default());
    let secret = Zeroizing::new(key.into());
    key.as_mut_slice().zeroize();
    secret
}

/// Seals the octets after the first [`TAG`] octets of `space`, and writes the tag into those.
pub(crate) fn seal(secret: &Secret, nonce: &[u8; 24], space: &mut [u8]) {
    seal_with(&Portable, secret, nonce, space);
}

/// Opens in place what [`seal`] made. If the tag is wrong, `space` is unchanged.
pub(crate) fn open(secret: &Secret, nonce: &[u8; 24], space: &mut [u8]) -> Result<(), Refused> {
    open_with(&Portable, secret, nonce, space)
}

fn seal_with(ciphers: &dyn Ciphers, key: &Secret, nonce: &[u8; 24], space: &mut [u8]) {
    let (tag, content) = space.split_at_mut(TAG);
    tag.copy_from_slice(&ciphers.seal_xsalsa20(key, nonce, content));
}

fn open_with(
    ciphers: &dyn Ciphers,
    key: &Secret,
    nonce: &[u8; 24],
    space: &mut [u8],
) -> Result<(), Refused> {
    let (tag, content) = space
        .split_first_chunk_mut::<TAG>()
        .ok_or(Refused::Forged)?;
    let tag: &Tag = tag;
    let is_authentic = ciphers.open_xsalsa20(key, nonce, content, tag);
    is_authentic.then_some(()).ok_or(Refused::Forged)
}

/// The keys of a session in both directions, their nonces and the replay window.
pub(crate) struct Run {
    ciphers: &'static dyn Ciphers,
    key: Secret,
    /// Whether this node started the handshake. It determines the form of the nonces.
    initiator: bool,
    next_nonce: u32,
    window: Window,
}

impl Run {
    /// Returns the keys from the secret that two temporary keys agree on. The first frame has `next_nonce`.
    pub(crate) fn new(
        ciphers: &'static dyn Ciphers,
        agreed: &Secret,
        initiator: bool,
        next_nonce: u32,
    ) -> Self {
        Self {
            ciphers,
            key: run_secret(agreed),
            initiator,
            next_nonce,
            window: Window::default(),
        }
    }

    pub(crate) fn next_nonce(&self) -> u32 {
        self.next_nonce
    }

    pub(crate) fn received(&self) -> Received {
        self.window.received()
    }

    /// Returns whether the nonces are used up.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.next_nonce >= NONCE_LIMIT
    }

    /// Skips nonces, as nodes do when a session is established.
    pub(crate) fn skip(&mut self, nonces: u32) {
        self.next_nonce = self.next_nonce.saturating_add(nonces);
    }

    /// Seals `content`, a part of `space`, into a data frame. Returns where the frame is.
    pub(crate) fn seal(
        &mut self,
        space: &mut [u8],
        content: Range<usize>,
    ) -> Result<Range<usize>, SealError> {
        if self.is_exhausted() {
            return Err(SealError::NoKeys);
        }
        if content.is_empty() {
            return Err(SealError::Empty);
        }
        let start = frame_start(space, &content, DATA_OVERHEAD)?;
        let frame = &mut space[start..content.end];
        frame[..4].copy_from_slice(&self.next_nonce.to_be_bytes());
        seal_with(
            self.ciphers,
            &self.key,
            &nonce(self.next_nonce, self.initiator),
            &mut frame[4..],
        );
        self.next_nonce += 1;
        Ok(start..content.end)
    }

    /// Opens a data frame in place. Its content follows the first [`DATA_OVERHEAD`] octets.
    pub(crate) fn open(&mut self, number: u32, frame: &mut [u8]) -> Result<(), Refused> {
        self.window.check(number)?;
        open_with(
            self.ciphers,
            &self.key,
            &nonce(number, !self.initiator),
            &mut frame[4..],
        )?;
        self.window.accept(number);
        Ok(())
    }
}

/// Returns where a frame starts that has `overhead` octets before its content.
pub(crate) fn frame_start(
    space: &[u8],
    content: &Range<usize>,
    overhead: usize,
) -> Result<usize, SealError> {
    let fits = content.start <= content.end && content.end <= space.len();
    let start = content.start.checked_sub(overhead).filter(|_| fits);
    start.ok_or(SealError::Room(overhead, 0))
}

/// Returns the nonce of a data frame. The counter is in the first four octets or, from the initiator, in the second
/// four.
fn nonce(counter: u32, from_initiator: bool) -> [u8; 24] {
    let mut nonce = [0; 24];
    let start = if from_initiator { 4 } else { 0 };
    nonce[start..start + 4].copy_from_slice(&counter.to_le_bytes());
    nonce
}
