//! What stands before the content of a frame: 12 octets of header, 4 octets of handle.
//!
//! ```text
//! 0 u64 label | 8 congestion(7), suppressErrors(1) | 9 version(2), labelShift(6) | 10 u16 trafficClass
//! 12 u32 handle
//! ```

use crate::{Label, Refusal};

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The way: ahead, and back to where it came from.
    pub label: Label,
    /// How congested the way is: 0 to 127, higher bits are not sent.
    pub congestion: u8,
    /// Whether a switch that cannot forward the frame shall be silent about it.
    pub suppress_errors: bool,
    /// The version of the sending switch: 0 to 3. Ours is 1.
    pub version: u8,
    /// How many bits the switches on the way have shifted out: 0 to 63.
    pub shift: u8,
    /// 0xffff, no class, is the only one in use.
    pub traffic_class: u16,
}

impl Header {
    /// The length in octets.
    pub const LEN: usize = 12;

    /// The header of a frame that begins its way at this node.
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

    /// The header of a frame, and what follows it.
    ///
    /// # Errors
    ///
    /// [`Refusal::Runt`], when there are fewer than 12 octets.
    pub fn decode(frame: &[u8]) -> Result<(Self, &[u8]), Refusal> {
        let (octets, content) = frame.split_first_chunk().ok_or(Refusal::Runt)?;
        Ok((Self::from(octets), content))
    }

    /// The octets of the header; of each field as many bits as there is room for.
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

/// What the content of a frame is, for the node at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handle {
    /// A [`crate::Control`] frame.
    Control,
    /// The handshake of an inner session; the handle is the nonce of its header: 0 to 3.
    Handshake(u32),
    /// Data of the inner session to which the recipient gave this handle: 4 or more.
    Session(u32),
}

impl Handle {
    /// The length in octets.
    pub const LEN: usize = 4;

    /// Reads the handle at the start of `content`, what follows a header.
    ///
    /// The remainder of a handshake still begins with its nonce, because that is
    /// where the handshake's own header begins.
    ///
    /// # Errors
    ///
    /// [`Refusal::Runt`], when there are fewer than 4 octets.
    pub fn decode(content: &[u8]) -> Result<(Self, &[u8]), Refusal> {
        let (octets, rest) = content.split_first_chunk().ok_or(Refusal::Runt)?;
        Ok(match u32::from_be_bytes(*octets) {
            u32::MAX => (Self::Control, rest),
            nonce @ 0..4 => (Self::Handshake(nonce), content),
            handle => (Self::Session(handle), rest),
        })
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Control => u32::MAX,
            Self::Handshake(nonce) => nonce,
            Self::Session(handle) => handle,
        }
    }
}
