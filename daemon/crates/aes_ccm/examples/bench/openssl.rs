//! AES-128 in CCM and GCM by OpenSSL 3, which is loaded at run time: no build needs it.

use std::ffi::{c_int, c_uchar, c_void, CStr};
use std::mem::transmute;
use std::ptr::{null, null_mut};

use crate::contenders::{nonce, Contender, Tag, NONCE, TAG};

const LIBRARY: &CStr = c"libcrypto.so.3";
/// EVP_CTRL_AEAD_SET_IVLEN, _GET_TAG and _SET_TAG of openssl/evp.h.
const SET_NONCE_LENGTH: c_int = 0x9;
const GET_TAG: c_int = 0x10;
const SET_TAG: c_int = 0x11;

type New = unsafe extern "C" fn() -> *mut c_void;
type Init = unsafe extern "C" fn(
    context: *mut c_void,
    cipher: *const c_void,
    engine: *mut c_void,
    key: *const c_uchar,
    nonce: *const c_uchar,
    encrypt: c_int,
) -> c_int;
type Control = unsafe extern "C" fn(*mut c_void, c_int, c_int, *mut c_void) -> c_int;
type Update =
    unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;
type Final = unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut c_int) -> c_int;

/// A mode of AES-128.
pub struct Mode {
    name: &'static str,
    cipher: &'static CStr,
    nonce: usize,
    tag: usize,
    /// The length of the content must be known before, and the tag is checked when the content is deciphered.
    is_ccm: bool,
}

pub const CCM: Mode = Mode {
    name: "AES-128-CCM, OpenSSL",
    cipher: c"EVP_aes_128_ccm",
    nonce: NONCE,
    tag: TAG,
    is_ccm: true,
};
pub const GCM: Mode = Mode {
    name: "AES-128-GCM, OpenSSL",
    cipher: c"EVP_aes_128_gcm",
    nonce: 12,
    tag: 16,
    is_ccm: false,
};

/// A key in OpenSSL. Its contexts are never freed, because they live as long as the program.
pub struct Aead {
    mode: Mode,
    sealing: *mut c_void,
    opening: *mut c_void,
    init: Init,
    control: Control,
    update: Update,
    last: Final,
}

// SAFETY: a context may be used by any thread, one at a time (openssl-threads(7)); only the owner of the value has it.
unsafe impl Send for Aead {}

impl Aead {
    /// Loads the library and prepares a key; returns what is lacking.
    pub fn new(mode: Mode, key: &[u8; 16]) -> Result<Self, String> {
        // SAFETY: the name ends with a zero; loading runs the initialization that every program with OpenSSL runs.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(format!("{} is not installed", LIBRARY.to_string_lossy()));
        }
        let find = |name: &CStr| {
            // SAFETY: dlopen returned the handle, and the name ends with a zero.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            let lacks = || {
                format!(
                    "{} has no {}",
                    LIBRARY.to_string_lossy(),
                    name.to_string_lossy()
                )
            };
            (!symbol.is_null()).then_some(symbol).ok_or_else(lacks)
        };
        let (new, cipher) = (find(c"EVP_CIPHER_CTX_new")?, find(mode.cipher)?);
        let (init, control) = (find(c"EVP_CipherInit_ex")?, find(c"EVP_CIPHER_CTX_ctrl")?);
        let (update, last) = (find(c"EVP_CipherUpdate")?, find(c"EVP_CipherFinal_ex")?);
        // SAFETY: the types are those of these functions in openssl/evp.h, which the library's ABI keeps.
        let aead = unsafe {
            let new = transmute::<*mut c_void, New>(new);
            let aead = Self {
                mode,
                sealing: new(),
                opening: new(),
                init: transmute::<*mut c_void, Init>(init),
                control: transmute::<*mut c_void, Control>(control),
                update: transmute::<*mut c_void, Update>(update),
                last: transmute::<*mut c_void, Final>(last),
            };
            let cipher = transmute::<*mut c_void, New>(cipher)();
            aead.prepare(aead.sealing, cipher, key, 1);
            aead.prepare(aead.opening, cipher, key, 0);
            aead
        };
        Ok(aead)
    }

    /// Sets cipher, lengths and key of a context.
    ///
    /// # Safety
    ///
    /// `context` and `cipher` come from the library.
    unsafe fn prepare(
        &self,
        context: *mut c_void,
        cipher: *const c_void,
        key: &[u8; 16],
        encrypt: c_int,
    ) {
        let (nonce, tag) = (self.mode.nonce as c_int, self.mode.tag as c_int);
        // SAFETY: the caller promises what the pointers are; the key has the octets that the cipher reads.
        unsafe {
            let mut done = (self.init)(context, cipher, null_mut(), null(), null(), encrypt);
            done &= (self.control)(context, SET_NONCE_LENGTH, nonce, null_mut());
            if self.mode.is_ccm {
                done &= (self.control)(context, SET_TAG, tag, null_mut());
            }
            done &= (self.init)(context, null(), null_mut(), key.as_ptr(), null(), encrypt);
            assert_eq!(done, 1, "OpenSSL refuses {}", self.mode.name);
        }
    }

    /// Gives nonce, associated data and content to a context; returns whether it took all, which an opening one in CCM
    /// does only with the right tag.
    fn pass(
        &self,
        context: *mut c_void,
        number: u64,
        associated: &[u8],
        content: &mut [u8],
    ) -> bool {
        let nonce: [u8; NONCE] = nonce(number);
        let nonce = &nonce[NONCE - self.mode.nonce..];
        let octets = content.len() as c_int;
        let mut written = 0;
        // SAFETY: each pointer is followed by as many octets as the length beside it says, and what is written is as
        // long as what is read.
        unsafe {
            let mut done = (self.init)(context, null(), null_mut(), null(), nonce.as_ptr(), -1);
            if self.mode.is_ccm {
                done &= (self.update)(context, null_mut(), &mut written, null(), octets);
            }
            let (start, length) = (associated.as_ptr(), associated.len() as c_int);
            done &= (self.update)(context, null_mut(), &mut written, start, length);
            let start = content.as_mut_ptr();
            let taken = (self.update)(context, start, &mut written, start, octets);
            done == 1 && taken == 1
        }
    }

    fn finish(&self, context: *mut c_void) -> bool {
        let (mut nothing, mut written) = ([0; 16], 0);
        // SAFETY: these modes write nothing at their end, and there is room for a block.
        unsafe { (self.last)(context, nothing.as_mut_ptr(), &mut written) == 1 }
    }
}

impl Contender for Aead {
    fn name(&self) -> &'static str {
        self.mode.name
    }

    fn seal(&mut self, number: u64, associated: &[u8], content: &mut [u8]) -> Tag {
        let mut tag = Tag::default();
        assert!(self.pass(self.sealing, number, associated, content) && self.finish(self.sealing));
        // SAFETY: there is room for the longest tag.
        let done = unsafe {
            (self.control)(
                self.sealing,
                GET_TAG,
                self.mode.tag as c_int,
                tag.as_mut_ptr().cast(),
            )
        };
        assert_eq!(done, 1);
        tag
    }

    fn open(&mut self, number: u64, associated: &[u8], content: &mut [u8], tag: &Tag) -> bool {
        let mut tag = *tag;
        // SAFETY: the tag has as many octets as the mode's tag, or more.
        let set = unsafe {
            (self.control)(
                self.opening,
                SET_TAG,
                self.mode.tag as c_int,
                tag.as_mut_ptr().cast(),
            )
        };
        let passed = self.pass(self.opening, number, associated, content);
        set == 1 && passed && (self.mode.is_ccm || self.finish(self.opening))
    }
}
