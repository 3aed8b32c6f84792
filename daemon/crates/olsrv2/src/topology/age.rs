//! Which TCs are out of date, or contradict their originator.

use core::net::IpAddr;
use core::time::Duration;

use nhdp::Time;

use super::Topology;
use crate::seqnum::newer;
use crate::signatures::Proof;
use crate::tc::Tc;

/// Shortest time between two stale TCs that proves a restart of their originator, longer than any message is in
/// transit.
const RESTART_EVIDENCE: Duration = Duration::from_secs(1);

impl Topology {
    /// Returns whether a TC has other contents under a known ANSN, which no router sends (RFC 7181, section 17.4).
    pub(super) fn is_rewritten(&self, now: Time, tc: &Tc, source: IpAddr) -> bool {
        let Some(node) = self.nodes.get(&tc.originator) else {
            return false;
        };
        let rewrites = || {
            let mut lost = node
                .neighbours
                .keys()
                .filter(|to| !tc.content.neighbours.contains_key(*to));
            let mut unattached = node
                .attached
                .keys()
                .filter(|net| !tc.content.attached.contains_key(*net));
            node.advertised != tc.content.len()
                || lost.next().is_some()
                || unattached.next().is_some()
        };
        let again = node.ansn == tc.ansn && tc.complete;
        again && node.voice.is_other(now, source) && rewrites()
    }

    /// Returns whether a TC is out of date. If its ANSN is older but its sequence number is newer, or if such a TC
    /// comes again after a while, its router has restarted. What it announced before is then removed.
    pub(super) fn is_stale(&mut self, now: Time, tc: &Tc, source: IpAddr) -> bool {
        let Some(node) = self.nodes.get_mut(&tc.originator) else {
            return false;
        };
        if !newer(node.ansn, tc.ansn) {
            return false;
        }
        let again = node.suspect.is_some_and(|(seq, at)| {
            newer(tc.seq, seq) && now.saturating_sub(at) >= RESTART_EVIDENCE
        });
        let contradicts = node.voice.contradicts(now, source, tc.seq);
        if newer(tc.seq, node.seq) || again || contradicts {
            node.seq = tc.seq;
            node.voice.went_back(now, source);
            self.remove_where(tc.originator, |_, _| true);
            return false;
        }
        node.suspect = node.suspect.or(Some((tc.seq, now)));
        true
    }

    /// Returns whether a newer TC of the same originator arrived before this signed one. What the originator, or
    /// somebody else in its name, said with higher numbers before is removed.
    pub(super) fn is_overtaken(&mut self, tc: &Tc, proof: Proof) -> bool {
        let Some(node) = self.nodes.get(&tc.originator) else {
            return false;
        };
        if node
            .proof
            .is_some_and(|newest| newest.counter > proof.counter)
        {
            return true;
        }
        if node.proof.is_none() || newer(node.ansn, tc.ansn) {
            self.remove_where(tc.originator, |_, _| true);
        }
        false
    }
}
