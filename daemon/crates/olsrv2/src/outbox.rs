//! Messages that wait for a packet. Forwarded ones wait for their jitter and are then sent together with other due
//! messages (RFC 5148, section 5.3).

use alloc::vec::Vec;

use nhdp::Time;
use rfc5444::PacketWriter;

/// Largest size of the waiting messages in bytes. Beyond it, messages are sent at once.
const MAX_WAITING: usize = 65_536;

/// The messages that wait for packets of one family on one interface.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: Vec<Vec<u8>>,
    octets: usize,
    due: Option<Time>,
}

impl Outbox {
    /// Adds a message that must be sent at `due`, or with an earlier packet.
    pub(crate) fn push(&mut self, message: Vec<u8>, now: Time, due: Time) {
        self.octets += message.len();
        self.messages.push(message);
        let due = if self.octets > MAX_WAITING { now } else { due };
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// When the next packet is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// The packets with all waiting messages, once the first of them is due.
    pub(crate) fn take_due(
        &mut self,
        now: Time,
        packet_size: usize,
        seq: &mut u16,
    ) -> Vec<Vec<u8>> {
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let Self { messages, .. } = core::mem::take(self);
        let mut writer = PacketWriter::new(packet_size);
        messages.iter().for_each(|message| writer.push(message));
        writer.finish(|| {
            *seq = seq.wrapping_add(1);
            Some(*seq)
        })
    }
}
