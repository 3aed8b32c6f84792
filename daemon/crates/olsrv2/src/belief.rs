//! Limits the belief in unsigned messages: how long they are valid, and which links they may claim (docs/development/adr/0050).

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;
use core::time::Duration;

use nhdp::NeighbourId;
use rfc5444::Metric;

use crate::extension::{symmetric_links, Neighbours};
use crate::signatures::{is_recent, Quote};
use crate::speakers::Speakers;
use crate::topology::{Node, Topology};
use crate::word::Word;

/// Largest validity of a message in intervals of its sender. The HELLOs of olsrd2 ask for 10.
const VALIDITY_INTERVALS: u32 = 10;

/// Largest HELLO_INTERVAL that counts, unless ours is longer. A false claim is forgotten after a minute.
pub(crate) const HELLO_INTERVAL_MAX: Duration = Duration::from_secs(6);

/// Largest TC_INTERVAL that counts, unless ours is longer. A false claim is forgotten after two minutes.
pub(crate) const TC_INTERVAL_MAX: Duration = Duration::from_secs(12);

/// Limits a received validity time to a few intervals: the announced interval if there is one, at most `longest`.
pub(crate) fn bounded(
    validity: Duration,
    interval: Option<Duration>,
    longest: Duration,
) -> Duration {
    let interval = interval.map_or(longest, |interval| interval.min(longest));
    validity.min(VALIDITY_INTERVALS * interval)
}

/// A symmetric neighbour as a witness of the links to itself. Its HELLOs list all its symmetric neighbours.
#[derive(Debug, Default)]
struct Witness {
    /// Its own addresses.
    addresses: BTreeSet<IpAddr>,
    /// The addresses of its symmetric neighbours, with N2_in_metric and what it quotes of their counters.
    hears: BTreeMap<IpAddr, (Option<Metric>, Option<Quote>)>,
    /// Whether its last HELLO was signed.
    signed: bool,
}

/// What the far ends of links report about them.
#[derive(Debug)]
pub(crate) struct Witnesses<'a> {
    /// By originator.
    neighbours: BTreeMap<IpAddr, Witness>,
    topology: &'a Topology,
    speakers: &'a Speakers,
}

impl<'a> Witnesses<'a> {
    pub(crate) fn new(nhdp: &Neighbours, topology: &'a Topology, speakers: &'a Speakers) -> Self {
        let neighbours = nhdp.neighbours().filter_map(|(id, neighbour)| {
            let originator = neighbour.ext.originator.filter(|_| neighbour.symmetric)?;
            let addresses = neighbour.addresses.clone();
            Some((
                originator,
                Witness {
                    addresses,
                    hears: hears(nhdp, id),
                    signed: neighbour.ext.signed,
                },
            ))
        });
        Self {
            neighbours: neighbours.collect(),
            topology,
            speakers,
        }
    }

    /// Returns whether both ends of a link have signed it, and `to` has heard `from` lately: it quotes a counter that
    /// is not below the floor of `from`. So nobody draws a link to another router, and a link that `to` signed long ago
    /// counts no more.
    pub(crate) fn is_confirmed(&self, from: IpAddr, to: IpAddr) -> bool {
        let floor = self.speakers.floor(from).filter(|_| self.is_signed(from));
        floor.is_some_and(|floor| self.quotes(from, to).any(|quote| is_recent(quote, floor)))
    }

    /// Returns whether `to` has signed that it hears `from`, lately or not.
    pub(crate) fn is_signed_by(&self, from: IpAddr, to: IpAddr) -> bool {
        self.is_signed(to) && matches!(self.word(from, to), Word::Confirmed(_))
    }

    fn is_signed(&self, originator: IpAddr) -> bool {
        let neighbour = self.neighbours.get(&originator);
        neighbour.is_some_and(|witness| witness.signed)
            || self.topology.node(originator).is_some_and(Node::is_signed)
    }

    /// Returns what `to` has signed about the counter of `from`: as a neighbour in HELLOs, and in TCs.
    fn quotes(&self, from: IpAddr, to: IpAddr) -> impl Iterator<Item = Quote> + '_ {
        let witness = self.neighbours.get(&to).filter(|witness| witness.signed);
        let hello = witness.and_then(|witness| witness.hears.get(&from)?.1);
        let node = self.topology.node(to).filter(|node| node.is_signed());
        let tc = node.and_then(|node| node.quote(from));
        hello.into_iter().chain(tc)
    }

    /// Returns whether an address is known as the originator of some router.
    pub(crate) fn is_originator(&self, address: IpAddr) -> bool {
        self.neighbours.contains_key(&address) || self.topology.contains(address)
    }

    /// Returns the metric of a link that the router `from` claims to have to `to`, and whether `to` denies the link.
    ///
    /// The receiver measures a link, so its own metric counts if it is larger than what others repeat.
    pub(crate) fn weigh(&self, from: IpAddr, to: IpAddr, claimed: Metric) -> (Metric, bool) {
        match self.word(from, to) {
            Word::Denied => (claimed, true),
            Word::Silent | Word::Confirmed(None) => (claimed, false),
            Word::Confirmed(Some(measured)) => (claimed.max(measured), false),
        }
    }

    fn word(&self, from: IpAddr, to: IpAddr) -> Word {
        match self.neighbours.get(&to) {
            Some(witness) => self.word_of_neighbour(witness, from),
            None => self.topology.word(from, to),
        }
    }

    fn word_of_neighbour(&self, witness: &Witness, from: IpAddr) -> Word {
        let others = self.neighbours.get(&from).map(|from| from.addresses.iter());
        let mut names = [&from].into_iter().chain(others.into_iter().flatten());
        let heard = names.find_map(|name| witness.hears.get(name));
        heard.map_or(Word::Denied, |(metric, _)| Word::Confirmed(*metric))
    }
}

/// Returns the addresses of a neighbour's symmetric neighbours, with N2_in_metric and what it quotes.
fn hears(nhdp: &Neighbours, id: NeighbourId) -> BTreeMap<IpAddr, (Option<Metric>, Option<Quote>)> {
    let two_hops = symmetric_links(nhdp, id).flat_map(|link| &link.two_hops);
    two_hops
        .map(|(address, two_hop)| (*address, (two_hop.ext.metric_in, two_hop.ext.quote)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_olsrd2_asks_for_in_hellos_is_granted_and_45_days_are_not() {
        let hello =
            |validity: u32, interval| bounded(validity * SECOND, interval, HELLO_INTERVAL_MAX);
        assert_eq!(hello(20, Some(2 * SECOND)), 20 * SECOND);
        assert_eq!(hello(21, Some(2 * SECOND)), 20 * SECOND);
        assert_eq!(hello(3_932_160, Some(2 * SECOND)), 20 * SECOND);
        assert_eq!(hello(3_932_160, Some(3_932_160 * SECOND)), 60 * SECOND);
        assert_eq!(hello(3_932_160, None), 60 * SECOND);
        assert_eq!(hello(6, None), 6 * SECOND);
    }
}
