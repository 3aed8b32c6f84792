//! Packing messages into packets.

use alloc::vec::Vec;

/// Packs encoded messages, in order, into as few packets of bounded size as
/// order permits (RFC 5444, section 5.1).
#[derive(Clone, Debug)]
pub struct PacketWriter {
    limit: usize,
    bodies: Vec<Vec<u8>>,
}

impl PacketWriter {
    /// A writer of packets of at most `limit` octets, header included.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            bodies: Vec::new(),
        }
    }

    /// Adds a message from [`crate::Message::encode`] or [`crate::forward_copy`].
    ///
    /// A message that alone exceeds the limit gets a packet of its own.
    pub fn push(&mut self, message: &[u8]) {
        let _ = (self.limit, message);
        unimplemented!()
    }

    /// The packets, each with the sequence number that `next_seq` returns for
    /// it, or none.
    pub fn finish(self, mut next_seq: impl FnMut() -> Option<u16>) -> Vec<Vec<u8>> {
        let _ = (next_seq(), self.bodies);
        unimplemented!()
    }
}
