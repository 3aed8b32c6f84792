//! MPR calculation (RFC 7181, section 18 and appendix B).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use rfc5444::iana::willingness;

/// A neighbour graph (RFC 7181, section 18.2): `N` names neighbours (N1), `T` 2-hop addresses (N2).
#[derive(Debug)]
pub(crate) struct NeighbourGraph<N, T> {
    neighbours: BTreeMap<N, Neighbour>,
    /// d1(y) of 2-hop addresses that are also 1-hop.
    direct: BTreeMap<T, u32>,
    /// For each 2-hop address the least metric, and the neighbours that offer it.
    relays: BTreeMap<T, (u32, Vec<N>)>,
}

#[derive(Debug)]
struct Neighbour {
    willingness: u8,
    metric: u32,
    degree: usize,
}

impl<N: Copy + Ord, T: Copy + Ord> NeighbourGraph<N, T> {
    pub(crate) fn new() -> Self {
        Self {
            neighbours: BTreeMap::new(),
            direct: BTreeMap::new(),
            relays: BTreeMap::new(),
        }
    }

    /// Adds an element x of N1 with W(x) and d1(x); one that is never willing is no element.
    pub(crate) fn add_neighbour(&mut self, id: N, willingness: u8, metric: u32) {
        if willingness != willingness::NEVER {
            self.neighbours.insert(
                id,
                Neighbour {
                    willingness,
                    metric,
                    degree: 0,
                },
            );
        }
    }

    /// Says that a 2-hop address is also 1 hop away with d1(y).
    pub(crate) fn add_direct(&mut self, address: T, metric: u32) {
        let least = self.direct.entry(address).or_insert(metric);
        *least = metric.min(*least);
    }

    /// Adds an element y of N2 with d2(x, y); passed over unless x is in N1.
    pub(crate) fn add_two_hop(&mut self, via: N, address: T, metric: u32) {
        let Some(neighbour) = self.neighbours.get_mut(&via) else {
            return;
        };
        neighbour.degree += 1;
        let metric = neighbour.metric.saturating_add(metric);
        let (least, relays) = self.relays.entry(address).or_insert((metric, Vec::new()));
        if metric < *least {
            *least = metric;
            relays.clear();
        }
        if metric == *least {
            relays.push(via);
        }
    }

    /// A set of MPRs: every 2-hop address is reached at its least metric.
    pub(crate) fn select(&self) -> BTreeSet<N> {
        let targets = self.targets();
        let mut mprs: BTreeSet<N> = self.always_willing().collect();
        mprs.extend(
            targets
                .iter()
                .filter(|relays| relays.len() == 1)
                .map(|relays| relays[0]),
        );
        self.cover(&targets, &mut mprs);
        self.prune(&targets, &mut mprs);
        mprs
    }

    /// The relays of each 2-hop address to which no direct link is as good.
    fn targets(&self) -> Vec<&[N]> {
        let needed = self.relays.iter().filter(|(address, (metric, _))| {
            self.direct
                .get(address)
                .is_none_or(|direct| metric < direct)
        });
        needed.map(|(_, (_, relays))| &relays[..]).collect()
    }

    fn always_willing(&self) -> impl Iterator<Item = N> + '_ {
        let always = self
            .neighbours
            .iter()
            .filter(|(_, n)| n.willingness >= willingness::ALWAYS);
        always.map(|(id, _)| *id)
    }

    /// Adds the best remaining neighbour until every target is covered (appendix B, step 3).
    fn cover(&self, targets: &[&[N]], mprs: &mut BTreeSet<N>) {
        loop {
            let open = targets
                .iter()
                .filter(|relays| !relays.iter().any(|id| mprs.contains(id)));
            let mut reach: BTreeMap<N, usize> = BTreeMap::new();
            for id in open.flat_map(|relays| relays.iter()) {
                *reach.entry(*id).or_default() += 1;
            }
            let best = reach.into_iter().max_by_key(|(id, count)| {
                let neighbour = &self.neighbours[id];
                (
                    neighbour.willingness,
                    *count,
                    neighbour.degree,
                    core::cmp::Reverse(*id),
                )
            });
            let Some((id, _)) = best else { return };
            mprs.insert(id);
        }
    }

    /// Removes, least willing first, what the others cover too (appendix B, step 4).
    fn prune(&self, targets: &[&[N]], mprs: &mut BTreeSet<N>) {
        let mut candidates: Vec<N> = mprs.iter().copied().collect();
        candidates.sort_by_key(|id| (self.neighbours[id].willingness, *id));
        candidates.retain(|id| self.neighbours[id].willingness < willingness::ALWAYS);
        for id in candidates {
            let needed = targets.iter().any(|relays| {
                let mut covering = relays.iter().filter(|relay| mprs.contains(relay));
                covering.next() == Some(&id) && covering.next().is_none()
            });
            if !needed {
                mprs.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Graph = NeighbourGraph<u8, char>;

    fn graph(neighbours: &[(u8, u8, u32)], two_hops: &[(u8, char, u32)]) -> Graph {
        let mut graph = Graph::new();
        for (id, willingness, metric) in neighbours {
            graph.add_neighbour(*id, *willingness, *metric);
        }
        for (via, address, metric) in two_hops {
            graph.add_two_hop(*via, *address, *metric);
        }
        graph
    }

    fn selected(graph: &Graph) -> Vec<u8> {
        graph.select().into_iter().collect()
    }

    #[test]
    fn no_two_hop_neighbour_needs_no_mpr() {
        assert_eq!(selected(&graph(&[(1, 7, 1), (2, 7, 1)], &[])), []);
    }

    #[test]
    fn always_willing_neighbours_are_selected_without_need() {
        assert_eq!(selected(&graph(&[(1, 15, 1), (2, 7, 1)], &[])), [1]);
    }

    #[test]
    fn never_willing_neighbours_are_not_selected() {
        let graph = graph(
            &[(1, 0, 1), (2, 7, 9)],
            &[(1, 'a', 1), (2, 'a', 1), (1, 'b', 1)],
        );
        assert_eq!(selected(&graph), [2]);
    }

    #[test]
    fn the_only_relay_is_selected() {
        let graph = graph(&[(1, 7, 1), (2, 7, 1)], &[(1, 'a', 1), (2, 'b', 1)]);
        assert_eq!(selected(&graph), [1, 2]);
    }

    #[test]
    fn one_neighbour_that_covers_all_is_enough() {
        let edges = [(1, 'a', 1), (2, 'a', 1), (2, 'b', 1), (3, 'b', 1)];
        assert_eq!(
            selected(&graph(&[(1, 7, 1), (2, 7, 1), (3, 7, 1)], &edges)),
            [2]
        );
    }

    #[test]
    fn willingness_goes_before_reach() {
        let edges = [(1, 'a', 1), (1, 'b', 1), (2, 'a', 1), (3, 'b', 1)];
        assert_eq!(
            selected(&graph(&[(1, 6, 1), (2, 7, 1), (3, 7, 1)], &edges)),
            [2, 3]
        );
    }

    /// Neighbour 1 covers most and is taken first; 4 and 5 then cover all of that, too. Of those that cover as much of what
    /// is left, the ones with more 2-hop neighbours are taken, though others have lower numbers.
    #[test]
    fn of_equals_the_one_with_the_higher_degree_is_taken_and_what_is_covered_twice_is_removed() {
        let edges = [(1, "bcde"), (2, "a"), (3, "f"), (4, "abc"), (5, "def")];
        let edges: Vec<_> = edges
            .iter()
            .flat_map(|(via, targets)| targets.chars().map(|target| (*via, target, 1)))
            .collect();
        let neighbours = [1, 2, 3, 4, 5].map(|id| (id, 7, 1));
        assert_eq!(selected(&graph(&neighbours, &edges)), [4, 5]);
    }

    /// Neighbours 1 and 2 cover each other's targets, so that one of them can be removed.
    #[test]
    fn the_least_willing_is_removed_first() {
        let edges = [
            (1, 's', 1),
            (2, 's', 1),
            (2, 't', 1),
            (3, 't', 1),
            (3, 'u', 1),
            (4, 'u', 1),
        ];
        let neighbours = [(1, 7, 1), (2, 6, 1), (3, 5, 1), (4, 4, 1)];
        assert_eq!(selected(&graph(&neighbours, &edges)), [1, 3]);
    }

    #[test]
    fn only_the_least_metric_covers() {
        let edges = [(1, 'a', 1), (2, 'a', 5)];
        assert_eq!(selected(&graph(&[(1, 7, 1), (2, 7, 1)], &edges)), [1]);
    }

    #[test]
    fn a_neighbour_as_good_directly_needs_no_mpr() {
        let mut graph = graph(&[(1, 7, 1)], &[(1, 'a', 1)]);
        graph.add_direct('a', 2);
        assert_eq!(selected(&graph), []);
    }

    #[test]
    fn a_neighbour_better_through_a_relay_needs_one() {
        let mut graph = graph(&[(1, 7, 1)], &[(1, 'a', 1)]);
        graph.add_direct('a', 3);
        assert_eq!(selected(&graph), [1]);
    }
}
