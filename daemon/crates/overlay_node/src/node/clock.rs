//! The timers of the node.

use alloc::vec::Vec;
use core::time::Duration;

use super::originate::Outgoing;
use super::Node;
use crate::counters::Cause;
use crate::event::PingResult;
use crate::interface::InterfaceId;
use crate::peer::{Due, Peer};
use crate::Time;

/// Time after which a ping of the caller ends without an answer.
pub(super) const PING_PATIENCE: Duration = Duration::from_secs(5);
/// Time after which a packet that waits for its session is dropped.
pub(super) const WAITING_PATIENCE: Duration = Duration::from_secs(5);
/// Silence of the other end after which a session that it may have lost is renewed.
pub(super) const LOST_SESSION_SILENCE: Duration = Duration::from_millis(200);
/// Interval at which old entries are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

impl Node {
    /// Returns when [`Node::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Time {
        let finder = self.finder.poll_timeout().unwrap_or(Time::MAX);
        self.wake.min(self.sweep_at).min(finder)
    }

    /// Runs the due timers.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.finder.poll_timeout().is_some_and(|at| at <= now) {
            self.finder.handle_timeout(now);
            self.draw_finder(now);
        }
        if self.sweep_at <= now {
            self.sessions.expire(now);
            self.kept.touch();
            self.sweep_at = now + SWEEP_INTERVAL;
        }
        if self.wake > now {
            return;
        }
        self.wake = Time::MAX;
        let flows = self.check_flows(now);
        self.wake_at(flows);
        self.check_kept(now);
        self.draw_finder(now);
        self.check_peers(now);
        self.check_waiting(now);
        self.check_pings(now);
        self.check_beacons(now);
    }

    fn check_peers(&mut self, now: Time) {
        for number in self.numbers() {
            self.try_elsewhere(now, number);
        }
        for number in self.numbers() {
            self.check_peer(now, number);
            let next = self
                .peers
                .get(number)
                .map(|peer| peer.wake_at(now, &self.timing));
            self.wake_at(next.unwrap_or(Time::MAX));
        }
    }

    fn numbers(&self) -> Vec<usize> {
        self.peers.iter().map(|(number, _)| number).collect()
    }

    fn check_peer(&mut self, now: Time, number: usize) {
        let Some(peer) = self.peers.get(number) else {
            return;
        };
        match peer.due(now, &self.timing) {
            Due::Nothing => {}
            Due::Ping => self.ping_peer(now, number),
            Due::Death => {
                self.take_down(now, number);
                if self
                    .peers
                    .get(number)
                    .is_some_and(|peer| peer.due(now, &self.timing) == Due::Ping)
                {
                    self.ping_peer(now, number);
                }
            }
            Due::Oblivion => {
                self.peers.remove(number);
            }
        }
        let enabled = self.noise;
        let needs_noise = |peer: &Peer| peer.noise_due(now, enabled);
        if self.peers.get(number).is_some_and(needs_noise) {
            self.initiate(number);
        }
    }

    fn ping_peer(&mut self, now: Time, number: usize) {
        let Some(ticket) = self.ticket(number) else {
            return;
        };
        let timing = self.timing;
        if let Some(peer) = self.peers.get_mut(number) {
            if peer.note_ping(now, &timing) && self.noise {
                self.initiate(number);
            }
        }
        self.say(Outgoing::Ping(ticket));
    }

    fn initiate(&mut self, number: usize) {
        if let Some(ticket) = self.ticket(number) {
            self.say(Outgoing::Initiate(ticket));
        }
    }

    fn check_waiting(&mut self, now: Time) {
        let before = self.waiting.len();
        self.waiting
            .retain(|_, waiting| now.saturating_sub(waiting.since) < WAITING_PATIENCE);
        (self.waiting.len()..before).for_each(|_| self.counters.drop(Cause::PacketExpired));
        let next = self
            .waiting
            .values()
            .map(|waiting| waiting.since + WAITING_PATIENCE)
            .min();
        self.wake_at(next.unwrap_or(Time::MAX));
    }

    fn check_pings(&mut self, now: Time) {
        let over = |(token, ping): (&u64, &super::Ping)| (ping.until <= now).then_some(*token);
        let over: Vec<_> = self.pings.iter().filter_map(over).collect();
        for token in over {
            self.end_ping(token, PingResult::TimedOut);
        }
        let next = self.pings.values().map(|ping| ping.until).min();
        self.wake_at(next.unwrap_or(Time::MAX));
    }

    fn check_beacons(&mut self, now: Time) {
        let interval = self.timing.beacon_interval;
        for number in 0..self.interfaces.len() {
            let Some(schedule) = &mut self.interfaces[number] else {
                continue;
            };
            let is_due = schedule.take(now, interval);
            let Some(next) = schedule.next() else {
                continue;
            };
            self.wake_at(next);
            if is_due {
                self.say(Outgoing::Beacon(InterfaceId(number as u16)));
            }
        }
    }
}
