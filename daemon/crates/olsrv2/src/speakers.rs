//! The originators that sign their messages: with which key, and which of their counters were taken in.

mod room;

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

/// Time within which a HELLO is heard on all interfaces that hear it. Later it is a copy of somebody's.
const AT_ONCE: Duration = Duration::from_secs(1);

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

/// What was taken in by one way.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    window: Window,
    /// The highest floor that was announced.
    floor: u64,
}

/// The newest HELLOs by any interface, so that one that was heard on an interface does not make a link on another one
/// later.
#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    /// The highest counter of those before `since`.
    before: Option<u64>,
    /// The highest one of those in `AT_ONCE` from `since` on.
    lately: Option<u64>,
    since: Time,
}

impl Newest {
    /// Returns the highest counter that was heard more than `AT_ONCE` ago, up to twice that.
    fn settled(&self, now: Time) -> Option<u64> {
        match now >= self.since + 2 * AT_ONCE {
            true => self.before.max(self.lately),
            false => self.before,
        }
    }

    fn take(&mut self, now: Time, counter: u64) {
        if now >= self.since + AT_ONCE {
            self.before = self.before.max(self.lately);
            self.since = now;
        }
        self.lately = self.lately.max(Some(counter));
    }
}

/// An originator that signs.
#[derive(Debug)]
struct Speaker {
    key: [u8; KEY_LENGTH],
    heard_by: BTreeMap<Way, Heard>,
    hellos: Newest,
    /// The highest counter that was heard on an interface which is gone. Later HELLOs have higher ones, wherever they
    /// are heard.
    gone: Option<u64>,
    heard: Time,
    /// The neighbour with which the last confirmed route to it began.
    first_hop: Option<IpAddr>,
}

impl Speaker {
    /// Returns the lowest counter that it has used lately, as far as it has said by any way.
    fn floor(&self) -> u64 {
        let floors = self.heard_by.values().map(|heard| heard.floor);
        floors.max().unwrap_or_default()
    }

    /// Returns whether a counter was not taken in, and is not below the floor. A HELLO is judged by HELLOs alone, so that
    /// a copy of its sender's key, somewhere in the network with higher counters, does not take its links away.
    fn is_new(&self, now: Time, counter: u64, way: Way) -> bool {
        let heard = self.heard_by.get(&way).copied().unwrap_or_default();
        let (floor, old) = match way {
            Way::Flooded => (self.floor(), None),
            Way::Direct(_) => (heard.floor, self.gone.max(self.hellos.settled(now))),
        };
        counter >= floor && old < Some(counter) && heard.window.is_new(counter)
    }
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

    /// Returns whether an address is bound to another key than this one: by a card, or by what was signed lately.
    pub(crate) fn is_of_other(&self, now: Time, address: IpAddr, key: &[u8; KEY_LENGTH]) -> bool {
        let card = self.trusted.get(&address).map(|card| card.key);
        let speaker = self.speakers.get(&address);
        let lately = speaker.filter(|speaker| now < speaker.heard + BOUND);
        let bound = card.or(lately.map(|speaker| speaker.key));
        bound.is_some_and(|bound| bound != *key)
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
        if speaker.is_new(now, claim.counter, way) {
            Ok(())
        } else {
            Err(Refused::Replayed)
        }
    }

    /// Takes a verified claim in, which [`Speakers::check`] has passed. At `limit`, others give way
    /// to a new originator, trusted ones last.
    pub(crate) fn accept(
        &mut self,
        now: Time,
        originator: IpAddr,
        claim: &Claim,
        way: Way,
        limit: usize,
    ) -> Proof {
        if !self.speakers.contains_key(&originator) {
            self.make_room(now, limit);
        }
        let new = || Speaker {
            key: claim.key,
            heard_by: BTreeMap::new(),
            hellos: Newest::default(),
            gone: None,
            heard: now,
            first_hop: None,
        };
        let speaker = self.speakers.entry(originator).or_insert_with(new);
        if speaker.key != claim.key {
            *speaker = new();
        }
        speaker.heard = now;
        let heard = speaker.heard_by.entry(way).or_default();
        heard.floor = heard.floor.max(claim.floor());
        heard.window.take(claim.counter);
        if way != Way::Flooded {
            speaker.hellos.take(now, claim.counter);
        }
        Proof {
            counter: claim.counter,
            floor: claim.floor(),
        }
    }

    /// Forgets what was heard on an interface that is gone, except that it is not taken in again.
    pub(crate) fn forget_interface(&mut self, interface: InterfaceId) {
        for speaker in self.speakers.values_mut() {
            let heard = speaker.heard_by.remove(&Way::Direct(interface));
            let newest = heard.and_then(|heard| heard.window.newest());
            speaker.gone = speaker.gone.max(newest);
        }
    }

    /// Returns the lowest counter that an originator has used lately, as far as it has said.
    pub(crate) fn floor(&self, originator: IpAddr) -> Option<u64> {
        self.speakers.get(&originator).map(Speaker::floor)
    }

    /// Returns the key with which an originator signs.
    pub(crate) fn key(&self, originator: IpAddr) -> Option<&[u8; KEY_LENGTH]> {
        self.speakers.get(&originator).map(|speaker| &speaker.key)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use rfc5444::iana::message::HELLO;
    use rfc5444::Message;

    use super::*;

    const FROM: IpAddr = IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);

    pub(super) fn claim(counter: u64) -> Claim {
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
    fn a_floor_in_a_flooded_message_is_none_for_hellos_and_one_in_a_hello_is_for_both() {
        let mut speakers = Speakers::default();
        let mut accept = |way, counter, age| {
            let mut claim = claim(counter);
            claim.age = age;
            let judged = speakers.check(Time::ZERO, FROM, &claim, way);
            if judged.is_ok() {
                speakers.accept(Time::ZERO, FROM, &claim, way, 10);
            }
            judged
        };
        let [near, far] = [0, 1].map(|id| Way::Direct(InterfaceId(id)));
        assert_eq!(accept(Way::Flooded, 1000, 0), Ok(()));
        assert_eq!(accept(near, 50, 0), Ok(()));
        assert_eq!(accept(near, 49, 0), Err(Refused::Replayed));
        assert_eq!(accept(far, 49, 0), Ok(()));
        assert_eq!(accept(Way::Flooded, 999, 999), Err(Refused::Replayed));
        assert_eq!(accept(far, 2000, 0), Ok(()));
        assert_eq!(accept(Way::Flooded, 1999, 1999), Err(Refused::Replayed));
        assert_eq!(accept(Way::Flooded, 2001, 0), Ok(()));
    }

    #[test]
    fn of_interfaces_that_are_gone_the_highest_counter_counts() {
        let mut speakers = Speakers::default();
        let way = |id| Way::Direct(InterfaceId(id));
        assert_eq!(hear(&mut speakers, way(1), &[9]), [9]);
        assert_eq!(hear(&mut speakers, way(2), &[5]), [5]);
        // The third one has heard nothing.
        for id in [1, 2, 3] {
            speakers.forget_interface(InterfaceId(id));
        }
        assert_eq!(hear(&mut speakers, way(4), &[5, 9, 10]), [10]);
    }

    #[test]
    fn as_many_are_heard_unsigned_as_have_room_and_a_new_one_when_another_has_run_out() {
        let of = |number| IpAddr::from([10, 0, 0, number]);
        let mut speakers = Speakers::default();
        let mut hear = |now, number| {
            speakers.heard_unsigned(now, of(number), 2);
            assert!(speakers.unsigned.len() <= 2);
            [1, 2, 3].map(|number| speakers.is_heard_unsigned(now, of(number)))
        };
        assert_eq!(hear(Time::ZERO, 1), [true, false, false]);
        assert_eq!(hear(Time::ZERO, 2), [true, true, false]);
        assert_eq!(hear(UNSIGNED / 2, 3), [true, true, false], "full");
        assert_eq!(hear(UNSIGNED / 2, 2), [true, true, false], "known");
        let end = UNSIGNED - Duration::from_nanos(1);
        assert_eq!(hear(end, 3), [true, true, false], "nobody has run out");
        assert_eq!(hear(UNSIGNED, 3), [false, true, true]);
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
        assert_eq!(speakers.speakers[&FROM].heard_by.len(), 1);
        assert_eq!(hear(&mut speakers, Way::Flooded, &[5, 8, 9, 10]), [8, 10]);
    }
}
