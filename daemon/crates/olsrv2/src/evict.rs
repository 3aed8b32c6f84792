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
mod tests {
    use super::*;
    use crate::tc::{Content, NeighbourAddress};
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use core::net::Ipv4Addr;
    use core::time::Duration;
    use rfc5444::Metric;

    const NOW: Time = Time::from_secs(100);
    const LIMITS: Limits = Limits {
        links: 0,
        two_hops: 0,
        nodes: 8,
        advertised: 100,
        edges: 40,
        duplicates: 0,
        messages_per_second: 0,
    };

    fn address(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    fn tc(n: u32, tuples: u32) -> Tc {
        let neighbour = NeighbourAddress {
            originator: true,
            routable: true,
            metric: Metric::MIN,
            metric_in: None,
        };
        let neighbours = (0..tuples).map(|index| (address(1000 * n + index), neighbour));
        Tc {
            originator: address(n),
            seq: 1,
            ansn: 1,
            complete: true,
            interval: None,
            validity: Duration::from_secs(60),
            content: Content {
                all: false,
                neighbours: neighbours.collect(),
                attached: BTreeMap::new(),
            },
            lost_neighbours: BTreeSet::new(),
            lost_networks: BTreeSet::new(),
        }
    }

    /// Routers below 100 are orphans, those of each further hundred lie behind one neighbour, 9xx are trusted.
    fn standing(originator: IpAddr) -> Standing {
        let IpAddr::V4(address) = originator else {
            return Standing::Orphan;
        };
        match address.to_bits() - 0x0a00_0000 {
            ..100 => Standing::Orphan,
            900.. => Standing::Trusted(originator),
            n => Standing::Via(self::address(n / 100)),
        }
    }

    /// Lets routers with five tuples each come one after the other; which of them are there at the end.
    fn come(routers: &[u32]) -> Vec<u32> {
        let (mut gate, mut topology) = (Gate::new(NOW), Topology::default());
        for n in routers {
            let tc = tc(*n, 5);
            if gate.admit(NOW, &tc, &mut topology, &LIMITS, standing) {
                topology.process(NOW, &tc, address(*n), true, &LIMITS);
            }
        }
        let is_whole = |n: &&u32| topology.tuples_of(address(**n)) == Some(5);
        routers.iter().filter(is_whole).copied().collect()
    }

    #[test]
    fn a_router_with_a_route_takes_the_place_of_an_orphan_and_not_the_other_way_round() {
        assert!(come(&[1, 2, 3, 4, 5, 6, 7, 8, 100]).contains(&100));
        let routed = [100, 101, 102, 103, 200, 201, 202, 203];
        assert_eq!(come(&[&routed[..], &[1]].concat()), routed);
    }

    #[test]
    fn the_first_hop_with_most_behind_it_gives_way() {
        let routed = [100, 101, 102, 103, 104, 105, 200, 201];
        let left = come(&[&routed[..], &[202]].concat());
        assert!([200, 201, 202].iter().all(|n| left.contains(n)), "{left:?}");
        assert_eq!(come(&[&routed[..], &[106]].concat()), routed);
    }

    #[test]
    fn trusted_routers_find_room_and_keep_it() {
        let trusted = [900, 901, 902, 903, 904, 905, 906];
        let left = come(&[&[100, 101, 102][..], &trusted].concat());
        assert!(trusted.iter().all(|n| left.contains(n)), "{left:?}");
        let full = [900, 901, 902, 903, 904, 905, 906, 907];
        assert_eq!(come(&[&full[..], &[100, 1]].concat()), full);
    }

    #[test]
    fn new_orphans_are_counted() {
        let (mut gate, mut topology) = (Gate::new(NOW), Topology::default());
        let many = Limits {
            nodes: 1 << 20,
            ..LIMITS
        };
        let mut admit = |n: u32| gate.admit(NOW, &tc(n % 100, 0), &mut topology, &many, standing);
        let admitted = (0..2000).filter(|n| admit(*n)).count();
        assert_eq!(admitted, ORPHANS.0 as usize);
    }

    /// How many of so many looks for a newcomer behind neighbour `n` are allowed.
    fn looks(gate: &mut Gate, now: Time, n: u32, asked: u32) -> u32 {
        let own = Standing::Via(address(n));
        (0..asked)
            .map(|_| u32::from(gate.may_search(now, own)))
            .sum()
    }

    #[test]
    fn looks_are_counted_for_each_neighbour_and_together() {
        let mut gate = Gate::new(NOW);
        assert_eq!(looks(&mut gate, NOW, 1, 1000), SEARCHES_EACH.0);
        assert_eq!(looks(&mut gate, NOW, 2, 1), 1, "another one's are its own");
        assert_eq!(
            looks(&mut gate, NOW, 1, 1),
            0,
            "another neighbour's looks renew no budget"
        );
        let others = (3..10).map(|n| looks(&mut gate, NOW, n, 1000)).sum::<u32>();
        assert_eq!(SEARCHES_EACH.0 + 1 + others, SEARCHES.0);
        let second = NOW + Duration::from_secs(1);
        assert_eq!(looks(&mut gate, second, 1, 1000), SEARCHES_EACH.1);
    }

    #[test]
    fn neighbours_whose_looks_are_counted_are_forgotten_together() {
        let mut gate = Gate::new(NOW);
        for n in 0..3 * SEARCHERS as u32 {
            looks(&mut gate, NOW, n, 1);
            assert!((1..=SEARCHERS).contains(&gate.searches_each.len()));
            assert!(gate.searches_each.contains_key(&Standing::Via(address(n))));
        }
        assert_eq!(
            gate.searches_each.len(),
            SEARCHERS,
            "all at once, and not before"
        );
    }

    /// A topology of routers with so many tuples each; all have come under bounds that were wide enough.
    fn filled(routers: &[(u32, u32)]) -> Topology {
        let wide = Limits {
            nodes: 1 << 20,
            edges: 1 << 20,
            ..LIMITS
        };
        let mut topology = Topology::default();
        for (n, tuples) in routers {
            topology.process(NOW, &tc(*n, *tuples), address(*n), true, &wide);
        }
        topology
    }

    /// Whether the originator of a TC with so many tuples is admitted, and who is left.
    fn admitted(topology: &mut Topology, limits: &Limits, n: u32, tuples: u32) -> (bool, Vec<u32>) {
        let admits = Gate::new(NOW).admit(NOW, &tc(n, tuples), topology, limits, standing);
        let IpAddr::V4(base) = address(0) else {
            unreachable!()
        };
        let left = topology.nodes().filter_map(|(one, _)| match one {
            IpAddr::V4(one) => Some(one.to_bits() - base.to_bits()),
            IpAddr::V6(_) => None,
        });
        (admits, left.collect())
    }

    #[test]
    fn nobody_gives_way_as_long_as_there_is_room() {
        let routers = [(1, 5), (2, 5), (100, 5), (101, 5)];
        for (nodes, edges) in [(5, 25), (5, 1000), (1000, 25)] {
            let limits = Limits {
                nodes,
                edges,
                ..LIMITS
            };
            let (admits, left) = admitted(&mut filled(&routers), &limits, 200, 5);
            assert_eq!((admits, left.len()), (true, 4), "{nodes} {edges}");
        }
        for (nodes, edges) in [(4, 1000), (1000, 24)] {
            let limits = Limits {
                nodes,
                edges,
                ..LIMITS
            };
            let (admits, left) = admitted(&mut filled(&routers), &limits, 200, 5);
            assert!(admits && left.len() < 4, "{nodes} {edges}");
        }
    }

    #[test]
    fn a_router_that_is_known_and_advertises_more_makes_room_for_what_is_more() {
        let edges = |edges| Limits {
            nodes: 100,
            edges,
            ..LIMITS
        };
        let routers = [(100, 5), (101, 5), (200, 5)];
        assert_eq!(
            admitted(&mut filled(&routers), &edges(15), 200, 5).1.len(),
            3
        );
        assert_eq!(
            admitted(&mut filled(&routers), &edges(16), 200, 6).1.len(),
            3
        );
        let (admits, left) = admitted(&mut filled(&routers), &edges(15), 200, 6);
        assert!(admits && left.len() == 2 && left.contains(&200), "{left:?}");
        // An orphan that is known displaces nobody, not even another orphan.
        let orphans = [(1, 5), (2, 5)];
        assert_eq!(
            admitted(&mut filled(&orphans), &edges(10), 2, 6),
            (true, vec![1, 2])
        );
        // What is attached counts as what is advertised does.
        let mut attaching = tc(200, 5);
        let network = "10.9.0.0/16".parse().unwrap();
        let attached = crate::tc::AttachedNetwork {
            metric: Metric::MIN,
            distance: 0,
        };
        attaching.content.attached.insert(network, attached);
        let mut topology = filled(&routers);
        Gate::new(NOW).admit(NOW, &attaching, &mut topology, &edges(15), standing);
        assert_eq!(topology.len(), 2);
    }

    #[test]
    fn where_nobody_is_worth_less_there_is_no_room() {
        let full = Limits {
            nodes: 4,
            edges: 1000,
            ..LIMITS
        };
        // Behind both first hops is as much: with the newcomer there would be more behind its own.
        let even = [(100, 5), (101, 5), (200, 5), (201, 5)];
        assert_eq!(
            admitted(&mut filled(&even), &full, 202, 5).1,
            [100, 101, 200, 201]
        );
        assert!(!admitted(&mut filled(&even), &full, 202, 5).0);
        // As much as with the newcomer is not more.
        let heavier = [(100, 11), (101, 5), (200, 5), (201, 5)];
        assert!(!admitted(&mut filled(&heavier), &full, 202, 5).0);
        let heavy = [(100, 12), (101, 5), (200, 5), (201, 5)];
        assert_eq!(
            admitted(&mut filled(&heavy), &full, 202, 5),
            (true, vec![101, 200, 201])
        );
    }

    #[test]
    fn of_orphans_more_give_way_than_must_and_of_others_only_those_that_must() {
        let (nodes, edges) = (128, 12_800);
        let limits = Limits {
            nodes,
            edges,
            ..LIMITS
        };
        let orphans: Vec<_> = (0..100).map(|n| (n, 100)).collect();
        let routed: Vec<_> = (100..128).map(|n| (n, 100)).collect();
        let mut topology = filled(&[&orphans[..], &routed].concat());
        let (admits, left) = admitted(&mut topology, &limits, 200, 1);
        assert!(admits);
        assert_eq!(
            left.len(),
            nodes - nodes / SLACK,
            "room for two, so that not each newcomer looks"
        );
        assert_eq!(left.iter().filter(|n| **n >= 100).count(), 28);
        let routed: Vec<_> = (100..200).chain(200..228).map(|n| (n, 100)).collect();
        let (admits, left) = admitted(&mut filled(&routed), &limits, 300, 1);
        assert!(admits);
        assert_eq!(left.len(), nodes - 1);
    }
}
