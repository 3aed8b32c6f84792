//! Whether a message is what its originator has sent: its signature and its counter.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use icv::{has_other_icv, is_hash, Claim, Fault, Shown};
use nhdp::{InterfaceId, Time};
use rfc5444::{iana, Message, RawMessage, Tlv};

use super::failures::Claimed;
use super::input::is_neighbour;
use super::Router;
use crate::expected::Stream;
use crate::instance::Instance;
use crate::signatures::{Proof, Signatures, TrustedKey};
use crate::speakers::{Refused, Way};

/// Verifies that the key of a claim has signed a message, and may speak for its originator.
pub type Verify = fn(&Claim, IpAddr, &[u8]) -> Result<(), Fault>;

/// What a message's signature says of its originator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// Nothing: the message is not signed, or signatures are not looked at.
    Unknown,
    /// The originator has sent it.
    Proven(Proof),
}

impl Author {
    pub(super) fn proof(self) -> Option<Proof> {
        match self {
            Self::Unknown => None,
            Self::Proven(proof) => Some(proof),
        }
    }
}

impl Router {
    /// Sets the keys of trusted routers by address. What others have signed under such an address is not believed.
    pub fn set_trusted_keys(&mut self, keys: BTreeMap<IpAddr, TrustedKey>) {
        self.speakers.set_trusted(keys);
        let instances = self.instances.iter_mut();
        instances.for_each(Instance::beliefs_changed);
    }

    /// Replaces [`Claim::verify`]. The routers of a simulation share what it returns, because all of them verify the same
    /// messages.
    pub fn set_verify(&mut self, verify: Verify) {
        self.verify = verify;
    }

    /// Returns who has sent a message, or `None` when it must be dropped. Counts why.
    pub(super) fn judge(
        &mut self,
        now: Time,
        origin: (InterfaceId, IpAddr),
        way: Way,
        raw: &RawMessage,
        message: Option<&Message>,
    ) -> Option<Author> {
        if self.config.signatures == Signatures::Off {
            return Some(Author::Unknown);
        }
        let claim = message.map_or(Ok(None), |message| Claim::read(&message.tlvs));
        let is_altered = || message.is_some_and(|message| has_other_icv(&message.tlvs));
        match (claim, raw.header.originator) {
            (Ok(Some(_)), Some(_)) if is_altered() => {
                self.counters.forged += 1;
                None
            }
            (Ok(None), originator) => self.judge_unsigned(now, originator),
            (Ok(Some(claim)), Some(originator)) => {
                let shown = message.and_then(|message| Shown::read(&message.tlvs));
                self.judge_claim(now, origin, way, raw, originator, (&claim, shown))
            }
            (Ok(Some(_)), None) | (Err(_), _) => {
                self.counters.forged += 1;
                None
            }
        }
    }

    fn judge_unsigned(&mut self, now: Time, originator: Option<IpAddr>) -> Option<Author> {
        if self.config.signatures == Signatures::Require {
            self.counters.not_signed += 1;
            return None;
        }
        if originator.is_some_and(|originator| self.speakers.must_sign(now, originator)) {
            self.counters.forged += 1;
            return None;
        }
        Some(Author::Unknown)
    }

    /// Returns whether a HELLO may leave its originator to be found in its addresses. Nobody can have signed it.
    pub(super) fn may_be_implied(&mut self, now: Time, originator: IpAddr) -> bool {
        self.config.signatures == Signatures::Off
            || self.judge_unsigned(now, Some(originator)).is_some()
    }

    fn judge_claim(
        &mut self,
        now: Time,
        origin: (InterfaceId, IpAddr),
        way: Way,
        raw: &RawMessage,
        originator: IpAddr,
        (claim, shown): (&Claim, Option<Shown>),
    ) -> Option<Author> {
        match self.speakers.check(now, originator, claim, way) {
            Ok(()) => {}
            Err(Refused::Replayed) => {
                self.counters.replayed += 1;
                return None;
            }
            Err(Refused::OtherKey) => {
                self.counters.forged += 1;
                return None;
            }
        }
        if self.is_contested(now, originator, origin.1) {
            return self.judge_unsigned(now, Some(originator));
        }
        let claimed = Claimed {
            source: origin,
            way,
            originator,
            is_neighbour: is_neighbour(&self.instances, origin.0, origin.1),
            is_new: !self.speakers.is_bound(originator),
        };
        let stream = stream(raw, originator, origin);
        let may_verify = self.failures.may_verify(now, &claimed);
        if !may_verify && !self.grants(now, stream, shown) {
            self.counters.rate_limited += 1;
            return None;
        }
        self.counters.verified += 1;
        if (self.verify)(claim, originator, raw.octets).is_err() {
            self.failures.add(now, origin, claimed.is_neighbour);
            self.counters.forged += 1;
            return None;
        }
        if claimed.is_new {
            self.failures.add_newcomer(now);
        }
        let limit = self.config.limits.nodes;
        self.expected
            .verified(now, stream, shown, claim.counter, limit);
        let proof = self.speakers.accept(now, originator, claim, way, limit);
        let mut instances = self.instances.iter();
        if let Some(hop) = instances.find_map(|one| one.first_hop_to(originator)) {
            self.speakers.reached(originator, hop);
        }
        Some(Author::Proven(proof))
    }

    /// Returns whether a message, for which no budget is left, has the next token of its originator.
    pub(super) fn is_expected(
        &mut self,
        now: Time,
        origin: (InterfaceId, IpAddr),
        raw: &RawMessage,
    ) -> bool {
        let Some(originator) = raw.header.originator else {
            return false;
        };
        let tlvs: Vec<Tlv> = raw.message_tlvs().unwrap_or_default();
        let stream = stream(raw, originator, origin);
        self.grants(now, stream, Shown::read(&tlvs))
    }

    fn grants(&mut self, now: Time, stream: Stream, shown: Option<Shown>) -> bool {
        let is_trusted = self.speakers.is_trusted(stream.originator);
        self.expected.grants(now, stream, shown, is_trusted)
    }

    /// Returns whether another router is heard without a signature under an originator that no key proves. A signature
    /// then says nothing: anybody could bind the originator to his own key. The router itself, once it signs, has sent
    /// nothing unsigned for a while, or sends from the address that is known.
    fn is_contested(&self, now: Time, originator: IpAddr, source: IpAddr) -> bool {
        if self.speakers.is_bound(originator) || is_hash(originator) {
            return false;
        }
        let rival = |one: &Instance| one.has_unsigned_neighbour(originator, source);
        self.instances.iter().any(rival) || self.speakers.is_heard_unsigned(now, originator)
    }

    /// Returns whether a message is a copy of one that this router has signed: a counter of its own key that it has used.
    pub(super) fn is_echo(&self, message: &Message) -> bool {
        let claim = Claim::read(&message.tlvs).ok().flatten();
        claim.is_some_and(|claim| {
            self.own_key == Some(claim.key) && self.own_counters.newest() >= Some(claim.counter)
        })
    }

    /// Returns whether another router has signed a message with this router's originator by this router's key. Echoes
    /// of what this router has sent, by far the most of them, are recognised by their counters, without arithmetic.
    pub(super) fn is_twins(
        &mut self,
        now: Time,
        origin: (InterfaceId, IpAddr),
        raw: &RawMessage,
    ) -> bool {
        let message = raw.decode().ok();
        let claim = message.as_ref().map(|message| Claim::read(&message.tlvs));
        let Some(Ok(Some(claim))) = claim else {
            return false;
        };
        let is_of_other = self.own_key.is_some_and(|own| own != claim.key);
        self.counters.forged += u64::from(is_of_other);
        let newest = self.own_counters.newest();
        let is_echo = newest.is_some_and(|newest| claim.counter <= newest);
        if is_of_other || is_echo || self.own_key.is_none() {
            return false;
        }
        let author = self.judge(now, origin, Way::Flooded, raw, message.as_ref());
        author.is_some_and(|author| author.proof().is_some())
    }
}

/// Returns whose tokens a message continues.
fn stream(raw: &RawMessage, originator: IpAddr, origin: (InterfaceId, IpAddr)) -> Stream {
    let is_hello = raw.header.typ == iana::message::HELLO;
    Stream {
        originator,
        hellos: is_hello.then_some(origin),
    }
}
