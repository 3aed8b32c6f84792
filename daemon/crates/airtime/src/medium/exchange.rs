//! One exchange of a sender: RTS, CTS, data and acknowledgement, and what follows when one of them is lost.

use core::time::Duration;

use super::air::Kind;
use super::{Medium, Task};
use crate::frame::{Event, Frame};
use crate::phy::{ACK_OCTETS, BLOCK_ACK_OCTETS, CTS_OCTETS, RTS_OCTETS};
use crate::rate::Rate;
use crate::station::{State, Step};
use crate::{StationId, Time};

/// Largest aggregate: its octets (aMaxPSDULength of HT), and the time that it takes (aPPDUMaxTime).
const AGGREGATE_OCTETS: usize = 65_535;
const AGGREGATE_TIME: Duration = Duration::from_micros(5484);
/// Most frames that one block acknowledgement covers.
const AGGREGATE_MAX: usize = 64;
/// What each frame of an aggregate has in front (section 9.7): the delimiter.
const DELIMITER_OCTETS: usize = 4;

impl Medium {
    /// Begins the exchange for which the countdown has ended.
    pub(super) fn begin_exchange(&mut self, now: Time, id: StationId) {
        let station = &mut self.stations[id];
        station.backoff = 0;
        station.access_at = None;
        if station.aboard.is_empty() {
            self.load(now, id);
        }
        let station = &mut self.stations[id];
        if station.aboard.is_empty() {
            return;
        }
        let waited = now.saturating_sub(station.access_began);
        let attempt = station.next_attempt(&self.settings.phy);
        station.rate = attempt.rate;
        for queued in &mut station.aboard {
            queued.times.access += waited;
            queued.attempts += 1;
        }
        station.exchange += 1;
        station.exchange_began = now;
        station.acknowledged.clear();
        station.acknowledged.resize(station.aboard.len(), false);
        if !station.needs_rts(&attempt) {
            self.send(now, id, attempt.rate);
            return;
        }
        station.state = State::Sending(Step::Rts);
        station.counters.rts_sent += 1;
        let to = station.aboard[0].frame.to;
        let phy = &self.settings.phy;
        let rate = phy.response_rate(attempt.rate);
        let answer = self.answer_time(id, attempt.rate);
        let data = self.data_time(id, attempt.rate);
        let reserved = 3 * phy.sifs + phy.duration(rate, CTS_OCTETS) + data + answer;
        self.put(now, id, to, Kind::Rts, rate, RTS_OCTETS, reserved);
    }

    /// Takes the next frame aboard, with others that may share its transmission.
    fn load(&mut self, now: Time, id: StationId) {
        let most = self.settings.aggregate.min(AGGREGATE_MAX);
        let phy = &self.settings.phy;
        let station = &mut self.stations[id];
        let Some(mut first) = station.queue.pop_front() else {
            return;
        };
        first.times.queue = station.access_began.saturating_sub(first.since);
        let to = first.frame.to;
        let aggregated = first.frame.aggregated && first.frame.acknowledged;
        let mut octets = first.frame.octets + DELIMITER_OCTETS;
        station.aboard.push(first);
        let rate = station.next_attempt(phy).rate;
        while aggregated && rate.is_ht() && station.aboard.len() < most {
            let fits = |frame: &Frame| {
                let more = octets + (frame.octets + DELIMITER_OCTETS).next_multiple_of(4);
                frame.aggregated
                    && frame.to == to
                    && frame.acknowledged
                    && more <= AGGREGATE_OCTETS
                    && rate.duration(more) <= AGGREGATE_TIME
            };
            if !station.queue.front().is_some_and(|next| fits(&next.frame)) {
                break;
            }
            let Some(mut next) = station.queue.pop_front() else {
                break;
            };
            octets += (next.frame.octets + DELIMITER_OCTETS).next_multiple_of(4);
            next.times.queue = now.saturating_sub(next.since);
            station.aboard.push(next);
        }
    }

    /// Sends what is aboard after the CTS.
    pub(super) fn send_data(&mut self, now: Time, id: StationId) {
        if !self.stations[id].aboard.is_empty() && !self.stations[id].sending {
            self.send(now, id, self.stations[id].rate);
        }
    }

    fn send(&mut self, now: Time, id: StationId, rate: Rate) {
        let reserved = self.answer_time(id, rate);
        let octets = self.octets_aboard(id);
        let station = &mut self.stations[id];
        station.state = State::Sending(Step::Data);
        station.data_began = now;
        station.counters.data_sent += 1;
        let to = station.aboard[0].frame.to;
        self.put(now, id, to, Kind::Data, rate, octets, reserved);
        for queued in &mut self.stations[id].aboard {
            queued.aired = true;
        }
    }

    fn octets_aboard(&self, id: StationId) -> usize {
        match self.stations[id].aboard.as_slice() {
            [only] => only.frame.octets,
            several => several
                .iter()
                .map(|queued| (queued.frame.octets + DELIMITER_OCTETS).next_multiple_of(4))
                .sum(),
        }
    }

    fn data_time(&self, id: StationId, rate: Rate) -> Time {
        self.settings.phy.duration(rate, self.octets_aboard(id))
    }

    /// Returns how long the space and the acknowledgement after what is aboard take; nothing if none is asked for.
    fn answer_time(&self, id: StationId, rate: Rate) -> Time {
        let (phy, station) = (&self.settings.phy, &self.stations[id]);
        if !station.wants_answer() {
            return Time::ZERO;
        }
        let octets = if station.aboard.len() > 1 {
            BLOCK_ACK_OCTETS
        } else {
            ACK_OCTETS
        };
        phy.sifs + phy.duration(phy.response_rate(rate), octets)
    }

    /// Ends the wait for an answer that has not begun.
    pub(super) fn deadline(&mut self, now: Time, id: StationId, exchange: u64) {
        let station = &self.stations[id];
        if let (State::Waiting(step), true) = (station.state, station.exchange == exchange) {
            self.fail(now, id, step);
        }
    }

    /// Goes on when an answer has ended; `read`: it could be read.
    pub(super) fn answered(&mut self, now: Time, id: StationId, read: bool) {
        let State::Hearing(step) = self.stations[id].state else {
            return;
        };
        match step {
            _ if !read => self.fail(now, id, step),
            Step::Rts => {
                self.stations[id].state = State::Sending(Step::Data);
                let exchange = self.stations[id].exchange;
                let at = now + self.settings.phy.sifs;
                self.set_timer(
                    at,
                    Task::Data {
                        station: id,
                        exchange,
                    },
                );
            }
            Step::Data => self.succeed(now, id),
        }
    }

    fn fail(&mut self, now: Time, id: StationId, step: Step) {
        let station = &mut self.stations[id];
        match step {
            Step::Rts => station.counters.cts_missing += 1,
            Step::Data => station.counters.ack_missing += 1,
        }
        let lost = now.saturating_sub(station.exchange_began);
        for queued in &mut station.aboard {
            queued.times.retries += lost;
        }
        station.cw = (2 * station.cw + 1).min(self.settings.phy.cw_max);
        let mut given_up = false;
        for queued in core::mem::take(&mut station.aboard).into_iter().rev() {
            if queued.is_spent() {
                given_up = true;
                station.counters.given_up += 1;
                self.events.push_back(Event::Done {
                    id: queued.frame.id,
                    station: id,
                    acknowledged: false,
                    attempts: queued.attempts,
                    times: queued.times,
                });
            } else {
                station.aboard.push(queued);
            }
        }
        station.aboard.reverse();
        if given_up {
            station.cw = self.settings.phy.cw_min;
        }
        self.rest(now, id);
    }

    /// Ends an exchange whose acknowledgement has come, or that asks for none.
    pub(super) fn succeed(&mut self, now: Time, id: StationId) {
        let station = &mut self.stations[id];
        let rts_cts = station.data_began.saturating_sub(station.exchange_began);
        let data = station.data_ended.saturating_sub(station.data_began);
        let ack = now.saturating_sub(station.data_ended);
        let aboard = core::mem::take(&mut station.aboard);
        for (mut queued, acknowledged) in aboard.into_iter().zip(&station.acknowledged) {
            if !acknowledged && !queued.is_spent() {
                queued.times.retries += now.saturating_sub(station.exchange_began);
                station.aboard.push(queued);
                continue;
            }
            queued.times.rts_cts = rts_cts;
            queued.times.data = data;
            queued.times.ack = ack;
            if *acknowledged {
                station.counters.delivered += 1;
            } else {
                station.counters.given_up += 1;
            }
            self.events.push_back(Event::Done {
                id: queued.frame.id,
                station: id,
                acknowledged: *acknowledged,
                attempts: queued.attempts,
                times: queued.times,
            });
        }
        station.cw = self.settings.phy.cw_min;
        self.rest(now, id);
    }

    /// Draws slots, and begins to wait for the air again. A station draws also when it has nothing more to send.
    fn rest(&mut self, now: Time, id: StationId) {
        let drawn = self.rng.u32(0..=self.stations[id].cw);
        let station = &mut self.stations[id];
        station.state = State::Resting;
        station.access_began = now;
        station.backoff = drawn;
        if let Some(start) = station.counting {
            // Slots that passed before the draw do not count.
            station.counting = Some(start.max(now));
        }
        self.count_down(now, id);
    }
}
