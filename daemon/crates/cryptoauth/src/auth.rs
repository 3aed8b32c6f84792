//! Passwords: the credential shown to a peer, and the users who may connect.

use alloc::vec::Vec;
use core::fmt;

use blake2::Blake2s256;
use hmac::{Mac, SimpleHmac};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{Address, KEY_LENGTH};

/// A secret of 32 octets, overwritten when it is dropped.
pub(crate) type Secret = Zeroizing<[u8; KEY_LENGTH]>;

/// Identifies a password in a handshake: its kind and seven octets of a hash.
pub(crate) type Lookup = [u8; 8];

/// No authentication.
pub(crate) const KIND_NONE: u8 = 0;
/// A password, identified by its hash.
const KIND_PASSWORD: u8 = 1;
/// A password, identified by the hash of a login.
const KIND_LOGIN: u8 = 2;
/// A login and its password in the Noise link handshake.
const KIND_NOISE: u8 = 3;

/// The credential shown to a peer that requires authentication. It is never formatted.
#[derive(Clone)]
pub struct Credential {
    pub(crate) lookup: Lookup,
    pub(crate) secret: Secret,
    pub(crate) noise: Preshared,
}

/// The preshared key of a Noise handshake and the octets that identify it.
#[derive(Clone)]
pub(crate) struct Preshared {
    pub(crate) lookup: Lookup,
    pub(crate) key: Secret,
}

/// The users who may connect to this node.
#[derive(Clone, Default)]
pub struct Users {
    users: Vec<User>,
    added: u32,
}

/// Identifies a user for the lifetime of its [`Users`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(u32);

/// The user cannot be added, because this user has the same login or password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateUser(pub UserId);

#[derive(Clone)]
pub(crate) struct User {
    pub(crate) id: UserId,
    pub(crate) secret: Secret,
    pub(crate) noise: Preshared,
    pub(crate) only: Option<Address>,
    by_password: Lookup,
    by_login: Option<Lookup>,
}

impl Credential {
    /// Returns a password that is identified by its own hash (authentication type 1).
    pub fn password(password: &[u8]) -> Self {
        let (secret, lookup) = password_secret(password);
        let noise = Preshared::new(b"", password);
        Self {
            lookup,
            secret,
            noise,
        }
    }

    /// Returns a password that is identified by a login (authentication type 2), which reveals nothing about the
    /// password.
    pub fn login(login: &[u8], password: &[u8]) -> Self {
        let (secret, _) = password_secret(password);
        let noise = Preshared::new(login, password);
        Self {
            lookup: login_lookup(login),
            secret,
            noise,
        }
    }
}

impl Preshared {
    /// Derives both with HMAC-BLAKE2s, so that the identifier reveals nothing about the key.
    fn new(login: &[u8], password: &[u8]) -> Self {
        let base = mac(password, &[login, &[KIND_NOISE]]);
        let name = mac(&*base, &[&[1]]);
        Self {
            lookup: lookup(KIND_NOISE, &name[..]),
            key: mac(&*base, &[&[0]]),
        }
    }
}

impl Users {
    /// Admits everybody who knows `password`, identified by it or by `login`. With `only`, the peer's key must also
    /// have that address.
    ///
    /// # Errors
    ///
    /// [`DuplicateUser`] if a handshake could refer to two users.
    pub fn add(
        &mut self,
        login: Option<&[u8]>,
        password: &[u8],
        only: Option<Address>,
    ) -> Result<UserId, DuplicateUser> {
        let (secret, by_password) = password_secret(password);
        let noise = Preshared::new(login.unwrap_or_default(), password);
        let by_login = login.map(login_lookup);
        let same = |user: &&User| {
            user.by_password == by_password || by_login.is_some() && user.by_login == by_login
        };
        if let Some(user) = self.users.iter().find(same) {
            return Err(DuplicateUser(user.id));
        }
        self.added += 1;
        let id = UserId(self.added);
        self.users.push(User {
            id,
            secret,
            noise,
            only,
            by_password,
            by_login,
        });
        Ok(id)
    }

    /// Removes a user. Returns whether there was one. Existing sessions continue.
    pub fn remove(&mut self, id: UserId) -> bool {
        let before = self.users.len();
        self.users.retain(|user| user.id != id);
        self.users.len() < before
    }

    /// Returns the user that a handshake identifies.
    pub(crate) fn find(&self, lookup: &Lookup) -> Option<&User> {
        let is_it = |user: &&User| match lookup[0] {
            KIND_PASSWORD => user.by_password == *lookup,
            KIND_LOGIN => user.by_login.as_ref() == Some(lookup),
            _ => false,
        };
        self.users.iter().find(is_it)
    }

    /// Returns the user that a Noise handshake identifies.
    pub(crate) fn find_noise(&self, lookup: &Lookup) -> Option<&User> {
        self.users.iter().find(|user| user.noise.lookup == *lookup)
    }
}

fn password_secret(password: &[u8]) -> (Secret, Lookup) {
    let secret = Zeroizing::new(Sha256::digest(password).into());
    let lookup = lookup(KIND_PASSWORD, &Sha256::digest(*secret));
    (secret, lookup)
}

fn login_lookup(login: &[u8]) -> Lookup {
    lookup(KIND_LOGIN, &Sha256::digest(login))
}

/// Returns the kind and octets 1 to 7 of a hash.
fn lookup(kind: u8, hash: &[u8]) -> Lookup {
    let mut lookup = [kind; 8];
    lookup[1..].copy_from_slice(&hash[1..8]);
    lookup
}

/// Returns HMAC-BLAKE2s (RFC 2104, RFC 7693) of `parts`.
pub(crate) fn mac(key: &[u8], parts: &[&[u8]]) -> Secret {
    let mut state = SimpleHmac::<Blake2s256>::new_from_slice(key).expect("a key of any length");
    parts.iter().for_each(|part| state.update(part));
    Zeroizing::new(state.finalize().into_bytes().into())
}

impl fmt::Display for DuplicateUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "user {} has the same login or the same password",
            self.0 .0
        )
    }
}

impl core::error::Error for DuplicateUser {}
