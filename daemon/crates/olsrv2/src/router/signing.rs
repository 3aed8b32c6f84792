//! The messages of this router that wait for their signature.
//!
//! The router never sees the private key. Its driver passes each message to the program that has the key, and brings
//! back what that program made of it. Messages are sent in the order in which they come back.

use alloc::vec::Vec;

use icv::Claim;
use nhdp::{Family, InterfaceId, Time};
use rfc5444::Message;

use super::Router;

/// Most messages that wait at a time. When the signer does not answer, the oldest ones are dropped: newer ones replace
/// what they say.
const MAX_WAITING: usize = 64;

/// A message of this router to be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToSign {
    /// The encoded message.
    pub message: Vec<u8>,
    /// The lowest counter that this router has used lately; `None` when it has used none since its start.
    pub floor: Option<u64>,
    pub(super) family: Family,
    pub(super) interfaces: Vec<InterfaceId>,
}

impl Router {
    /// Sets whether this router's messages are signed before they are sent.
    pub fn set_signing(&mut self, signing: bool) {
        self.signing = signing;
        self.own_key = None;
        if !signing {
            self.to_sign.clear();
        }
    }

    /// The next message to sign. Give it back with [`Router::handle_signed`].
    pub fn poll_sign(&mut self) -> Option<ToSign> {
        let mut next = self.to_sign.pop_front()?;
        next.floor = self.own_counters.floor();
        Some(next)
    }

    /// Sends a message that was signed with `counter`; `signed` is the message with its signature.
    pub fn handle_signed(&mut self, now: Time, request: &ToSign, signed: &[u8], counter: u64) {
        self.own_counters.used(now, counter);
        let key = || Claim::read(&Message::decode(signed).ok()?.tlvs).ok()?;
        self.own_key = self.own_key.or_else(|| Some(key()?.key));
        for id in &request.interfaces {
            self.push(*id, request.family, signed.to_vec(), now, now);
        }
        self.transmit_due(now);
    }

    /// Sends a message of this router on these interfaces, once it is signed if it is to be.
    pub(super) fn publish(
        &mut self,
        now: Time,
        family: Family,
        interfaces: &[InterfaceId],
        message: Vec<u8>,
    ) {
        if !self.signing {
            let push = |id: &InterfaceId| self.push(*id, family, message.clone(), now, now);
            return interfaces.iter().for_each(push);
        }
        if self.to_sign.len() >= MAX_WAITING {
            self.to_sign.pop_front();
        }
        self.to_sign.push_back(ToSign {
            message,
            floor: None,
            family,
            interfaces: interfaces.to_vec(),
        });
    }
}
