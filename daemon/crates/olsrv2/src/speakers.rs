//! The originators that sign their messages: with which key, and which of their counters were taken in.

use alloc::collections::BTreeMap;
use core::net::IpAddr;
use core::time::Duration;

use icv::{Claim, KEY_LENGTH};
use nhdp::{InterfaceId, Time};

use crate::signatures::{Proof, TrustedKey};
use crate::window::Window;

/// Time after an unsigned message for which no key takes its originator, unless a card or a hash says so.
const UNSIGNED: Duration = Duration::from_secs(60);

/// Time after a signed message for which nobody speaks unsigned, or with another key, for its originator.
const BOUND: Duration = Duration::from_secs(300);

/// How a message travels. HELLOs are heard on each interface, and do not repeat there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// From the neighbour itself, on this interface.
    Direct(InterfaceId),
    /// Over any number of hops.
    Flooded,
}

/// Why a claim is refused before its signature is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Its counter was taken in already, or is too old.
    Replayed,
    /// Another key is bound to the originator.
    OtherKey,
}

/// An originator that signs.
#[derive(Debug)]
struct Speaker {
    key: [u8; KEY_LENGTH],
    /// The highest floor that it has announced.
    floor: u64,
    windows: BTreeMap<Way, Window>,
    /// The highest counter that was heard on an interface which is gone. Later HELLOs have higher ones, wherever they
    /// are heard.
    gone: Option<u64>,
    heard: Time,
}

/// All of them, and the keys of trusted routers.
#[derive(Debug, Default)]
pub(crate) struct Speakers {
    speakers: BTreeMap<IpAddr, Speaker>,
    trusted: BTreeMap<IpAddr, TrustedKey>,
    /// When a believed message without a signature was heard last from an originator.
    unsigned: BTreeMap<IpAddr, Time>,
}

impl Speakers {
    /// Sets the keys of trusted routers by address. What another key has said under such an address is forgotten.
    pub(crate) fn set_trusted(&mut self, trusted: BTreeMap<IpAddr, TrustedKey>) {
        self.speakers.retain(|address, speaker| {
            let card = trusted.get(address);
            card.is_none_or(|card| card.key == speaker.key)
        });
        self.trusted = trusted;
    }

    /// Returns whether nobody may speak unsigned for an originator.
    pub(crate) fn must_sign(&self, now: Time, originator: IpAddr) -> bool {
        let lately = |speaker: &Speaker| now < speaker.heard + BOUND;
        self.signs_by_card(originator) || self.speakers.get(&originator).is_some_and(lately)
    }

    /// Returns whether an address is that of a trusted router that is known to sign.
    pub(crate) fn signs_by_card(&self, address: IpAddr) -> bool {
        self.trusted.get(&address).is_some_and(|card| card.signs)
    }

    /// Returns whether an address is that of a trusted router.
    pub(crate) fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted.contains_key(&address)
    }

    /// Returns whether a key speaks for an originator already, or a card says which one does.
    pub(crate) fn is_bound(&self, originator: IpAddr) -> bool {
        self.speakers.contains_key(&originator) || self.is_trusted(originator)
    }

    /// Records a believed message without a signature. At `limit`, all records that have run out are removed, and a new
    /// originator is recorded when that made room.
    pub(crate) fn heard_unsigned(&mut self, now: Time, originator: IpAddr, limit: usize) {
        if self.unsigned.len() >= limit && !self.unsigned.contains_key(&originator) {
            self.unsigned.retain(|_, heard| now < *heard + UNSIGNED);
        }
        if self.unsigned.len() < limit || self.unsigned.contains_key(&originator) {
            self.unsigned.insert(originator, now);
        }
    }

    /// Returns whether an originator was heard without a signature lately.
    pub(crate) fn is_heard_unsigned(&self, now: Time, originator: IpAddr) -> bool {
        let heard = self.unsigned.get(&originator);
        heard.is_some_and(|heard| now < *heard + UNSIGNED)
    }

    /// Judges a claim by what is known of its originator.
    pub(crate) fn check(
        &self,
        now: Time,
        originator: IpAddr,
        claim: &Claim,
        way: Way,
    ) -> Result<(), Refused> {
        if self
            .trusted
            .get(&originator)
            .is_some_and(|card| card.key != claim.key)
        {
            return Err(Refused::OtherKey);
        }
        let Some(speaker) = self.speakers.get(&originator) else {
            return Ok(());
        };
        if speaker.key != claim.key {
            let is_free = now >= speaker.heard + BOUND;
            return if is_free {
                Ok(())
            } else {
                Err(Refused::OtherKey)
            };
        }
        let window = speaker.windows.get(&way).copied().unwrap_or_default();
        let is_new = claim.counter >= speaker.floor && window.is_new(claim.counter);
        let is_past = way != Way::Flooded && speaker.gone >= Some(claim.counter);
        if is_new && !is_past {
            Ok(())
        } else {
            Err(Refused::Replayed)
        }
    }

    /// Takes a verified claim in, which [`Speakers::check`] has passed. At `limit`, the originator that was heard
    /// longest ago gives way, trusted ones last.
    pub(crate) fn accept(
        &mut self,
        now: Time,
        originator: IpAddr,
        claim: &Claim,
        way: Way,
        limit: usize,
    ) -> Proof {
        if !self.speakers.contains_key(&originator) {
            self.make_room(limit);
        }
        let new = || Speaker {
            key: claim.key,
            floor: 0,
            windows: BTreeMap::new(),
            gone: None,
            heard: now,
        };
        let speaker = self.speakers.entry(originator).or_insert_with(new);
        if speaker.key != claim.key {
            *speaker = new();
        }
        speaker.heard = now;
        speaker.floor = speaker.floor.max(claim.floor());
        speaker.windows.entry(way).or_default().take(claim.counter);
        Proof {
            counter: claim.counter,
            floor: claim.floor(),
        }
    }

    /// Forgets what was heard on an interface that is gone, except that it is not taken in again.
    pub(crate) fn forget_interface(&mut self, interface: InterfaceId) {
        for speaker in self.speakers.values_mut() {
            let window = speaker.windows.remove(&Way::Direct(interface));
            let newest = window.and_then(|window| window.newest());
            speaker.gone = speaker.gone.max(newest);
        }
    }

    /// Returns the lowest counter that an originator has used lately, as far as it has said.
    pub(crate) fn floor(&self, originator: IpAddr) -> Option<u64> {
        self.speakers.get(&originator).map(|speaker| speaker.floor)
    }

    /// Returns the key with which an originator signs.
    pub(crate) fn key(&self, originator: IpAddr) -> Option<&[u8; KEY_LENGTH]> {
        self.speakers.get(&originator).map(|speaker| &speaker.key)
    }

    fn make_room(&mut self, limit: usize) {
        while self.speakers.len() >= limit.max(1) {
            let rank = |(address, speaker): &(&IpAddr, &Speaker)| {
                (self.trusted.contains_key(*address), speaker.heard)
            };
            let Some((&oldest, _)) = self.speakers.iter().min_by_key(rank) else {
                return;
            };
            self.speakers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use rfc5444::iana::message::HELLO;
    use rfc5444::Message;

    use super::*;

    const FROM: IpAddr = IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);

    fn claim(counter: u64) -> Claim {
        let hello = Message::new(HELLO, FROM).encode().unwrap();
        let signed = icv::Signer::new(&[7; KEY_LENGTH]).sign(&hello, counter, 0);
        let message = Message::decode(&signed.unwrap()).unwrap();
        let mut claim = Claim::read(&message.tlvs).unwrap().unwrap();
        // All have the floor 0, so that the windows alone decide.
        claim.age = u32::MAX;
        claim
    }

    /// Takes counters in on a way, and returns those that were new.
    fn hear(speakers: &mut Speakers, way: Way, counters: &[u64]) -> Vec<u64> {
        let mut take = |counter: &u64| {
            let claim = claim(*counter);
            let is_new = speakers.check(Time::ZERO, FROM, &claim, way).is_ok();
            if is_new {
                speakers.accept(Time::ZERO, FROM, &claim, way, 10);
            }
            is_new
        };
        let counters = counters.iter().copied();
        counters.filter(|counter| take(counter)).collect()
    }

    #[test]
    fn an_interface_that_is_gone_leaves_no_window_and_nothing_is_taken_in_twice() {
        let mut speakers = Speakers::default();
        assert_eq!(hear(&mut speakers, Way::Flooded, &[5, 9]), [5, 9]);
        for id in 0..1000 {
            let way = Way::Direct(InterfaceId(id));
            let base = 10 + 2 * u64::from(id);
            // What was heard on the interface before, and what is new.
            let again = [base - 2, base - 1];
            assert_eq!(hear(&mut speakers, way, &[base, base + 1]).len(), 2);
            assert!(id == 0 || hear(&mut speakers, way, &again).is_empty());
            speakers.forget_interface(InterfaceId(id));
            assert!(hear(&mut speakers, way, &[base, base + 1]).is_empty());
        }
        assert_eq!(speakers.speakers[&FROM].windows.len(), 1);
        assert_eq!(hear(&mut speakers, Way::Flooded, &[5, 8, 9, 10]), [8, 10]);
    }
}
