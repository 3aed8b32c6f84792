//! Writing the body of a control frame.

use super::numbers::{link, magic};
use super::{Control, LinkAddress, Snode, MAX_KEY_OPAQUE};
use crate::{ControlError, Label};

/// What has been written.
pub(super) struct Writer<'a> {
    pub(super) out: &'a mut [u8],
    pub(super) length: usize,
}

impl Writer<'_> {
    pub(super) fn put(&mut self, octets: &[u8]) -> Result<(), ControlError> {
        let end = self.length + octets.len();
        let room = self
            .out
            .get_mut(self.length..end)
            .ok_or(ControlError::Truncated)?;
        room.copy_from_slice(octets);
        self.length = end;
        Ok(())
    }

    pub(super) fn numbers(&mut self, numbers: &[u32]) -> Result<(), ControlError> {
        numbers
            .iter()
            .try_for_each(|number| self.put(&number.to_be_bytes()))
    }

    pub(super) fn label(&mut self, label: Label) -> Result<(), ControlError> {
        self.put(&label.0.to_be_bytes())
    }

    pub(super) fn body(&mut self, control: &Control) -> Result<(), ControlError> {
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

    pub(super) fn key(
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

    pub(super) fn snode(&mut self, magic: u32, snode: &Snode) -> Result<(), ControlError> {
        self.numbers(&[magic, snode.version, snode.snode_version, snode.kbps])?;
        self.put(&snode.key)?;
        self.label(snode.path)?;
        self.put(snode.opaque)
    }

    pub(super) fn rpath(
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
    pub(super) fn address(&mut self, address: &LinkAddress) -> Result<(), ControlError> {
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
