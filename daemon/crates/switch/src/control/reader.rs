//! Reading the body of a control frame.

use core::net::{SocketAddrV4, SocketAddrV6};

use super::numbers::{link, magic, typ};
use super::{Control, LinkAddress, Snode, MAX_KEY_OPAQUE};
use crate::header::Header;
use crate::{ControlError, ErrorCode, Label};

/// The octets that are still to be read.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ControlError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(ControlError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ControlError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ControlError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn label(&mut self) -> Result<Label, ControlError> {
        self.array().map(u64::from_be_bytes).map(Label)
    }

    /// Reads the magic number, which must be that of the type, and the version after it.
    pub(super) fn version(&mut self, magic: u32) -> Result<u32, ControlError> {
        match self.u32()? {
            found if found == magic => self.u32(),
            found => Err(ControlError::Magic(found)),
        }
    }

    pub(super) fn body(mut self, typ: u16) -> Result<Control<'a>, ControlError> {
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

    pub(super) fn error(mut self) -> Result<Control<'a>, ControlError> {
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

    pub(super) fn key(mut self, magic: u32) -> Result<(u32, [u8; 32], &'a [u8]), ControlError> {
        let (version, key) = (self.version(magic)?, self.array()?);
        match self.0.len() {
            0..=MAX_KEY_OPAQUE => Ok((version, key, self.0)),
            length => Err(ControlError::Opaque(length)),
        }
    }

    pub(super) fn snode(mut self, magic: u32) -> Result<Snode<'a>, ControlError> {
        Ok(Snode {
            version: self.version(magic)?,
            snode_version: self.u32()?,
            kbps: self.u32()?,
            key: self.array()?,
            path: self.label()?,
            opaque: self.0,
        })
    }

    pub(super) fn address(&mut self) -> Result<LinkAddress, ControlError> {
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
