//! Chooses which routers are removed when the topology is full.
//!
//! Anybody can invent routers, but an invented router is useless until a reachable router announces it as a neighbour.
//! So routers without a route, the orphans, only fill free places: a router with a route takes their place. Among
//! routers with routes, those behind the first hop with the most tuples are removed first, so that one neighbour with
//! an invented network does not displace what is behind another. Routers that the operator trusts are removed last.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use nhdp::Time;

use crate::config::Limits;
use crate::rate::Bucket;
use crate::tc::Tc;
use crate::topology::Topology;

/// New orphans accepted at once, and per second. A router that has just started hears everybody's TC before it has
/// routes; in a mesh of 1000 routers all fit.
const ORPHANS: (u32, u32) = (1024, 64);

/// Additional part of the tuples that is freed, so that not every message needs a search through all routers.
const SLACK: usize = 64;

/// How a router is connected with this one. The smallest is removed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// There is no route to it.
    Orphan,
    /// The route to it starts with this neighbour.
    Via(IpAddr),
    /// The operator trusts it.
    Trusted(IpAddr),
}

/// Searches through all routers at once, and per second. A search takes about a millisecond.
const SEARCHES: (u32, u32) = (256, 64);

/// Share of the searches for routers behind one neighbour, and for orphans, so that an invented network leaves searches
/// for the others.
const SEARCHES_EACH: (u32, u32) = (64, 16);

/// Number of neighbours whose searches are counted, as many as the links of both families.
const SEARCHERS: usize = 512;

/// Admits newcomers to a topology.
#[derive(Debug)]
pub(crate) struct Gate {
    orphans: Bucket,
    searches: Bucket,
    searches_each: BTreeMap<Standing, Bucket>,
}

/// Order of the routers that may be removed, the smallest first.
type Merit = (u8, Reverse<usize>, bool, Reverse<usize>, Time);

impl Standing {
    fn rank(self) -> u8 {
        match self {
            Self::Orphan => 0,
            Self::Via(_) => 1,
            Self::Trusted(_) => 2,
        }
    }
}

impl Gate {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            orphans: Bucket::new(now, ORPHANS.0, ORPHANS.1),
            searches: Bucket::new(now, SEARCHES.0, SEARCHES.1),
            searches_each: BTreeMap::new(),
        }
    }

    /// Returns whether a search through all routers is allowed for a newcomer of that standing.
    fn may_search(&mut self, now: Time, own: Standing) -> bool {
        if self.searches_each.len() >= SEARCHERS && !self.searches_each.contains_key(&own) {
            self.searches_each.clear();
        }
        let each = self.searches_each.entry(own);
        let each = each.or_insert_with(|| Bucket::new(now, SEARCHES_EACH.0, SEARCHES_EACH.1));
        each.take(now) && self.searches.take(now)
    }

    /// Makes space in `topology` for what `tc` adds. Returns whether its originator may be in it.
    pub(crate) fn admit(
        &mut self,
        now: Time,
        tc: &Tc,
        topology: &mut Topology,
        limits: &Limits,
        standing: impl Fn(IpAddr) -> Standing,
    ) -> bool {
        let own = standing(tc.originator);
        let known = topology.tuples_of(tc.originator);
        if known.is_none() && own == Standing::Orphan && !self.orphans.take(now) {
            return false;
        }
        let wanted =
            (tc.content.neighbours.len() + tc.content.attached.len()).min(limits.advertised);
        let need = Need {
            nodes: usize::from(known.is_none()),
            tuples: wanted.saturating_sub(known.unwrap_or(0)),
        };
        let may_displace = known.is_none() || own != Standing::Orphan;
        if may_displace && !need.fits(topology, limits) && self.may_search(now, own) {
            make_room(&need, (tc.originator, own), topology, limits, standing);
        }
        known.is_some() || topology.len() < limits.nodes
    }
}

/// What a TC adds to the topology.
struct Need {
    nodes: usize,
    tuples: usize,
}

impl Need {
    fn fits(&self, topology: &Topology, limits: &Limits) -> bool {
        topology.len() + self.nodes <= limits.nodes
            && topology.tuples() + self.tuples <= limits.edges
    }
}

/// Removes routers until there is space, the least useful first, as long as they rank below the newcomer.
fn make_room(
    need: &Need,
    (originator, own): (IpAddr, Standing),
    topology: &mut Topology,
    limits: &Limits,
    standing: impl Fn(IpAddr) -> Standing,
) {
    let mut weights: BTreeMap<Standing, usize> = BTreeMap::new();
    for (other, node) in topology.nodes() {
        *weights.entry(standing(other)).or_default() += 1 + node.tuples();
    }
    let added = need.nodes + need.tuples;
    let own_weight = weights.get(&own).copied().unwrap_or(0) + added;
    let gives_way = |other: Standing| {
        other.rank() < own.rank()
            || own == Standing::Orphan
            || other.rank() == own.rank() && weights.get(&other) > Some(&own_weight)
    };
    let others = topology.nodes().filter(|(other, _)| *other != originator);
    let mut victims: Vec<(Merit, IpAddr)> = others
        .map(|(other, node)| (other, node, standing(other)))
        .filter(|(_, _, of_other)| of_other.rank() <= own.rank() && gives_way(*of_other))
        .map(|(other, node, of_other)| {
            let weight = Reverse(weights[&of_other]);
            let tuples = Reverse(node.tuples());
            let merit = (
                of_other.rank(),
                weight,
                node.is_refreshed(),
                tuples,
                node.expires(),
            );
            (merit, other)
        })
        .collect();
    victims.sort_unstable();
    let slack = Need {
        nodes: need.nodes * (limits.nodes / SLACK).max(1),
        tuples: need.tuples.max(limits.edges / SLACK),
    };
    for (merit, victim) in victims {
        let enough = if merit.0 == 0 { &slack } else { need };
        if enough.fits(topology, limits) {
            break;
        }
        topology.evict(victim);
    }
}

#[cfg(test)]
mod tests;
