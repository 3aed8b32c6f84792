//! The messages of this router that wait for their signature.
//!
//! The router never sees the private key. Its driver passes each message to the program that has the key, and brings
//! back what that program made of it. Messages are sent in the order in which they come back.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use icv::{Claim, Tokens, SECRET_LENGTH};
use nhdp::{Family, InterfaceId, Time};
use rfc5444::{iana, with_message_tlv, Message};

use super::Router;

/// Most messages that wait at a time, the oldest of which are dropped. While the signer does not answer, a newer message
/// also takes the place of older ones whose contents it repeats, so that no old ones are sent when it comes back.
const MAX_WAITING: usize = 64;

/// A message of this router to be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToSign {
    /// The encoded message.
    pub message: Vec<u8>,
    /// The lowest counter that this router has used lately; `None` when it has used none since its start.
    pub floor: Option<u64>,
    /// When it was made.
    pub(super) made: Time,
    pub(super) family: Family,
    pub(super) interfaces: Vec<InterfaceId>,
}

/// The tokens of this router's messages: of the HELLOs of each family on each interface, and of all others.
#[derive(Debug)]
pub(super) struct OwnTokens {
    secret: [u8; SECRET_LENGTH],
    /// How many streams there were.
    made: u64,
    streams: BTreeMap<(Family, Option<InterfaceId>), Tokens>,
}

impl OwnTokens {
    /// Starts with a secret that is only as good as `key`.
    pub(super) fn new(key: u64) -> Self {
        let mut secret = [0; SECRET_LENGTH];
        secret[..8].copy_from_slice(&key.to_be_bytes());
        Self {
            secret,
            made: 0,
            streams: BTreeMap::new(),
        }
    }

    /// Returns a message with the next token of its stream, or the message itself if it has no room.
    fn with_token(
        &mut self,
        family: Family,
        interfaces: &[InterfaceId],
        message: Vec<u8>,
    ) -> Vec<u8> {
        let is_hello = message.first() == Some(&iana::message::HELLO);
        let interface = interfaces.first().copied().filter(|_| is_hello);
        let Self {
            secret,
            made,
            streams,
        } = self;
        let tokens = streams.entry((family, interface)).or_insert_with(|| {
            *made += 1;
            Tokens::new(secret, *made)
        });
        with_message_tlv(&message, &tokens.next_tlv()).unwrap_or(message)
    }

    /// Forgets the tokens of an interface that is gone. If it comes back, it has others.
    pub(super) fn forget_interface(&mut self, interface: InterfaceId) {
        self.streams.retain(|(_, of), _| *of != Some(interface));
    }
}

impl Router {
    /// Sets the secret from which the tokens of this router's messages follow. It must be random, and new at each start.
    pub fn set_token_secret(&mut self, secret: [u8; SECRET_LENGTH]) {
        self.own_tokens = OwnTokens {
            secret,
            made: 0,
            streams: BTreeMap::new(),
        };
    }

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
        let new = ToSign {
            message: self.own_tokens.with_token(family, interfaces, message),
            floor: None,
            made: now,
            family,
            interfaces: interfaces.to_vec(),
        };
        self.to_sign.retain(|old| !new.replaces(old));
        if self.to_sign.len() >= MAX_WAITING {
            self.to_sign.pop_front();
        }
        self.to_sign.push_back(new);
    }
}

impl ToSign {
    /// Returns whether this message takes the place of an older one: it has the same type and family, and goes to
    /// the same interface. Several messages that were made at one time belong together.
    fn replaces(&self, old: &Self) -> bool {
        let is_same = (self.family, self.message.first()) == (old.family, old.message.first());
        let mut interfaces = old.interfaces.iter();
        is_same && old.made < self.made && interfaces.any(|id| self.interfaces.contains(id))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_message_takes_the_place_of_older_ones_of_its_kind_alone() {
        let waiting = |made, typ, family, interfaces: &[u32]| ToSign {
            message: vec![typ, 0],
            floor: None,
            made: Time::from_secs(made),
            family,
            interfaces: interfaces.iter().map(|id| InterfaceId(*id)).collect(),
        };
        let new = waiting(2, 1, Family::V6, &[1, 2]);
        for (made, typ, family, interfaces, replaced) in [
            (1, 1, Family::V6, &[1, 2][..], true),
            (1, 1, Family::V6, &[2, 3], true),
            (1, 1, Family::V6, &[3], false),
            (1, 0, Family::V6, &[1, 2], false),
            (1, 1, Family::V4, &[1, 2], false),
            // The parts of one TC are made at one time.
            (2, 1, Family::V6, &[1, 2], false),
        ] {
            let old = waiting(made, typ, family, interfaces);
            assert_eq!(new.replaces(&old), replaced, "{old:?}");
        }
    }
}
