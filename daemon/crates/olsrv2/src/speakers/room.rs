//! Who gives way in a full table of originators that sign (docs/development/adr/0108).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use nhdp::Time;

use super::{Speaker, Speakers, BOUND};

/// Part of the table that is freed at once, so that not every newcomer needs a search through it.
const SLACK: usize = 64;

/// Part of the table that those have at least to whom no confirmed route has led: newcomers, and what a flood invents.
const UNREACHED: usize = 4;

/// Order in which originators give way, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Its key is bound to it no more.
    Free,
    /// No confirmed route has led to it, and those with one have no more than their part.
    Unreached,
    /// The confirmed route to it began with a neighbour behind whom there are so many.
    Reached(Reverse<usize>),
    /// No confirmed route has led to it, and those with one have more than their part.
    Kept,
    /// A card names it.
    Trusted,
}

impl Speakers {
    /// Records that the confirmed route to an originator begins with this neighbour.
    pub(crate) fn reached(&mut self, originator: IpAddr, first_hop: IpAddr) {
        if let Some(speaker) = self.speakers.get_mut(&originator) {
            speaker.first_hop = Some(first_hop);
        }
    }

    /// Makes room for a newcomer at `limit`. Among those of one standing, who was heard longest ago gives way.
    pub(super) fn make_room(&mut self, now: Time, limit: usize) {
        if self.speakers.len() < limit.max(1) {
            return;
        }
        let slack = (limit / SLACK).max(1);
        for (standing, _, address) in self.by_standing(now, limit) {
            let (len, has_room) = (self.speakers.len(), self.speakers.len() < limit.max(1));
            if has_room && (standing == Standing::Trusted || len + slack <= limit) {
                return;
            }
            self.speakers.remove(&address);
        }
    }

    /// All originators in the order in which they give way.
    fn by_standing(&self, now: Time, limit: usize) -> Vec<(Standing, Time, IpAddr)> {
        let is_unbound = |speaker: &Speaker| now >= speaker.heard + BOUND;
        let strangers = self.speakers.iter();
        let strangers = strangers.filter(|(address, _)| !self.trusted.contains_key(*address));
        let mut behind: BTreeMap<Option<IpAddr>, usize> = BTreeMap::new();
        for (_, speaker) in strangers {
            *behind.entry(speaker.first_hop).or_default() += 1;
        }
        let unreached = behind.get(&None).copied().unwrap_or_default();
        let standing = |address: &IpAddr, speaker: &Speaker| match speaker.first_hop {
            _ if self.trusted.contains_key(address) => Standing::Trusted,
            _ if is_unbound(speaker) => Standing::Free,
            None if unreached < limit / UNREACHED => Standing::Kept,
            None => Standing::Unreached,
            hop => Standing::Reached(Reverse(behind.get(&hop).copied().unwrap_or_default())),
        };
        let all = self.speakers.iter();
        let all =
            all.map(|(address, speaker)| (standing(address, speaker), speaker.heard, *address));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speakers::tests::claim;
    use crate::speakers::Way;
    use core::time::Duration;

    const LIMIT: usize = 64;
    const MINUTE: Duration = Duration::from_secs(60);

    /// A first hop, and an originator.
    fn hop(number: u32) -> IpAddr {
        core::net::Ipv4Addr::from_bits(number).into()
    }

    fn of(number: u32) -> IpAddr {
        hop(0x0a00_0000 + number)
    }

    #[derive(Default)]
    struct Table(Speakers);

    impl Table {
        /// Lets these speak, a millisecond after each other.
        fn hear(&mut self, from: Time, numbers: core::ops::Range<u32>, via: Option<u32>) {
            for (count, number) in (0..).zip(numbers) {
                let now = from + count * Duration::from_millis(1);
                let claim = claim(1);
                let way = Way::Flooded;
                self.0.accept(now, of(number), &claim, way, LIMIT);
                if let Some(via) = via {
                    self.0.reached(of(number), hop(via));
                }
                assert!(self.0.speakers.len() <= LIMIT);
            }
        }

        /// Returns how many of these are in it.
        fn count(&self, mut numbers: core::ops::Range<u32>) -> usize {
            let mut found = 0;
            numbers.all(|number| {
                found += usize::from(self.0.is_bound(of(number)));
                true
            });
            found
        }
    }

    #[test]
    fn who_was_reached_stays_and_of_the_others_the_last_ones() {
        let mut table = Table::default();
        table.hear(Time::ZERO, 0..48, Some(1));
        table.hear(Time::from_secs(1), 1000..11_000, None);
        assert_eq!(table.count(0..48), 48);
        assert_eq!(table.count(10_984..11_000), 16);
    }

    #[test]
    fn a_quarter_is_for_those_who_were_not_reached() {
        let mut table = Table::default();
        table.hear(Time::ZERO, 0..64, Some(1));
        table.hear(Time::from_secs(1), 1000..1010, None);
        assert_eq!((table.count(0..10), table.count(10..64)), (0, 54));
        table.hear(Time::from_secs(2), 2000..2100, None);
        assert_eq!((table.count(16..64), table.count(2084..2100)), (48, 16));
    }

    #[test]
    fn the_neighbour_with_most_behind_it_loses_who_was_heard_longest_ago() {
        let mut table = Table::default();
        table.hear(Time::ZERO, 0..10, Some(1));
        table.hear(Time::from_secs(1), 1000..11_000, Some(2));
        assert_eq!(table.count(0..10), 10);
        assert_eq!(table.count(10_946..11_000), 54);
        table.hear(Time::from_secs(20), 0..1, Some(2));
        // Of those behind the same neighbour, it is now the last one.
        table.hear(Time::from_secs(21), 20_000..20_050, Some(2));
        assert_eq!((table.count(0..1), table.count(1..10)), (1, 9));
    }

    #[test]
    fn who_was_silent_for_five_minutes_goes_first_and_a_peer_last() {
        for later in [299, 300] {
            let mut table = Table::default();
            let key = claim(1).key;
            let card = crate::signatures::TrustedKey { key, signs: true };
            let cards = (0..2).map(|number| (of(number), card));
            table.0.set_trusted(cards.collect());
            table.hear(Time::ZERO, 0..2, None);
            table.hear(Time::from_secs(1), 10..30, Some(1));
            table.hear(Time::from_secs(1) + MINUTE, 30..72, None);
            // Each newcomer arrives so long after another one.
            let now = Time::from_secs(1 + later);
            table.hear(now, 100..120, None);
            assert_eq!(table.count(0..2), 2);
            let gone = (20 - table.count(10..30), 42 - table.count(30..72));
            assert_eq!(gone, if later == 300 { (20, 0) } else { (0, 20) });
        }
    }

    #[test]
    fn peers_are_not_among_the_quarter() {
        let mut table = Table::default();
        let key = claim(1).key;
        let card = crate::signatures::TrustedKey { key, signs: true };
        let cards = (0..20).map(|number| (of(number), card));
        table.0.set_trusted(cards.collect());
        table.hear(Time::ZERO, 0..20, None);
        table.hear(Time::from_secs(1), 100..144, Some(1));
        table.hear(Time::from_secs(2), 1000..1100, None);
        let found = [0..20, 100..144, 1084..1100].map(|numbers| table.count(numbers));
        assert_eq!(found, [20, 28, 16]);
    }

    #[test]
    fn one_part_in_64_is_freed_at_once() {
        let mut table = Table::default();
        let mut lengths = Vec::new();
        for number in 0..258 {
            let now = Time::from_secs(number.into());
            let (claim, limit) = (claim(1), 4 * LIMIT);
            table.0.accept(now, of(number), &claim, Way::Flooded, limit);
            lengths.push(table.0.speakers.len());
        }
        assert_eq!(lengths[255..], [256, 253, 254]);
    }

    #[test]
    fn peers_give_way_one_by_one_where_there_is_nobody_else() {
        let mut table = Table::default();
        let key = claim(1).key;
        let card = crate::signatures::TrustedKey { key, signs: true };
        let cards = (0..500).map(|number| (of(number), card));
        table.0.set_trusted(cards.collect());
        table.hear(Time::ZERO, 0..64, None);
        table
            .0
            .accept(Time::from_secs(1), of(70), &claim(1), Way::Flooded, 0);
        assert_eq!(table.0.speakers.len(), 1);
        table.hear(Time::from_secs(2), 100..300, None);
        assert_eq!(table.count(236..300), 64);
        for number in 300..400 {
            let now = Time::from_secs(3);
            table
                .0
                .accept(now, of(number), &claim(1), Way::Flooded, 2 * LIMIT);
        }
        assert_eq!(table.0.speakers.len(), 2 * LIMIT);
    }
}
