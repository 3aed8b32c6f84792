//! Cookies, and the hash that proves that a caller knows the password.
//!
//! ```text
//! inner = hex(SHA-256(password || cookie))
//! hash  = hex(SHA-256(the request with inner in the place of hash))
//! ```

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use overlay::bencode::{Dictionary, Value};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Lifetime of a cookie, as in cjdns.
pub const COOKIE_LIFETIME: Duration = Duration::from_secs(20);

/// Length of a hash in hexadecimal digits.
const HASH: usize = 64;

/// The password of authenticated callers. It is never formatted.
#[derive(Clone)]
pub struct Password(Zeroizing<Vec<u8>>);

/// Error of an empty password, which everybody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyPassword;

impl Password {
    /// Makes a password of at least one byte.
    ///
    /// Existing tools without a configuration use `NONE`. If this is the router's password, everybody who can send to
    /// its socket is authenticated.
    ///
    /// # Errors
    ///
    /// [`EmptyPassword`].
    pub fn new(octets: &[u8]) -> Result<Self, EmptyPassword> {
        match octets {
            [] => Err(EmptyPassword),
            _ => Ok(Self(Zeroizing::new(octets.to_vec()))),
        }
    }

    /// Returns whether a request proves the password with a recent cookie.
    ///
    /// `request` are the bytes from which `fields` were decoded; `unix` is the time in seconds since 1970.
    pub(crate) fn authenticates(&self, request: &[u8], fields: &Dictionary, unix: u64) -> bool {
        let Some(cookie) = cookie_of(fields).filter(|cookie| is_fresh(*cookie, unix)) else {
            return false;
        };
        let Some(hash) = fields.string("hash").filter(|hash| hash.len() == HASH) else {
            return false;
        };
        // The hash was decoded from the request, so it is part of it.
        let start = (hash.as_ptr() as usize).wrapping_sub(request.as_ptr() as usize);
        let (Some(before), Some(after)) = (request.get(..start), request.get(start + HASH..))
        else {
            return false;
        };
        let mut inner = Sha256::new();
        inner.update(&*self.0);
        inner.update(Decimal::of(cookie).octets());
        let mut outer = Sha256::new();
        outer.update(before);
        outer.update(&hex(&inner.finalize())[..]);
        outer.update(after);
        hex(&outer.finalize())[..].ct_eq(hash).into()
    }
}

/// Returns the cookie for a time in seconds since 1970.
pub(crate) const fn cookie_at(unix: u64) -> u32 {
    // The protocol has 32 bits for it, which last until 2106.
    unix as u32
}

fn is_fresh(cookie: u32, unix: u64) -> bool {
    let age = cookie_at(unix).checked_sub(cookie);
    age.is_some_and(|age| u64::from(age) <= COOKIE_LIFETIME.as_secs())
}

/// Returns the cookie in a request. Some callers send an integer instead of a text of digits.
fn cookie_of(fields: &Dictionary) -> Option<u32> {
    match fields.get("cookie")? {
        Value::Integer(cookie) => u32::try_from(*cookie).ok(),
        Value::String(digits) if digits.first().is_some_and(u8::is_ascii_digit) => {
            core::str::from_utf8(digits).ok()?.parse().ok()
        }
        _ => None,
    }
}

/// A number in decimal digits.
struct Decimal {
    digits: [u8; 10],
    start: usize,
}

impl Decimal {
    const fn of(number: u32) -> Self {
        let mut digits = [b'0'; 10];
        let mut start = digits.len() - 1;
        let mut rest = number;
        loop {
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return Self { digits, start };
            }
            start -= 1;
        }
    }

    fn octets(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

fn hex(octets: &[u8]) -> Zeroizing<[u8; HASH]> {
    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
    let mut text = Zeroizing::new([0; HASH]);
    for (pair, octet) in text.chunks_exact_mut(2).zip(octets) {
        pair[0] = digit(octet >> 4);
        pair[1] = digit(octet & 15);
    }
    text
}

impl fmt::Display for EmptyPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an empty password, allowed is one octet or more")
    }
}

impl core::error::Error for EmptyPassword {}
