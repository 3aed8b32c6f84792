//! Control frames: the content after the handle ffffffff.
//!
//! ```text
//! u16 checksum (RFC 1071, of all that follows the handle) | u16 type | body
//! ```

use core::net::{SocketAddrV4, SocketAddrV6};

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

mod typ {
    pub const ERROR: u16 = 2;
    pub const PING: u16 = 3;
    pub const PONG: u16 = 4;
    pub const KEY_PING: u16 = 5;
    pub const KEY_PONG: u16 = 6;
    pub const SNODE_QUERY: u16 = 7;
    pub const SNODE_REPLY: u16 = 8;
    pub const RPATH_QUERY: u16 = 9;
    pub const RPATH_REPLY: u16 = 10;
    pub const LINK_QUERY: u16 = 11;
    pub const LINK_REPLY: u16 = 12;
}

mod magic {
    pub const PING: u32 = 0x09f9_1102;
    pub const PONG: u32 = 0x9d74_e35b;
    pub const KEY_PING: u32 = 0x0123_4567;
    pub const KEY_PONG: u32 = 0x89ab_cdef;
    /// `snoq`, also used by RPATH.
    pub const QUERY: u32 = 0x736e_6f71;
    /// `snor`, also used by RPATH.
    pub const REPLY: u32 = 0x736e_6f72;
    /// `llaq`
    pub const LINK_QUERY: u32 = 0x6c6c_6171;
    /// `llar`
    pub const LINK_REPLY: u32 = 0x6c6c_6172;
}

/// For each kind of link address: its type, its length (including both of these octets), and the octets of the whole
/// field.
mod link {
    pub const UDP4: (u8, u8) = (1, 8);
    pub const UDP6: (u8, u8) = (2, 20);
    pub const OTHER: (u8, u8) = (3, 32);
    pub const LEN: usize = 32;
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

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ControlError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(ControlError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, ControlError> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, ControlError> {
        self.array().map(u32::from_be_bytes)
    }

    fn label(&mut self) -> Result<Label, ControlError> {
        self.array().map(u64::from_be_bytes).map(Label)
    }

    /// Reads the magic number, which must be that of the type, and the version after it.
    fn version(&mut self, magic: u32) -> Result<u32, ControlError> {
        match self.u32()? {
            found if found == magic => self.u32(),
            found => Err(ControlError::Magic(found)),
        }
    }

    fn body(mut self, typ: u16) -> Result<Control<'a>, ControlError> {
        match typ {
            typ::ERROR => self.error(),
            typ::PING => {
                let version = self.version(magic::PING)?;
                Ok(Control::Ping {
                    version,
                    opaque: self.0,
                })
            }
            typ::PONG => {
                let version = self.version(magic::PONG)?;
                Ok(Control::Pong {
                    version,
                    opaque: self.0,
                })
            }
            typ::KEY_PING => {
                let (version, key, opaque) = self.key(magic::KEY_PING)?;
                Ok(Control::KeyPing {
                    version,
                    key,
                    opaque,
                })
            }
            typ::KEY_PONG => {
                let (version, key, opaque) = self.key(magic::KEY_PONG)?;
                Ok(Control::KeyPong {
                    version,
                    key,
                    opaque,
                })
            }
            typ::SNODE_QUERY => self.snode(magic::QUERY).map(Control::SnodeQuery),
            typ::SNODE_REPLY => self.snode(magic::REPLY).map(Control::SnodeReply),
            typ::RPATH_QUERY => {
                let (version, path) = (self.version(magic::QUERY)?, self.label()?);
                Ok(Control::RpathQuery {
                    version,
                    path,
                    opaque: self.0,
                })
            }
            typ::RPATH_REPLY => {
                let (version, path) = (self.version(magic::REPLY)?, self.label()?);
                Ok(Control::RpathReply {
                    version,
                    path,
                    opaque: self.0,
                })
            }
            typ::LINK_QUERY => {
                let version = self.version(magic::LINK_QUERY)?;
                self.array::<{ link::LEN }>()?;
                Ok(Control::LinkQuery {
                    version,
                    opaque: self.0,
                })
            }
            typ::LINK_REPLY => {
                let (version, address) = (self.version(magic::LINK_REPLY)?, self.address()?);
                Ok(Control::LinkReply {
                    version,
                    address,
                    opaque: self.0,
                })
            }
            _ => Err(ControlError::Type(typ)),
        }
    }

    fn error(mut self) -> Result<Control<'a>, ControlError> {
        let code = ErrorCode(self.u32()?);
        let cause = Header::from(&self.array()?);
        let handle = self.u32()?;
        Ok(Control::Error {
            code,
            cause,
            handle,
            rest: self.0,
        })
    }

    fn key(mut self, magic: u32) -> Result<(u32, [u8; 32], &'a [u8]), ControlError> {
        let (version, key) = (self.version(magic)?, self.array()?);
        match self.0.len() {
            0..=MAX_KEY_OPAQUE => Ok((version, key, self.0)),
            length => Err(ControlError::Opaque(length)),
        }
    }

    fn snode(mut self, magic: u32) -> Result<Snode<'a>, ControlError> {
        Ok(Snode {
            version: self.version(magic)?,
            snode_version: self.u32()?,
            kbps: self.u32()?,
            key: self.array()?,
            path: self.label()?,
            opaque: self.0,
        })
    }

    fn address(&mut self) -> Result<LinkAddress, ControlError> {
        let octets: [u8; link::LEN] = self.array()?;
        let mut fields = Reader(&octets);
        let [typ, length] = fields.array()?;
        match (typ, length) {
            link::UDP4 => {
                let (port, ip) = (fields.u16()?, fields.array::<4>()?);
                Ok(LinkAddress::Udp4(SocketAddrV4::new(ip.into(), port)))
            }
            link::UDP6 => {
                let (port, ip) = (fields.u16()?, fields.array::<16>()?);
                Ok(LinkAddress::Udp6(SocketAddrV6::new(ip.into(), port, 0, 0)))
            }
            link::OTHER => fields.array().map(LinkAddress::Other),
            (typ, length) => Err(ControlError::LinkAddress { typ, length }),
        }
    }
}

struct Writer<'a> {
    out: &'a mut [u8],
    length: usize,
}

impl Writer<'_> {
    fn put(&mut self, octets: &[u8]) -> Result<(), ControlError> {
        let end = self.length + octets.len();
        let room = self
            .out
            .get_mut(self.length..end)
            .ok_or(ControlError::Truncated)?;
        room.copy_from_slice(octets);
        self.length = end;
        Ok(())
    }

    fn numbers(&mut self, numbers: &[u32]) -> Result<(), ControlError> {
        numbers
            .iter()
            .try_for_each(|number| self.put(&number.to_be_bytes()))
    }

    fn label(&mut self, label: Label) -> Result<(), ControlError> {
        self.put(&label.0.to_be_bytes())
    }

    fn body(&mut self, control: &Control) -> Result<(), ControlError> {
        match control {
            Control::Error {
                code,
                cause,
                handle,
                rest,
            } => {
                self.numbers(&[code.0])?;
                self.put(&cause.encode())?;
                self.numbers(&[*handle])?;
                self.put(rest)
            }
            Control::Ping { version, opaque } => {
                self.numbers(&[magic::PING, *version])?;
                self.put(opaque)
            }
            Control::Pong { version, opaque } => {
                self.numbers(&[magic::PONG, *version])?;
                self.put(opaque)
            }
            Control::KeyPing {
                version,
                key,
                opaque,
            } => self.key(magic::KEY_PING, *version, key, opaque),
            Control::KeyPong {
                version,
                key,
                opaque,
            } => self.key(magic::KEY_PONG, *version, key, opaque),
            Control::SnodeQuery(snode) => self.snode(magic::QUERY, snode),
            Control::SnodeReply(snode) => self.snode(magic::REPLY, snode),
            Control::RpathQuery {
                version,
                path,
                opaque,
            } => self.rpath(magic::QUERY, *version, *path, opaque),
            Control::RpathReply {
                version,
                path,
                opaque,
            } => self.rpath(magic::REPLY, *version, *path, opaque),
            Control::LinkQuery { version, opaque } => {
                self.numbers(&[magic::LINK_QUERY, *version])?;
                self.put(&[0; link::LEN])?;
                self.put(opaque)
            }
            Control::LinkReply {
                version,
                address,
                opaque,
            } => {
                self.numbers(&[magic::LINK_REPLY, *version])?;
                self.address(address)?;
                self.put(opaque)
            }
        }
    }

    fn key(
        &mut self,
        magic: u32,
        version: u32,
        key: &[u8],
        opaque: &[u8],
    ) -> Result<(), ControlError> {
        if opaque.len() > MAX_KEY_OPAQUE {
            return Err(ControlError::Opaque(opaque.len()));
        }
        self.numbers(&[magic, version])?;
        self.put(key)?;
        self.put(opaque)
    }

    fn snode(&mut self, magic: u32, snode: &Snode) -> Result<(), ControlError> {
        self.numbers(&[magic, snode.version, snode.snode_version, snode.kbps])?;
        self.put(&snode.key)?;
        self.label(snode.path)?;
        self.put(snode.opaque)
    }

    fn rpath(
        &mut self,
        magic: u32,
        version: u32,
        path: Label,
        opaque: &[u8],
    ) -> Result<(), ControlError> {
        self.numbers(&[magic, version])?;
        self.label(path)?;
        self.put(opaque)
    }

    /// Writes a link address, padded with zeros to the length of the field.
    fn address(&mut self, address: &LinkAddress) -> Result<(), ControlError> {
        let mut octets = [0; link::LEN];
        let mut fields = Writer {
            out: &mut octets,
            length: 0,
        };
        match address {
            LinkAddress::Udp4(socket) => {
                fields.put(&[link::UDP4.0, link::UDP4.1])?;
                fields.put(&socket.port().to_be_bytes())?;
                fields.put(&socket.ip().octets())?;
            }
            LinkAddress::Udp6(socket) => {
                fields.put(&[link::UDP6.0, link::UDP6.1])?;
                fields.put(&socket.port().to_be_bytes())?;
                fields.put(&socket.ip().octets())?;
            }
            LinkAddress::Other(other) => {
                fields.put(&[link::OTHER.0, link::OTHER.1])?;
                fields.put(other)?;
            }
        }
        self.put(&octets)
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
