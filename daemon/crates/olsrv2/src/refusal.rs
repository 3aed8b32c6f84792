//! What the router refused recently, and where it came from.
//!
//! An operator needs to know that somebody fills the tables, on which interface and from which addresses. Counters
//! since the start do not show this. This module keeps the last minute, in a few kilobytes in every case.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use nhdp::{InterfaceId, Time};

use crate::event::Counters;

/// Length of a window. A refusal is forgotten after one to two windows.
const WINDOW: Duration = Duration::from_secs(60);

/// Number of sources, and of claims, that are kept for each kind of refusal.
const MAX_SOURCES: usize = 8;

/// Why something from the network was refused; each has a counter of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalKind {
    /// A set was full: something was not stored, or took the place of something else.
    OverLimit,
    /// A source, or all strangers of an interface, sent more than is processed.
    RateLimited,
    /// It does not decode.
    Malformed,
    /// It claims an address of this router for its sender.
    Spoofed,
    /// It claims things about other routers that they deny, or that only they may say. A few are normal when packets
    /// are lost.
    Disbelieved,
    /// Its signature is false, missing where its originator signs, or of another key.
    Forged,
    /// It has no signature, and signatures are required.
    NotSigned,
    /// It was sent before.
    Replayed,
}

/// What was refused for one reason in the last one to two minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub kind: RefusalKind,
    /// How often.
    pub count: u64,
    /// The last time.
    pub last: Time,
    /// The sources with the most refusals, the largest first. If there are many sources, the counts are upper bounds.
    pub sources: Vec<RefusalSource>,
    /// How often a source was replaced by another. It is large when somebody invents addresses.
    pub further_sources: u64,
    /// In whose name messages were refused, and by whom they came: those with the most, the largest first.
    pub claims: Vec<RefusalClaim>,
}

/// An originator in whose name a source has sent messages that were refused. The source may have passed them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalClaim {
    /// The originator that the messages name; it can be forged.
    pub originator: IpAddr,
    /// By whom they came, and how many.
    pub source: RefusalSource,
}

/// A source whose messages were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalSource {
    /// The interface on which they came.
    pub interface: InterfaceId,
    /// The source address of the packets; it can be forged.
    pub address: IpAddr,
    /// How often.
    pub count: u64,
}

impl RefusalKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::OverLimit,
        Self::RateLimited,
        Self::Malformed,
        Self::Spoofed,
        Self::Disbelieved,
        Self::Forged,
        Self::NotSigned,
        Self::Replayed,
    ];

    fn count(self, counters: &Counters) -> u64 {
        match self {
            Self::OverLimit => counters.over_limit,
            Self::RateLimited => counters.rate_limited,
            Self::Malformed => counters.malformed,
            Self::Spoofed => counters.spoofed,
            Self::Disbelieved => counters.disbelieved,
            Self::Forged => counters.forged,
            Self::NotSigned => counters.not_signed,
            Self::Replayed => counters.replayed,
        }
    }
}

/// The refusals of this and of the last window.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    kinds: [Record; RefusalKind::ALL.len()],
}

/// The refusals of one kind.
#[derive(Debug, Default)]
struct Record {
    /// When the present window began.
    began: Time,
    before: Window,
    present: Window,
    last: Time,
}

#[derive(Debug, Default)]
struct Window {
    count: u64,
    sources: Vec<RefusalSource>,
    further_sources: u64,
    claims: Vec<RefusalClaim>,
}

impl Refusals {
    /// Charges what a packet added to the counters to its source.
    pub(crate) fn note(
        &mut self,
        now: Time,
        (interface, address): (InterfaceId, IpAddr),
        before: &Counters,
        after: &Counters,
    ) {
        for (kind, record) in RefusalKind::ALL.into_iter().zip(&mut self.kinds) {
            let count = kind.count(after) - kind.count(before);
            if count > 0 {
                record.advance(now);
                record.last = now;
                record.present.add(interface, address, count);
            }
        }
    }

    /// Charges what a message added to the counters to its originator. The packet charges its source.
    pub(crate) fn note_claim(
        &mut self,
        now: Time,
        (interface, address): (InterfaceId, IpAddr),
        originator: IpAddr,
        before: &Counters,
        after: &Counters,
    ) {
        for (kind, record) in RefusalKind::ALL.into_iter().zip(&mut self.kinds) {
            let count = kind.count(after) - kind.count(before);
            if count > 0 {
                record.advance(now);
                let source = RefusalSource {
                    interface,
                    address,
                    count,
                };
                record
                    .present
                    .add_claim(RefusalClaim { originator, source });
            }
        }
    }

    /// What was refused lately.
    pub(crate) fn recent(&self, now: Time) -> Vec<Refusal> {
        let kinds = RefusalKind::ALL.into_iter().zip(&self.kinds);
        kinds
            .filter_map(|(kind, record)| record.view(now, kind))
            .collect()
    }
}

impl Record {
    fn advance(&mut self, now: Time) {
        let elapsed = now.saturating_sub(self.began);
        if elapsed >= WINDOW {
            let ended = core::mem::take(&mut self.present);
            self.before = if elapsed < 2 * WINDOW {
                ended
            } else {
                Window::default()
            };
            self.began = now;
        }
    }

    fn view(&self, now: Time, kind: RefusalKind) -> Option<Refusal> {
        let elapsed = now.saturating_sub(self.began);
        let windows = [
            (&self.present, elapsed < 2 * WINDOW),
            (&self.before, elapsed < WINDOW),
        ];
        let mut all = Window::default();
        for window in windows
            .into_iter()
            .filter_map(|(window, recent)| recent.then_some(window))
        {
            all.count += window.count;
            all.further_sources += window.further_sources;
            for source in &window.sources {
                all.add_source(*source);
            }
            for claim in &window.claims {
                all.add_claim(*claim);
            }
        }
        all.sources
            .sort_by_key(|source| core::cmp::Reverse(source.count));
        all.claims
            .sort_by_key(|claim| core::cmp::Reverse(claim.source.count));
        (all.count > 0).then_some(Refusal {
            kind,
            count: all.count,
            last: self.last,
            sources: all.sources,
            further_sources: all.further_sources,
            claims: all.claims,
        })
    }
}

impl Window {
    fn add(&mut self, interface: InterfaceId, address: IpAddr, count: u64) {
        self.count += count;
        self.add_source(RefusalSource {
            interface,
            address,
            count,
        });
    }

    /// Counts a source. A new one takes the place, and the count, of the source with the least (Metwally's
    /// space-saving).
    fn add_source(&mut self, new: RefusalSource) {
        let mut sources = self.sources.iter_mut();
        let known =
            sources.find(|known| (known.interface, known.address) == (new.interface, new.address));
        if let Some(known) = known {
            known.count += new.count;
        } else if self.sources.len() < MAX_SOURCES {
            self.sources.push(new);
        } else if let Some(least) = self.sources.iter_mut().min_by_key(|known| known.count) {
            let count = least.count + new.count;
            *least = RefusalSource { count, ..new };
            self.further_sources += 1;
        }
    }

    /// Counts a claim, as [`Window::add_source`] does a source.
    fn add_claim(&mut self, mut new: RefusalClaim) {
        let key = |claim: &RefusalClaim| {
            let source = claim.source;
            (claim.originator, source.interface, source.address)
        };
        let mut claims = self.claims.iter_mut();
        if let Some(known) = claims.find(|known| key(known) == key(&new)) {
            known.source.count += new.source.count;
        } else if self.claims.len() < MAX_SOURCES {
            self.claims.push(new);
        } else if let Some(least) = self
            .claims
            .iter_mut()
            .min_by_key(|claim| claim.source.count)
        {
            new.source.count += least.source.count;
            *least = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn source(n: u32) -> (InterfaceId, IpAddr) {
        (InterfaceId(1), Ipv4Addr::from_bits(n).into())
    }

    fn note(refusals: &mut Refusals, now: Time, n: u32, over_limit: u64, malformed: u64) {
        let before = Counters {
            over_limit: 7,
            ..Counters::default()
        };
        let after = Counters {
            over_limit: 7 + over_limit,
            malformed,
            ..before
        };
        refusals.note(now, source(n), &before, &after);
    }

    fn counts(refusals: &Refusals, now: Time) -> Vec<(RefusalKind, u64)> {
        let recent = refusals.recent(now).into_iter();
        recent
            .map(|refusal| (refusal.kind, refusal.count))
            .collect()
    }

    #[test]
    fn only_what_grew_is_told_and_only_for_a_while() {
        let mut refusals = Refusals::default();
        let start = Time::from_secs(1000);
        note(&mut refusals, start, 1, 0, 0);
        assert_eq!(refusals.recent(start), []);
        note(&mut refusals, start, 1, 3, 0);
        note(&mut refusals, start + WINDOW, 1, 2, 1);
        let both = [(RefusalKind::OverLimit, 5), (RefusalKind::Malformed, 1)];
        assert_eq!(counts(&refusals, start + WINDOW), both);
        let present = [(RefusalKind::OverLimit, 2), (RefusalKind::Malformed, 1)];
        assert_eq!(counts(&refusals, start + 2 * WINDOW), present);
        assert_eq!(refusals.recent(start + 3 * WINDOW), []);
        note(&mut refusals, start + 9 * WINDOW, 1, 1, 0);
        let fresh = [(RefusalKind::OverLimit, 1)];
        assert_eq!(counts(&refusals, start + 9 * WINDOW), fresh);
    }

    #[test]
    fn who_sends_most_is_named_among_many() {
        let mut refusals = Refusals::default();
        for n in 0..1000 {
            note(&mut refusals, Time::from_secs(1000), n, 1, 0);
            note(&mut refusals, Time::from_secs(1000), 7777, 2, 0);
        }
        let recent = refusals.recent(Time::from_secs(1000));
        assert_eq!(recent[0].sources.len(), MAX_SOURCES);
        assert_eq!(recent[0].sources[0].address, source(7777).1);
        assert_eq!(recent[0].sources[0].count, 2000);
        assert!(recent[0].further_sources > 900);
        assert_eq!(recent[0].count, 3000);
    }

    #[test]
    fn who_is_named_is_kept_apart_from_who_passed_it_on() {
        let mut refusals = Refusals::default();
        let start = Time::from_secs(1000);
        let none = Counters::default();
        let one = Counters {
            not_signed: 1,
            ..none
        };
        let mut note = |now, from, originator| {
            refusals.note_claim(now, source(from), source(originator).1, &none, &one);
            refusals.note(now, source(from), &none, &one);
        };
        for (from, originator) in [(1, 70), (1, 71), (1, 71), (2, 71), (1, 71)] {
            note(start, from, originator);
        }
        note(start + WINDOW, 1, 71);
        let recent = refusals.recent(start + WINDOW);
        let claims = recent[0].claims.iter();
        let claims: Vec<_> = claims
            .map(|claim| (claim.originator, claim.source.address, claim.source.count))
            .collect();
        let expected = [(71, 1, 4), (70, 1, 1), (71, 2, 1)];
        let expected = expected.map(|(of, from, count)| (source(of).1, source(from).1, count));
        assert_eq!(claims, expected);
        assert_eq!(recent[0].sources[0].count, 5);
        assert_eq!(recent[0].sources.len(), 2);
    }

    #[test]
    fn of_many_claims_those_with_most_are_kept() {
        let mut refusals = Refusals::default();
        let start = Time::from_secs(1000);
        let none = Counters::default();
        let one = Counters { forged: 1, ..none };
        for n in 0..1000 {
            for originator in [n, 7777, 7777] {
                refusals.note_claim(start, source(1), source(originator).1, &none, &one);
            }
        }
        refusals.note(start, source(1), &none, &one);
        let recent = refusals.recent(start);
        assert_eq!(recent[0].claims.len(), MAX_SOURCES);
        assert_eq!(recent[0].claims[0].originator, source(7777).1);
    }
}
