//! Values to octets.

use alloc::vec::Vec;

use crate::{EncodeError, Message, Packet};

impl Packet {
    /// The octets of the packet.
    ///
    /// # Errors
    ///
    /// A value that does not fit its field, see [`EncodeError`].
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        unimplemented!()
    }
}

impl Message {
    /// The octets of the message.
    ///
    /// # Errors
    ///
    /// A value that does not fit its field, see [`EncodeError`].
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        unimplemented!()
    }
}
