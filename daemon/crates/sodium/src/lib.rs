//! Implements [`Ciphers`] of `cryptoauth` with libsodium, which chooses at run time what the processor can do.
//!
//! The library is loaded at run time, so that neither building nor running needs it: a machine without it uses
//! [`Portable`](cryptoauth::Portable). It is used only if its frames are octet by octet those of `Portable`.

use std::ffi::{c_int, c_uchar, c_ulonglong, c_void, CStr};
use std::fmt;
use std::mem::transmute;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use cryptoauth::{Ciphers, Key, Portable, Tag, KEY_LENGTH, TAG_LENGTH};
use zeroize::{Zeroize, Zeroizing};

/// The library file with the ABI of libsodium 1.0.12 and later.
const LIBRARY: &CStr = c"libsodium.so.23";
/// Lengths of the frames that are compared: near the blocks and the wide steps of the ciphers, and the longest frames.
const PROBES: [usize; 11] = [0, 1, 31, 32, 33, 64, 255, 512, 1024, 1304, 2048];

/// Octets at the start of the stream that are the key of Poly1305. The content follows (Bernstein, Cryptography in
/// NaCl, section 9).
const ONE_TIME: usize = 32;
/// Octets of four blocks. libsodium computes four Salsa20 blocks in the time of two, so streams are extended to a
/// multiple of four blocks.
const WIDE: usize = 256;
/// Octets for the key, the content and the extension of the stream.
const SPACE: usize = 10 * WIDE;
/// Longest content that fits, longer than any frame. Longer content is left to the portable ciphers.
const LONGEST: usize = SPACE - ONE_TIME;

type Start = unsafe extern "C" fn() -> c_int;
type Hsalsa = unsafe extern "C" fn(
    out: *mut c_uchar,
    input: *const c_uchar,
    key: *const c_uchar,
    constant: *const c_uchar,
) -> c_int;
type SalsaXor = unsafe extern "C" fn(
    out: *mut c_uchar,
    content: *const c_uchar,
    length: c_ulonglong,
    nonce: *const c_uchar,
    key: *const c_uchar,
) -> c_int;
type Authenticate = unsafe extern "C" fn(
    tag: *mut c_uchar,
    content: *const c_uchar,
    length: c_ulonglong,
    key: *const c_uchar,
) -> c_int;
type Verify = unsafe extern "C" fn(
    tag: *const c_uchar,
    content: *const c_uchar,
    length: c_ulonglong,
    key: *const c_uchar,
) -> c_int;
type AeadSeal = unsafe extern "C" fn(
    sealed: *mut c_uchar,
    tag: *mut c_uchar,
    tag_length: *mut c_ulonglong,
    content: *const c_uchar,
    length: c_ulonglong,
    additional: *const c_uchar,
    additional_length: c_ulonglong,
    secret_nonce: *const c_uchar,
    nonce: *const c_uchar,
    key: *const c_uchar,
) -> c_int;
type AeadOpen = unsafe extern "C" fn(
    content: *mut c_uchar,
    secret_nonce: *mut c_uchar,
    sealed: *const c_uchar,
    length: c_ulonglong,
    tag: *const c_uchar,
    additional: *const c_uchar,
    additional_length: c_ulonglong,
    nonce: *const c_uchar,
    key: *const c_uchar,
) -> c_int;
type ChachaXor = unsafe extern "C" fn(
    out: *mut c_uchar,
    content: *const c_uchar,
    length: c_ulonglong,
    nonce: *const c_uchar,
    block: u32,
    key: *const c_uchar,
) -> c_int;

/// The functions of the library that this crate calls.
struct Functions {
    hsalsa: Hsalsa,
    salsa_xor: SalsaXor,
    authenticate: Authenticate,
    verify: Verify,
    aead_seal: AeadSeal,
    aead_open: AeadOpen,
    chacha_xor: ChachaXor,
}

/// The library, loaded and tested.
pub struct Sodium(Functions);

/// Why the library is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unusable {
    /// It is not installed on this machine.
    Missing,
    /// It does not have this function.
    Function(&'static CStr),
    /// Its initialization failed.
    Start,
    /// Its frames differ from those of the portable ciphers.
    Different,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "{} is not installed", LIBRARY.to_string_lossy()),
            Self::Function(name) => write!(
                f,
                "{} has no {}",
                LIBRARY.to_string_lossy(),
                name.to_string_lossy()
            ),
            Self::Start => write!(f, "{} could not start", LIBRARY.to_string_lossy()),
            Self::Different => write!(
                f,
                "{} makes other frames than the portable ciphers",
                LIBRARY.to_string_lossy()
            ),
        }
    }
}

impl std::error::Error for Unusable {}

/// Loads the library, once for the whole process.
///
/// # Errors
///
/// Why it cannot be used.
pub fn load() -> Result<&'static Sodium, Unusable> {
    static LOADED: OnceLock<Result<Sodium, Unusable>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        let sodium = Sodium(functions()?);
        let agrees = PROBES.iter().all(|length| sodium.agrees(*length));
        agrees.then_some(sodium).ok_or(Unusable::Different)
    });
    loaded.as_ref().map_err(|error| *error)
}

/// Returns the library's functions. It is never unloaded, so they stay valid.
fn functions() -> Result<Functions, Unusable> {
    // SAFETY: the name ends with a zero. Loading runs the library's initialization code, which every program linked
    // with it runs too.
    let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(Unusable::Missing);
    }
    let find = |name: &'static CStr| {
        // SAFETY: dlopen returned the handle, and the name ends with a zero.
        let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
        (!symbol.is_null())
            .then_some(symbol)
            .ok_or(Unusable::Function(name))
    };
    let start = find(c"sodium_init")?;
    let hsalsa = find(c"crypto_core_hsalsa20")?;
    let salsa_xor = find(c"crypto_stream_salsa20_xor")?;
    let authenticate = find(c"crypto_onetimeauth")?;
    let verify = find(c"crypto_onetimeauth_verify")?;
    let aead_seal = find(c"crypto_aead_chacha20poly1305_ietf_encrypt_detached")?;
    let aead_open = find(c"crypto_aead_chacha20poly1305_ietf_decrypt_detached")?;
    let chacha_xor = find(c"crypto_stream_chacha20_ietf_xor_ic")?;
    // SAFETY: a data pointer and a function pointer have the same size and meaning on every system with dlsym (POSIX,
    // dlsym). The types are those of the functions with these names in libsodium's headers, which do not change within
    // the ABI that the library's file name states.
    let (start, functions) = unsafe {
        let functions = Functions {
            hsalsa: transmute::<*mut c_void, Hsalsa>(hsalsa),
            salsa_xor: transmute::<*mut c_void, SalsaXor>(salsa_xor),
            authenticate: transmute::<*mut c_void, Authenticate>(authenticate),
            verify: transmute::<*mut c_void, Verify>(verify),
            aead_seal: transmute::<*mut c_void, AeadSeal>(aead_seal),
            aead_open: transmute::<*mut c_void, AeadOpen>(aead_open),
            chacha_xor: transmute::<*mut c_void, ChachaXor>(chacha_xor),
        };
        (transmute::<*mut c_void, Start>(start), functions)
    };
    // SAFETY: it takes no arguments, and several threads may call it more than once. It chooses the implementations.
    if unsafe { start() } < 0 {
        return Err(Unusable::Start);
    }
    Ok(functions)
}

impl Sodium {
    /// Returns the start of the XSalsa20 stream, followed by the content combined with the stream. One call does both,
    /// which takes three quarters of the time of the two calls in `crypto_secretbox`.
    fn crossed(&self, key: &Key, nonce: &[u8; 24], content: &[u8]) -> [u8; SPACE] {
        let mut space = [0; SPACE];
        let end = ONE_TIME + content.len();
        space[ONE_TIME..end].copy_from_slice(content);
        let octets = &mut space[..end.next_multiple_of(WIDE)];
        let mut derived = Zeroizing::new([0; KEY_LENGTH]);
        let (first, second) = nonce.split_at(16);
        // SAFETY: keys have 32 octets, and the nonces 16 and 8, as the functions require. Without a constant they use
        // that of the standard. Input and output of the stream may be the same octets.
        unsafe {
            (self.0.hsalsa)(derived.as_mut_ptr(), first.as_ptr(), key.as_ptr(), null());
            let (at, length) = (octets.as_mut_ptr(), octets.len() as c_ulonglong);
            (self.0.salsa_xor)(at, at, length, second.as_ptr(), derived.as_ptr());
        }
        space
    }

    /// Returns whether frames of this length are sealed and opened exactly as by the portable ciphers.
    fn agrees(&self, length: usize) -> bool {
        let content: Vec<u8> = (0..length)
            .map(|index| (index * 7 + index / 251) as u8)
            .collect();
        let key = std::array::from_fn(|index| 0x80 ^ index as u8);
        let long = std::array::from_fn(|index| 0x40 ^ index as u8);
        let short = std::array::from_fn(|index| 0x20 ^ index as u8);
        let (mut ours, mut theirs) = (content.clone(), content.clone());
        let tag = Portable.seal_xsalsa20(&key, &long, &mut ours);
        let mut agrees = tag == self.seal_xsalsa20(&key, &long, &mut theirs) && ours == theirs;
        agrees &= opens(&content, &ours, &tag, |sealed, tag| {
            self.open_xsalsa20(&key, &long, sealed, tag)
        });
        let (mut ours, mut theirs) = (content.clone(), content.clone());
        let tag = Portable.seal_chacha20(&key, &short, &mut ours);
        agrees &= tag == self.seal_chacha20(&key, &short, &mut theirs) && ours == theirs;
        agrees
            && opens(&content, &ours, &tag, |sealed, tag| {
                self.open_chacha20(&key, &short, sealed, tag)
            })
    }
}

/// Returns whether `open` opens `sealed` with its tag, and leaves it unchanged with another tag.
fn opens(content: &[u8], sealed: &[u8], tag: &Tag, open: impl Fn(&mut [u8], &Tag) -> bool) -> bool {
    let mut octets = sealed.to_vec();
    let mut forged = *tag;
    forged[TAG_LENGTH - 1] ^= 1;
    let leaves = !open(&mut octets, &forged) && octets == sealed;
    leaves && open(&mut octets, tag) && octets == content
}

impl Ciphers for Sodium {
    fn name(&self) -> &'static str {
        "libsodium"
    }

    fn seal_xsalsa20(&self, key: &Key, nonce: &[u8; 24], content: &mut [u8]) -> Tag {
        if content.len() > LONGEST {
            return Portable.seal_xsalsa20(key, nonce, content);
        }
        let mut tag = [0; TAG_LENGTH];
        let mut space = self.crossed(key, nonce, content);
        let (one_time, sealed) = space.split_at_mut(ONE_TIME);
        content.copy_from_slice(&sealed[..content.len()]);
        let length = content.len() as c_ulonglong;
        // SAFETY: the tag has 16 octets and the key 32, as the function requires, and the content has `length`. It
        // cannot fail.
        unsafe {
            (self.0.authenticate)(
                tag.as_mut_ptr(),
                content.as_ptr(),
                length,
                one_time.as_ptr(),
            )
        };
        one_time.zeroize();
        tag
    }

    fn open_xsalsa20(&self, key: &Key, nonce: &[u8; 24], content: &mut [u8], tag: &Tag) -> bool {
        if content.len() > LONGEST {
            return Portable.open_xsalsa20(key, nonce, content, tag);
        }
        let mut space = self.crossed(key, nonce, content);
        let (one_time, opened) = space.split_at_mut(ONE_TIME);
        let length = content.len() as c_ulonglong;
        // SAFETY: as above. The function compares in constant time.
        let is_authentic = unsafe {
            (self.0.verify)(tag.as_ptr(), content.as_ptr(), length, one_time.as_ptr()) == 0
        };
        one_time.zeroize();
        if is_authentic {
            content.copy_from_slice(&opened[..content.len()]);
        }
        is_authentic
    }

    fn seal_chacha20(&self, key: &Key, nonce: &[u8; 12], content: &mut [u8]) -> Tag {
        let mut tag = [0; TAG_LENGTH];
        let (octets, length) = (content.as_mut_ptr(), content.len() as c_ulonglong);
        // SAFETY: key, nonce and tag have the lengths that the function requires (32, 12, 16), and the content has
        // `length` octets and may be sealed in place. There is no additional data, and the tag's length is not needed.
        unsafe {
            (self.0.aead_seal)(
                octets,
                tag.as_mut_ptr(),
                null_mut(),
                octets,
                length,
                null(),
                0,
                null(),
                nonce.as_ptr(),
                key.as_ptr(),
            )
        };
        tag
    }

    fn open_chacha20(&self, key: &Key, nonce: &[u8; 12], content: &mut [u8], tag: &Tag) -> bool {
        let (octets, length) = (content.as_mut_ptr(), content.len() as c_ulonglong);
        // SAFETY: as above. Without an output the function only verifies the tag; with one it overwrites the content
        // even if the tag is wrong. The content is encrypted from the second block of the stream on (RFC 8439, section
        // 2.8).
        unsafe {
            let verified = (self.0.aead_open)(
                null_mut(),
                null_mut(),
                octets,
                length,
                tag.as_ptr(),
                null(),
                0,
                nonce.as_ptr(),
                key.as_ptr(),
            ) == 0;
            verified
                && (self.0.chacha_xor)(octets, octets, length, nonce.as_ptr(), 1, key.as_ptr()) == 0
        }
    }
}
