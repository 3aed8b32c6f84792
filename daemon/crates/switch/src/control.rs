//! Control frames: the content after the handle ffffffff.
//!
//! ```text
//! u16 checksum (RFC 1071, of all that follows the handle) | u16 type | body
//! ```

mod numbers;
mod reader;
mod writer;

use core::net::{SocketAddrV4, SocketAddrV6};

use numbers::typ;
use reader::Reader;
use writer::Writer;

use crate::checksum::checksum;
use crate::header::{Handle, Header};
use crate::{is_compatible, ControlError, ErrorCode, Label, PROTOCOL_VERSION};

/// Largest number of opaque octets of a KEYPING.
pub const MAX_KEY_OPAQUE: usize = 64;

/// A message between switches. The sender of a query chooses its opaque octets, and the answer repeats them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// Type 2: a switch on the way refused a frame that the receiver sent.
    Error {
        /// The reason.
        code: ErrorCode,
        /// The header of the refused frame, as it arrived at the switch that refused it.
        cause: Header,
        /// The handle of the refused frame.
        handle: u32,
        /// The first octets after that handle.
        rest: &'a [u8],
    },
    /// Type 3: asks whether a node is at the end of the path.
    Ping {
        /// The sender's protocol version.
        version: u32,
        /// Returned in the answer.
        opaque: &'a [u8],
    },
    /// Type 4: the answer to a PING.
    Pong {
        /// The sender's protocol version.
        version: u32,
        /// Copied from the PING.
        opaque: &'a [u8],
    },
    /// Type 5: asks for the public key of the node at the end of the path.
    KeyPing {
        /// The sender's protocol version.
        version: u32,
        /// The sender's public key.
        key: [u8; 32],
        /// Returned in the answer. At most [`MAX_KEY_OPAQUE`] octets.
        opaque: &'a [u8],
    },
    /// Type 6: the answer to a KEYPING.
    KeyPong {
        /// The sender's protocol version.
        version: u32,
        /// The sender's public key.
        key: [u8; 32],
        /// Copied from the KEYPING.
        opaque: &'a [u8],
    },
    /// Type 7: asks which supernode the receiver uses.
    SnodeQuery(Snode<'a>),
    /// Type 8: the answer to a supernode query.
    SnodeReply(Snode<'a>),
    /// Type 9: asks for the label by which the receiver reaches the sender.
    RpathQuery {
        /// The sender's protocol version.
        version: u32,
        /// The label that the sender assumes.
        path: Label,
        /// Returned in the answer.
        opaque: &'a [u8],
    },
    /// Type 10: the answer to a path query.
    RpathReply {
        /// The sender's protocol version.
        version: u32,
        /// The path from the sender of the answer to the sender of the query.
        path: Label,
        /// Copied from the query.
        opaque: &'a [u8],
    },
    /// Type 11: asks a neighbour for the sender's address in the layer below, as the neighbour sees it.
    LinkQuery {
        /// The sender's protocol version.
        version: u32,
        /// Returned in the answer.
        opaque: &'a [u8],
    },
    /// Type 12: the answer to a link address query.
    LinkReply {
        /// The sender's protocol version.
        version: u32,
        /// The address from which the query arrived.
        address: LinkAddress,
        /// Copied from the query.
        opaque: &'a [u8],
    },
}

/// The content of a supernode query or answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snode<'a> {
    /// The sender's protocol version.
    pub version: u32,
    /// The supernode's protocol version, 0 if none is known.
    pub snode_version: u32,
    /// Capacity of the link in kbit/s, 0 if unknown. The highest bit is set if it is configured.
    pub kbps: u32,
    /// The supernode's public key, zeros if none is known.
    pub key: [u8; 32],
    /// The sender's path to the supernode, 0 if none is known.
    pub path: Label,
    /// Chosen by the sender of the query, and returned in the answer.
    pub opaque: &'a [u8],
}

/// An address of the layer below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkAddress {
    /// UDP over IPv4.
    Udp4(SocketAddrV4),
    /// UDP over IPv6, without scope and flow label.
    Udp6(SocketAddrV6),
    /// An address of another layer, or an unknown one.
    Other([u8; 30]),
}

impl<'a> Control<'a> {
    /// Decodes the octets after the handle.
    ///
    /// # Errors
    ///
    /// Any [`ControlError`]. The sender is at fault.
    pub fn decode(octets: &'a [u8]) -> Result<Self, ControlError> {
        let mut reader = Reader(octets);
        reader.u16()?;
        let typ = reader.u16()?;
        match checksum(octets) {
            0 => reader.body(typ),
            rest => Err(ControlError::Checksum(rest)),
        }
    }

    /// Writes the octets after the handle into `out`. Returns their number.
    ///
    /// # Errors
    ///
    /// [`ControlError::Truncated`] if `out` is too short, and [`ControlError::Opaque`] for a KEYPING or KEYPONG with
    /// more than [`MAX_KEY_OPAQUE`] opaque octets.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, ControlError> {
        let mut writer = Writer { out, length: 0 };
        writer.put(&[0, 0])?;
        writer.put(&self.typ().to_be_bytes())?;
        writer.body(self)?;
        let length = writer.length;
        let sum = checksum(&out[..length]);
        out[..2].copy_from_slice(&sum.to_be_bytes());
        Ok(length)
    }

    fn typ(&self) -> u16 {
        match self {
            Self::Error { .. } => typ::ERROR,
            Self::Ping { .. } => typ::PING,
            Self::Pong { .. } => typ::PONG,
            Self::KeyPing { .. } => typ::KEY_PING,
            Self::KeyPong { .. } => typ::KEY_PONG,
            Self::SnodeQuery(_) => typ::SNODE_QUERY,
            Self::SnodeReply(_) => typ::SNODE_REPLY,
            Self::RpathQuery { .. } => typ::RPATH_QUERY,
            Self::RpathReply { .. } => typ::RPATH_REPLY,
            Self::LinkQuery { .. } => typ::LINK_QUERY,
            Self::LinkReply { .. } => typ::LINK_REPLY,
        }
    }
}

/// What a node must know to answer control frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answerer {
    /// The node's public key.
    pub key: [u8; 32],
    /// The sender's address in the layer below, if the sender is a neighbour.
    pub neighbour: Option<LinkAddress>,
}

impl Answerer {
    /// Returns the answer to a query that arrived over `path`, the path back to its sender.
    ///
    /// Returns `None` if there is no answer: the frame is not a query, a PING, KEYPING or supernode query has an
    /// incompatible protocol version, or the sender of a link address query is not a neighbour.
    #[must_use]
    pub fn answer<'a>(&self, query: &Control<'a>, path: Label) -> Option<Control<'a>> {
        let version = PROTOCOL_VERSION;
        Some(match *query {
            Control::Ping {
                version: theirs,
                opaque,
            } if is_compatible(theirs) => Control::Pong { version, opaque },
            Control::KeyPing {
                version: theirs,
                opaque,
                ..
            } if is_compatible(theirs) => {
                let key = self.key;
                Control::KeyPong {
                    version,
                    key,
                    opaque,
                }
            }
            Control::SnodeQuery(snode) if is_compatible(snode.version) => {
                Control::SnodeReply(Snode::none(snode.opaque))
            }
            Control::RpathQuery { opaque, .. } => Control::RpathReply {
                version,
                path,
                opaque,
            },
            Control::LinkQuery { opaque, .. } => {
                let address = self.neighbour?;
                Control::LinkReply {
                    version,
                    address,
                    opaque,
                }
            }
            _ => return None,
        })
    }
}

impl<'a> Snode<'a> {
    /// Returns an answer that names no supernode and no link capacity.
    #[must_use]
    pub fn none(opaque: &'a [u8]) -> Self {
        Self {
            version: PROTOCOL_VERSION,
            snode_version: 0,
            kbps: u32::MAX,
            key: [0; 32],
            path: Label(0),
            opaque,
        }
    }
}

/// Writes a whole control frame, including header and handle, into `out`. Returns its length in octets.
///
/// # Errors
///
/// Those of [`Control::encode`].
pub fn control_frame(
    control: &Control,
    label: Label,
    out: &mut [u8],
) -> Result<usize, ControlError> {
    let mut writer = Writer { out, length: 0 };
    writer.put(&Header::new(label).encode())?;
    writer.put(&Handle::Control.number().to_be_bytes())?;
    let length = writer.length;
    Ok(length + control.encode(&mut out[length..])?)
}
