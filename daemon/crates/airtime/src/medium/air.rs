//! What is on the air: who senses it, what it disturbs, and who can read it.

use alloc::vec;
use alloc::vec::Vec;

use super::{Medium, Task};
use crate::frame::{Carried, Event, Receiver, Sent, What};
use crate::phy::{ACK_OCTETS, BLOCK_ACK_OCTETS, CTS_OCTETS};
use crate::rate::Rate;
use crate::reach::{decibels, loss};
use crate::station::{State, Step};
use crate::{StationId, Time};

/// The kind of a frame, as far as the access to the air knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Rts,
    Cts,
    Data,
    Ack,
}

/// A frame on the air.
#[derive(Clone, Debug)]
pub(super) struct Transmission {
    pub number: u64,
    pub from: StationId,
    pub to: Receiver,
    pub kind: Kind,
    pub rate: Rate,
    pub octets: usize,
    pub channel: u32,
    /// How long the air stays reserved after its end (the Duration field).
    pub reserved: Time,
    /// The most that others' signals add at each station while it is on the air, over the noise; a factor.
    pub disturbed: Vec<f64>,
    /// Stations that were sending meanwhile, and so heard nothing of it.
    pub deaf: Vec<bool>,
    /// Stations that sense it.
    pub sensed: Vec<bool>,
}

impl Medium {
    /// Puts a frame on the air. Returns how long it takes.
    #[allow(clippy::too_many_arguments)] // They are the fields of a frame.
    pub(super) fn put(
        &mut self,
        now: Time,
        from: StationId,
        to: Receiver,
        kind: Kind,
        rate: Rate,
        octets: usize,
        reserved: Time,
    ) -> Time {
        let takes = self.settings.phy.duration(rate, octets);
        self.show(now, from, to, kind, rate);
        // An answer goes out on the channel of what it answers.
        let asked = self
            .addressed(to)
            .filter(|_| matches!(kind, Kind::Cts | Kind::Ack));
        let channel = self.stations[asked.unwrap_or(from)].channel;
        self.order += 1;
        let count = self.stations.len();
        let mut sent = Transmission {
            number: self.order,
            from,
            to,
            kind,
            rate,
            octets,
            channel,
            reserved,
            disturbed: vec![0.0; count],
            deaf: self
                .stations
                .iter()
                .map(|station| station.sending)
                .collect(),
            sensed: vec![false; count],
        };
        sent.deaf[from] = true;
        for id in 0..count {
            sent.sensed[id] = self.arrives(&sent, id) >= self.senses;
        }
        self.stations[from].start_sending(now, &self.settings.phy);
        self.stations[from].counters.sending += takes;
        for id in (0..count).filter(|id| sent.sensed[*id]) {
            self.sensed_by(now, id, &sent);
        }
        let number = sent.number;
        self.air.push(sent);
        self.disturb(from);
        self.set_timer(
            now + takes,
            Task::End {
                transmission: number,
            },
        );
        takes
    }

    /// Keeps a frame that begins for who watches.
    fn show(&mut self, at: Time, from: StationId, to: Receiver, kind: Kind, rate: Rate) {
        let Some(watched) = &mut self.watched else {
            return;
        };
        let aboard = |id: StationId| self.stations[id].aboard.as_slice();
        let (what, carried) = match (kind, to) {
            (Kind::Rts, _) => (What::Rts, Vec::new()),
            (Kind::Cts, _) => (What::Cts, Vec::new()),
            (Kind::Ack, Receiver::Station(to)) if aboard(to).len() > 1 => {
                (What::BlockAck, Vec::new())
            }
            (Kind::Ack, _) => (What::Ack, Vec::new()),
            (Kind::Data, _) => (
                What::Data,
                aboard(from)
                    .iter()
                    .map(|queued| Carried {
                        id: queued.frame.id,
                        octets: queued.frame.octets,
                        retry: queued.aired,
                    })
                    .collect(),
            ),
        };
        watched.push_back(Sent {
            at,
            from,
            to,
            what,
            rate,
            carried,
        });
    }

    /// Returns with which strength over the noise a frame arrives at a station: 0 on another channel,
    /// or if its receiver is off.
    fn arrives(&self, sent: &Transmission, at: StationId) -> f64 {
        let tuned = self.stations[at].channel;
        if !self.stations[at].listening || at == sent.from || (tuned != 0 && tuned != sent.channel)
        {
            return 0.0;
        }
        self.reach.ratio(sent.from, at)
    }

    fn sensed_by(&mut self, now: Time, id: StationId, sent: &Transmission) {
        let station = &mut self.stations[id];
        station.sense(now, &self.settings.phy);
        if let (State::Waiting(step), Kind::Cts | Kind::Ack) = (station.state, sent.kind) {
            if sent.to == Receiver::Station(id) {
                station.state = State::Hearing(step);
            }
        }
    }

    /// Notes in all frames on the air what they do to each other, after the last one has begun.
    fn disturb(&mut self, from: StationId) {
        for id in 0..self.stations.len() {
            let powers: Vec<f64> = self.air.iter().map(|sent| self.arrives(sent, id)).collect();
            let all: f64 = powers.iter().sum();
            for (sent, power) in self.air.iter_mut().zip(powers) {
                sent.disturbed[id] = sent.disturbed[id].max(all - power);
            }
        }
        for sent in &mut self.air {
            sent.deaf[from] = true;
        }
    }

    /// Ends a frame on the air: those who can read it do what it asks for.
    pub(super) fn end(&mut self, now: Time, number: u64) {
        let Some(place) = self.air.iter().position(|sent| sent.number == number) else {
            return;
        };
        let sent = self.air.swap_remove(place);
        let mut read = false;
        for id in 0..self.stations.len() {
            if id == sent.from || self.arrives(&sent, id) <= 0.0 {
                continue;
            }
            let understood = self.read(now, id, &sent);
            if self.addressed(sent.to) == Some(id) {
                read = understood;
            } else if understood {
                self.reserve(now, id, &sent);
            }
            // Who was sending did not try to read it.
            if sent.sensed[id] && !sent.deaf[id] {
                self.stations[id].garbled = !understood;
            }
        }
        self.sender_ends(now, &sent);
        self.stations[sent.from].sending = false;
        self.stations[sent.from].garbled = false;
        for id in 0..self.stations.len() {
            let concerned = sent.sensed[id] || id == sent.from;
            if concerned && self.stations[id].unsense(now, &self.settings.phy) {
                self.count_down(now, id);
            }
        }
        if let (Some(to), Kind::Cts | Kind::Ack) = (self.addressed(sent.to), sent.kind) {
            if matches!(self.stations[to].state, State::Hearing(_)) {
                self.answered(now, to, read);
            }
        }
    }

    /// Returns whether a station can read a frame that ends. A readable data frame is reported.
    fn read(&mut self, now: Time, id: StationId, sent: &Transmission) -> bool {
        let Some(snr) = self.clear(id, sent) else {
            return false;
        };
        let mine = self.addressed(sent.to) == Some(id);
        if sent.kind != Kind::Data {
            let intact = self.survives(sent.rate, sent.octets, snr);
            if intact && mine && sent.kind == Kind::Rts {
                self.clear_to_send(now, id, sent);
            }
            return intact;
        }
        let report = mine || sent.to == Receiver::All || self.settings.overhear;
        let aboard = self.stations[sent.from].aboard.len();
        let mut any = false;
        for number in 0..aboard {
            let octets = self.stations[sent.from].aboard[number].frame.octets;
            let intact = self.survives(sent.rate, octets, snr);
            any |= intact;
            let sender = &mut self.stations[sent.from];
            if mine {
                sender.acknowledged[number] = intact;
            }
            let queued = &mut sender.aboard[number];
            let duplicate = mine && queued.received;
            queued.received |= mine && intact;
            if intact && report {
                self.events.push_back(Event::Received {
                    id: queued.frame.id,
                    from: sent.from,
                    to: id,
                    snr_db: self.reach.snr_db(sent.from, id),
                    rate: sent.rate,
                    addressed: mine || sent.to == Receiver::All,
                    retry: queued.attempts > 1,
                    duplicate,
                });
            }
        }
        if mine && any && self.stations[sent.from].wants_answer() {
            self.set_answer(now, id, sent, Kind::Ack, Time::ZERO);
        }
        any
    }

    /// Returns the ratio of the signal and all that disturbed it, in dB; `None` if the frame is lost in it.
    fn clear(&self, id: StationId, sent: &Transmission) -> Option<f64> {
        if sent.deaf[id] {
            return None;
        }
        let (signal, others) = (self.arrives(sent, id), sent.disturbed[id]);
        let captured = match self.settings.capture_db {
            None => others < 1.0,
            Some(needed) => others <= 0.0 || decibels(signal / others) >= needed,
        };
        captured.then(|| decibels(signal / (1.0 + others)))
    }

    fn survives(&mut self, rate: Rate, octets: usize, snr_db: f64) -> bool {
        let lost = loss(rate, octets, snr_db);
        // The draw is left out where it cannot matter, so that a loss-free run does not depend on it.
        lost < 1e-9 || (lost < 1.0 && self.rng.f64() >= lost)
    }

    /// Takes a reservation of the air that another one's frame announces (NAV, section 10.3.2.4).
    fn reserve(&mut self, now: Time, id: StationId, sent: &Transmission) {
        let until = now + sent.reserved;
        if until <= self.stations[id].nav {
            return;
        }
        self.stations[id].nav = until;
        if sent.kind == Kind::Rts {
            let phy = &self.settings.phy;
            let cts = phy.duration(phy.response_rate(sent.rate), CTS_OCTETS);
            let start = phy.answer_timeout(sent.rate) - phy.sifs - phy.slot;
            let at = now + 2 * phy.sifs + cts + start + 2 * phy.slot;
            self.set_timer(
                at,
                Task::Void {
                    station: id,
                    idle_from: now,
                },
            );
        }
    }

    /// Answers an RTS, unless others have reserved the air around this station (section 10.3.2.9).
    fn clear_to_send(&mut self, now: Time, id: StationId, sent: &Transmission) {
        let phy = &self.settings.phy;
        let cts = phy.duration(phy.response_rate(sent.rate), CTS_OCTETS);
        let left = sent.reserved.saturating_sub(phy.sifs + cts);
        if self.stations[id].nav <= now {
            self.set_answer(now, id, sent, Kind::Cts, left);
        }
    }

    /// Lets a station answer a SIFS after what it has read.
    fn set_answer(
        &mut self,
        now: Time,
        id: StationId,
        sent: &Transmission,
        kind: Kind,
        reserved: Time,
    ) {
        let task = Task::Answer {
            station: id,
            to: sent.from,
            kind,
            rate: self.settings.phy.response_rate(sent.rate),
            reserved,
        };
        self.set_timer(now + self.settings.phy.sifs, task);
    }

    /// Sends an answer, unless the station has begun to send something else.
    pub(super) fn answer(
        &mut self,
        now: Time,
        id: StationId,
        to: StationId,
        kind: Kind,
        rate: Rate,
        reserved: Time,
    ) {
        if self.stations[id].sending {
            return;
        }
        let octets = match kind {
            Kind::Ack if self.stations[to].aboard.len() > 1 => BLOCK_ACK_OCTETS,
            Kind::Ack => ACK_OCTETS,
            _ => CTS_OCTETS,
        };
        self.put(now, id, Receiver::Station(to), kind, rate, octets, reserved);
    }

    /// Does what follows for the sender when its frame has ended.
    fn sender_ends(&mut self, now: Time, sent: &Transmission) {
        let step = match sent.kind {
            Kind::Rts => Step::Rts,
            Kind::Data => Step::Data,
            Kind::Cts | Kind::Ack => return,
        };
        self.stations[sent.from].data_ended = now;
        if sent.kind == Kind::Data && !self.stations[sent.from].wants_answer() {
            self.stations[sent.from].acknowledged.fill(true);
            self.succeed(now, sent.from);
            return;
        }
        let station = &mut self.stations[sent.from];
        station.state = State::Waiting(step);
        let exchange = station.exchange;
        let at = now + self.settings.phy.answer_timeout(sent.rate);
        self.set_timer(
            at,
            Task::Deadline {
                station: sent.from,
                exchange,
            },
        );
    }
}
