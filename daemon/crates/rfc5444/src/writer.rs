//! Packs messages into packets.

use alloc::vec::Vec;

use crate::encode::packet_header;
use crate::wire::PACKET_HEADER;

/// Packs encoded messages, in order, into packets of bounded size (RFC 5444, section 5.1).
#[derive(Clone, Debug)]
pub struct PacketWriter {
    body_limit: usize,
    bodies: Vec<Vec<u8>>,
}

impl PacketWriter {
    /// Returns a writer of packets of at most `limit` octets, header included.
    pub fn new(limit: usize) -> Self {
        let header = PACKET_HEADER + size_of::<u16>();
        Self {
            body_limit: limit.saturating_sub(header),
            bodies: Vec::new(),
        }
    }

    /// Adds a message from [`crate::Message::encode`] or [`crate::forward_copy`].
    ///
    /// A message that alone exceeds the limit gets a packet of its own.
    pub fn push(&mut self, message: &[u8]) {
        match self.bodies.last_mut() {
            Some(body) if body.len() + message.len() <= self.body_limit => body.extend(message),
            _ => self.bodies.push(message.to_vec()),
        }
    }

    /// Returns the packets. Each has the sequence number that `next_seq` returns for it, if any.
    pub fn finish(self, mut next_seq: impl FnMut() -> Option<u16>) -> Vec<Vec<u8>> {
        let packet = |body: Vec<u8>| {
            let mut packet = packet_header(next_seq());
            packet.extend(body);
            packet
        };
        self.bodies.into_iter().map(packet).collect()
    }
}
