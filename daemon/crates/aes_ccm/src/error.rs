//! What is wrong with a key, a length or a tag.

use core::fmt;

/// A length that no key of CCM can be prepared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// Octets of the key.
    Key(usize),
    /// Octets of the tag.
    Tag(usize),
    /// Octets of the nonce.
    Nonce(usize),
}

/// A length that does not fit to the prepared key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthError {
    /// The nonce has another length.
    Nonce {
        /// Its octets.
        octets: usize,
        /// Octets that the key was prepared for.
        allowed: usize,
    },
    /// The tag has another length.
    Tag {
        /// Its octets.
        octets: usize,
        /// Octets that the key was prepared for.
        allowed: usize,
    },
    /// The content is longer than its length field can say.
    Content {
        /// Its octets.
        octets: u64,
        /// Octets of the longest content.
        most: u64,
    },
}

/// Why a message is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A length does not fit to the key. The content is unchanged.
    Length(LengthError),
    /// Content, associated data, nonce, tag or key are not those of one sealed message. The content is zeros.
    Forged,
}

impl From<LengthError> for OpenError {
    fn from(error: LengthError) -> Self {
        Self::Length(error)
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(octets) => write!(
                f,
                "a key of {octets} octets; allowed are 16, 24 and 32 (AES-128, AES-192, AES-256)"
            ),
            Self::Tag(octets) => write!(
                f,
                "a tag of {octets} octets; allowed are 4, 6, 8, 10, 12, 14 and 16"
            ),
            Self::Nonce(octets) => {
                write!(f, "a nonce of {octets} octets; allowed are 7 to 13")
            }
        }
    }
}

impl fmt::Display for LengthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nonce { octets, allowed } => {
                write!(f, "a nonce of {octets} octets; this key takes {allowed}")
            }
            Self::Tag { octets, allowed } => {
                write!(f, "a tag of {octets} octets; this key takes {allowed}")
            }
            Self::Content { octets, most } => {
                write!(
                    f,
                    "a content of {octets} octets; this key takes at most {most}"
                )
            }
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(error) => error.fmt(f),
            Self::Forged => f.write_str("the tag is wrong"),
        }
    }
}

impl core::error::Error for SetupError {}
impl core::error::Error for LengthError {}
impl core::error::Error for OpenError {}
