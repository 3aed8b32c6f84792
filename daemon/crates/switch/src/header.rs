//! The octets before the content of a frame: 12 of header, 4 of handle.
//!
//! ```text
//! 0 u64 label | 8 congestion(7), suppressErrors(1) | 9 version(2), labelShift(6) | 10 u16 trafficClass
//! 12 u32 handle
//! ```

use crate::{Label, Refusal};

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The path ahead, and the path back to the sender.
    pub label: Label,
    /// Congestion on the path, 0 to 127. Higher bits are not sent.
    pub congestion: u8,
    /// Whether a switch that cannot forward the frame must not send an error frame.
    pub suppress_errors: bool,
    /// The version of the sending switch: 0 to 3. Ours is 1.
    pub version: u8,
    /// Number of bits that the switches on the path have shifted out, 0 to 63.
    pub shift: u8,
    /// Only 0xffff, no class, is in use.
    pub traffic_class: u16,
}

impl Header {
    /// Length of a header in octets.
    pub const LEN: usize = 12;

    /// Returns the header of a frame that starts at this node.
    #[must_use]
    pub const fn new(label: Label) -> Self {
        Self {
            label,
            congestion: 0,
            suppress_errors: false,
            version: 1,
            shift: 0,
            traffic_class: 0xffff,
        }
    }

    /// Returns the header of a frame and the octets after it.
    ///
    /// # Errors
    ///
    /// [`Refusal::Runt`] if there are fewer than 12 octets.
    pub fn decode(frame: &[u8]) -> Result<(Self, &[u8]), Refusal> {
        let (octets, content) = frame.split_first_chunk().ok_or(Refusal::Runt)?;
        Ok((Self::from(octets), content))
    }

    /// Encodes the header. Bits that exceed a field are dropped.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let [a, b, c, d, e, f, g, h] = self.label.0.to_be_bytes();
        let [k, l] = self.traffic_class.to_be_bytes();
        let i = self.congestion << 1 | u8::from(self.suppress_errors);
        let j = self.version << 6 | self.shift & 63;
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }
}

impl From<&[u8; Header::LEN]> for Header {
    fn from(octets: &[u8; Header::LEN]) -> Self {
        let &[a, b, c, d, e, f, g, h, i, j, k, l] = octets;
        Self {
            label: Label(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
            congestion: i >> 1,
            suppress_errors: i & 1 != 0,
            version: j >> 6,
            shift: j & 63,
            traffic_class: u16::from_be_bytes([k, l]),
        }
    }
}

/// The kind of a frame's content, for the node at the end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handle {
    /// A [`crate::Control`] frame.
    Control,
    /// The handshake of an inner session. The handle is the nonce of its header, 0 to 3.
    Handshake(u32),
    /// Data of the inner session to which the receiver assigned this handle, 4 or more.
    Session(u32),
}

impl Handle {
    /// Length of a handle in octets.
    pub const LEN: usize = 4;

    /// Reads the handle at the start of `content`, the octets after a header.
    ///
    /// The returned rest of a handshake still starts with its nonce, because the handshake's own header starts there.
    ///
    /// # Errors
    ///
    /// [`Refusal::Runt`] if there are fewer than 4 octets.
    pub fn decode(content: &[u8]) -> Result<(Self, &[u8]), Refusal> {
        let (octets, rest) = content.split_first_chunk().ok_or(Refusal::Runt)?;
        Ok(match u32::from_be_bytes(*octets) {
            u32::MAX => (Self::Control, rest),
            nonce @ 0..4 => (Self::Handshake(nonce), content),
            handle => (Self::Session(handle), rest),
        })
    }

    /// Returns the number that is sent.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Control => u32::MAX,
            Self::Handshake(nonce) => nonce,
            Self::Session(handle) => handle,
        }
    }
}
