//! When something is due for a neighbour: PINGs, its death, its return, handshakes.

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use cryptoauth::noise::{self, Timestamp};
use cryptoauth::{Local, SealError};
use rand_core::CryptoRng;

use super::{Due, Endpoint, Origin, Peer, FIRST_PAUSE, PINGS_BEFORE_RENEWAL, SET_UP_PATIENCE};
use crate::beacon::Beacon;
use crate::config::Timing;
use crate::Time;

/// Unanswered PINGs before a neighbour counts as gone. A node that was suspended has sent none.
const PINGS_BEFORE_DEATH: u32 = 3;
/// Number of other addresses that are remembered for a neighbour.
const ELSEWHERE_MAX: usize = 4;
/// Time without a beacon after which a neighbour no longer counts as announced. cjdns nodes send one every 32 s.
const BEACON_PATIENCE: Duration = Duration::from_secs(100);

impl Peer {
    /// Returns when something is due next.
    pub(crate) fn wake_at(&self, now: Time, timing: &Timing) -> Time {
        if !self.up {
            return match self.is_sought(now) {
                true => self.ping_at,
                false => self.heard + self.patience(timing),
            };
        }
        let silent = self.heard + timing.ping_after;
        let suspected = self
            .unheard
            .map_or(silent, |since| since + timing.suspect_after);
        match self.pings {
            0 => silent.min(suspected),
            _ => self.ping_at,
        }
    }

    pub(crate) fn due(&self, now: Time, timing: &Timing) -> Due {
        let silence = now.saturating_sub(self.heard);
        if self.wake_at(now, timing) > now {
            return Due::Nothing;
        }
        match self.up {
            true if self.pings >= PINGS_BEFORE_DEATH && silence >= timing.dead_after => Due::Death,
            true => Due::Ping,
            false if self.is_sought(now) => Due::Ping,
            false => Due::Oblivion,
        }
    }

    /// Records a PING, in a new handshake if earlier ones got no answer. Returns whether Noise must start again too.
    pub(crate) fn note_ping(&mut self, now: Time, timing: &Timing) -> bool {
        self.pings = self.pings.saturating_add(1);
        self.asked = Some(now);
        let renew = self.pings == PINGS_BEFORE_RENEWAL + 1 && self.session.has_keys();
        match &self.beaconed {
            // If it has restarted, its password has changed.
            Some(beacon) if renew => self.session.renew_with(Some(beacon.credential()), now),
            _ if renew => self.session.renew(now),
            _ => {}
        }
        if self.up {
            self.ping_at = now + self.ping_interval(timing);
        } else {
            self.ping_at = now + self.pause;
            self.pause = timing.retry_interval.min(self.pause * 2);
        }
        renew && self.noise.is_some()
    }

    /// Returns the time until the next PING, at first a multiple of the usual answer time.
    fn ping_interval(&self, timing: &Timing) -> Duration {
        let quick = self
            .latency
            .map_or(timing.ping_interval, |latency| latency * 4);
        let quick = quick.max(timing.ping_interval / 4);
        let interval = quick.saturating_mul(1 << self.pings.saturating_sub(1).min(8));
        timing.ping_interval.min(interval)
    }

    /// Records that it answered a PING.
    pub(crate) fn note_pong(&mut self, now: Time) {
        let Some(asked) = self.asked.take() else {
            return;
        };
        let passed = now.saturating_sub(asked);
        // Smoothed as in RFC 6298, section 2.3, with its alpha of 1/8.
        self.latency = Some(
            self.latency
                .map_or(passed, |smooth| (smooth * 7 + passed) / 8),
        );
    }

    /// Records that it is gone.
    pub(crate) fn note_death(&mut self, now: Time) {
        self.up = false;
        self.ping_at = now;
        self.pause = FIRST_PAUSE;
    }

    /// Searches for it again with the configured credential.
    pub(crate) fn note_return(&mut self, now: Time) {
        if let Origin::Configured(_, credential) = &self.origin {
            self.session.set_credential(credential.clone(), now);
        }
    }

    /// Records its beacon. Anybody can send a beacon with another password. If the password really changed, the
    /// neighbour has restarted, and does not answer a ping at once.
    pub(crate) fn note_beacon(&mut self, now: Time, beacon: Beacon) {
        self.origin = Origin::Beacon(now);
        // An incoming neighbour had to show a credential. One with a beacon need not: it answers without a password
        // while this node is a stranger to it, as after both have moved, and would be refused for good.
        self.session.waive_auth();
        if self.beaconed.replace(beacon) == Some(beacon) {
            return;
        }
        self.ping_at = now;
        let credential = Some(beacon.credential());
        if !self.up {
            self.session.set_credential(credential, now);
        } else if self.pings > PINGS_BEFORE_RENEWAL {
            self.session.renew_with(credential, now);
        } else {
            self.pings = self.pings.max(1);
        }
    }

    /// Records another address from which its beacon came. Only the last one of each interface counts: anybody can
    /// repeat a beacon.
    pub(crate) fn note_elsewhere(&mut self, now: Time, endpoint: Endpoint, beacon: &Beacon) {
        if self.beaconed != Some(*beacon) || endpoint.interface == self.endpoint.interface {
            return;
        }
        self.elsewhere.retain(|(other, at)| {
            other.interface != endpoint.interface && now.saturating_sub(*at) < BEACON_PATIENCE
        });
        if self.elsewhere.len() < ELSEWHERE_MAX {
            self.elsewhere.push((endpoint, now));
        }
    }

    /// Returns its beacon and the other addresses, once, when it is up and several PINGs have had no answer in time.
    pub(crate) fn take_elsewhere(
        &mut self,
        now: Time,
        timing: &Timing,
    ) -> Option<(Beacon, Vec<(Endpoint, Time)>)> {
        let is_due = self.due(now, timing) != Due::Nothing;
        let is_silent = self.up && self.pings >= PINGS_BEFORE_RENEWAL && is_due;
        let beacon = self.beaconed.filter(|_| is_silent)?;
        Some((beacon, mem::take(&mut self.elsewhere)))
    }

    /// Returns whether a handshake with it has taken too long.
    pub(crate) fn is_stale(&self, now: Time) -> bool {
        !self.up && now.saturating_sub(self.heard) >= SET_UP_PATIENCE
    }

    /// Returns whether a Noise handshake is due that this node starts. `enabled` is [`crate::Config::noise`].
    pub(crate) fn noise_due(&self, now: Time, enabled: bool) -> bool {
        let due = |link: &noise::Link| link.due(now) == Some(noise::Due::Handshake);
        self.up && noise::may_initiate(enabled, self.version) && self.noise.as_ref().is_none_or(due)
    }

    /// Writes an INIT.
    pub(crate) fn initiate<R: CryptoRng + ?Sized>(
        &mut self,
        local: &Local,
        now: Time,
        rng: &mut R,
        timestamp: Timestamp,
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let link = self.noise.as_mut().ok_or(SealError::NoKeys)?;
        link.initiate(local, now, rng, timestamp, out)
    }

    /// Returns whether this node starts handshakes with it.
    fn is_sought(&self, now: Time) -> bool {
        match self.origin {
            Origin::Incoming => false,
            Origin::Beacon(last) => now.saturating_sub(last) < BEACON_PATIENCE,
            Origin::Configured(..) => true,
        }
    }

    fn patience(&self, timing: &Timing) -> Duration {
        match self.port {
            None => SET_UP_PATIENCE,
            Some(_) => timing.forget_after,
        }
    }
}
