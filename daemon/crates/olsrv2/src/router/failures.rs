//! How many signatures are verified, so that a flood of messages costs bounded time.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use nhdp::{InterfaceId, Time};

use crate::rate::Bucket;
use crate::seen::Seen;
use crate::speakers::Way;

/// False signatures of a source that are verified: how many at once, and how many a second from then on. Each costs
/// about a tenth of a millisecond.
const FAILURES_OF_SOURCE: (u32, u32) = (16, 4);
/// The same for a neighbour, whose address may be forged: what it passes on for others must not drown in what is sent in
/// its name.
const FAILURES_OF_NEIGHBOUR: (u32, u32) = (256, 128);
/// The same for all sources that are no neighbours, together.
const FAILURES_OF_STRANGERS: (u32, u32) = (128, 64);
/// How many originators that are heard signing for the first time are verified at once, and how many a second from then
/// on. Keys cost nothing, so an attacker can invent any number of routers. Trusted and known routers are not counted.
const NEWCOMERS: (u32, u32) = (512, 128);
/// Messages that are verified beyond all that: of originators whose key is known, by their cards or their messages, how
/// many for each and for all together, HELLOs and flooded ones apart; and HELLOs of sources that were heard lately and
/// have sent nothing false. A flood from invented addresses is neither, so a newcomer is found by its second HELLO.
const OF_KNOWN: (u32, u32) = (2, 1);
const OF_ALL_KNOWN: (u32, u32) = (128, 64);
const OF_SEEN: (u32, u32) = (128, 64);
/// Beyond that, one message of so many is verified. Source addresses can be forged, so a flood under somebody's address
/// delays what he sends, but does not silence him.
const SAMPLE: u64 = 16;
/// Most sources whose failures are counted.
const MAX_SOURCES: usize = 512;

/// A message that claims a signature.
pub(super) struct Claimed {
    pub source: (InterfaceId, IpAddr),
    pub way: Way,
    pub originator: IpAddr,
    /// Its source is a symmetric neighbour.
    pub is_neighbour: bool,
    /// No key is known for its originator.
    pub is_new: bool,
}

/// The false signatures of each source, and the true ones of new originators, so that a flood of them costs bounded time.
#[derive(Debug)]
pub(super) struct Failures {
    sources: BTreeMap<(InterfaceId, IpAddr), Bucket>,
    strangers: Bucket,
    newcomers: Bucket,
    /// Of originators whose key is known: their HELLOs, and what they flood.
    known_hellos: Known,
    known_floods: Known,
    seen: Seen,
    all_seen: Bucket,
    /// Messages beyond the budgets.
    beyond: u64,
}

/// What originators whose key is known have beyond the budgets of sources.
#[derive(Debug)]
struct Known {
    each: BTreeMap<IpAddr, Bucket>,
    all: Bucket,
}

impl Known {
    fn new(now: Time) -> Self {
        Self {
            each: BTreeMap::new(),
            all: Bucket::new(now, OF_ALL_KNOWN.0, OF_ALL_KNOWN.1),
        }
    }

    fn take(&mut self, now: Time, originator: IpAddr) -> bool {
        if !self.all.has(now) {
            return false;
        }
        if self.each.len() >= MAX_SOURCES {
            self.each.retain(|_, bucket| bucket.used(now) > 0);
        }
        let bucket = || Bucket::new(now, OF_KNOWN.0, OF_KNOWN.1);
        let is_full = self.each.len() >= MAX_SOURCES;
        let own = match self.each.get_mut(&originator) {
            None if is_full => None,
            _ => Some(self.each.entry(originator).or_insert_with(bucket)),
        };
        own.is_some_and(|own| own.take(now)) && self.all.take(now)
    }
}

impl Failures {
    /// Starts with full budgets. `key` is secret.
    pub(super) fn new(now: Time, key: u64) -> Self {
        let bucket = |(burst, per_second)| Bucket::new(now, burst, per_second);
        Self {
            sources: BTreeMap::new(),
            strangers: bucket(FAILURES_OF_STRANGERS),
            newcomers: bucket(NEWCOMERS),
            known_hellos: Known::new(now),
            known_floods: Known::new(now),
            seen: Seen::new(now, key),
            all_seen: bucket(OF_SEEN),
            beyond: 0,
        }
    }

    /// Returns whether a message of a source is worth a verification. A neighbour's HELLOs always are: their rate is
    /// limited anyway, and without them the link ends.
    pub(super) fn may_verify(&mut self, now: Time, claimed: &Claimed) -> bool {
        self.seen.expire(now);
        let own = self.sources.get(&claimed.source);
        let within = own.is_none_or(|own| own.has(now))
            && (claimed.is_neighbour || self.strangers.has(now))
            && (!claimed.is_new || self.newcomers.has(now));
        let is_hello = claimed.way != Way::Flooded;
        if within || is_hello && claimed.is_neighbour || self.is_reserved(now, claimed) {
            return true;
        }
        self.beyond += 1;
        self.beyond % SAMPLE == 0
    }

    /// Returns whether a message is verified although all that is due to its source is used up.
    fn is_reserved(&mut self, now: Time, claimed: &Claimed) -> bool {
        let is_hello = claimed.way != Way::Flooded;
        let known = match is_hello {
            true => &mut self.known_hellos,
            false => &mut self.known_floods,
        };
        if !claimed.is_new && known.take(now, claimed.originator) {
            return true;
        }
        let own = self.sources.get(&claimed.source);
        is_hello
            && self.seen.is_again(now, claimed.source)
            && own.is_none_or(|own| own.used(now) == 0)
            && self.all_seen.take(now)
    }

    /// Counts a false signature.
    pub(super) fn add(&mut self, now: Time, source: (InterfaceId, IpAddr), is_neighbour: bool) {
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&source) {
            // Those that have regained all of their budget are as good as forgotten.
            self.sources.retain(|_, bucket| bucket.used(now) > 0);
        }
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&source) {
            self.sources.pop_first();
        }
        let (burst, per_second) = if is_neighbour {
            FAILURES_OF_NEIGHBOUR
        } else {
            FAILURES_OF_SOURCE
        };
        let bucket = || Bucket::new(now, burst, per_second);
        self.sources.entry(source).or_insert_with(bucket).take(now);
        if !is_neighbour {
            self.strangers.take(now);
        }
    }

    /// Counts the true signature of an originator that is new.
    pub(super) fn add_newcomer(&mut self, now: Time) {
        self.newcomers.take(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u32) -> (InterfaceId, IpAddr) {
        let address = core::net::Ipv4Addr::from_bits(number);
        (InterfaceId(1), address.into())
    }

    #[test]
    fn failures_are_counted_for_so_many_sources_and_those_that_have_regained_all_give_way() {
        let mut failures = Failures::new(Time::ZERO, 1);
        let most = MAX_SOURCES as u32;
        for number in 1..most {
            failures.add(Time::ZERO, source(number), false);
        }
        // The last one, whose address is the lowest, has used up what it has.
        let later = Time::from_secs(1);
        let all = FAILURES_OF_SOURCE.0;
        (0..all).for_each(|_| failures.add(later, source(0), false));
        assert_eq!(failures.sources.len(), MAX_SOURCES);
        failures.add(later, source(most), false);
        assert_eq!(failures.sources.len(), 2);
        assert!(!failures.sources[&source(0)].has(later));
        for number in 0..2 * most {
            failures.add(later, source(number), false);
            assert!(failures.sources.len() <= MAX_SOURCES);
        }
    }

    #[test]
    fn strangers_share_a_budget_of_which_neighbours_use_nothing() {
        let mut failures = Failures::new(Time::ZERO, 1);
        let all = FAILURES_OF_STRANGERS.0;
        for (is_neighbour, left) in [(true, true), (false, false)] {
            for number in 0..all {
                failures.add(Time::ZERO, source(number), is_neighbour);
            }
            assert_eq!(failures.strangers.has(Time::ZERO), left);
        }
    }
}
