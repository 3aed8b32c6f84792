//! The stations of one place and what is on the air between them.

mod air;
mod exchange;

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use crate::frame::{Event, Frame, Receiver, Sent, Times};
use crate::phy::Phy;
use crate::rate::Rate;
use crate::reach::Reach;
use crate::station::{Counters, Queued, Station};
use crate::{StationId, Time};
use air::{Kind, Transmission};

/// What all stations of a medium have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The physical layer.
    pub phy: Phy,
    /// Signal over noise, in dB, from which carrier sense takes the air for busy.
    pub senses_db: f64,
    /// Ratio of a signal to all others, in dB, from which it is received in spite of them; `None`: two frames at once
    /// destroy each other at a receiver that both reach with more than its noise.
    pub capture_db: Option<f64>,
    /// Frames that wait in one station, at most. A further one is refused.
    pub queue: usize,
    /// Frames in one aggregate, at most; 1: none are aggregated.
    pub aggregate: usize,
    /// Whether stations report frames that are addressed to others.
    pub overhear: bool,
    /// Seed of slots and losses.
    pub seed: u64,
}

impl Default for Settings {
    /// 802.11g, carrier sense 3 dB below the noise, no capture, queues of 100 frames.
    fn default() -> Self {
        Self {
            phy: Phy::g(),
            senses_db: -3.0,
            capture_db: None,
            queue: 100,
            aggregate: 1,
            overhear: false,
            seed: 1,
        }
    }
}

/// Stations, and what is on the air between them. See the description of the crate.
#[derive(Debug)]
pub struct Medium {
    settings: Settings,
    /// [`Settings::senses_db`] as a factor.
    senses: f64,
    reach: Reach,
    stations: Vec<Station>,
    air: Vec<Transmission>,
    timers: BinaryHeap<Reverse<Timer>>,
    /// Numbers timers and transmissions.
    order: u64,
    rng: fastrand::Rng,
    events: VecDeque<Event>,
    /// What was put on the air; `None`: nobody watches.
    watched: Option<VecDeque<Sent>>,
}

/// Something to do at a time; equal times in the order in which they were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Timer {
    at: Time,
    order: u64,
    task: Task,
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// A countdown ends.
    Access { station: StationId, countdown: u64 },
    /// A frame on the air ends.
    End { transmission: u64 },
    /// A station answers.
    Answer {
        station: StationId,
        to: StationId,
        kind: Kind,
        rate: Rate,
        /// How long the air stays reserved after the answer.
        reserved: Time,
    },
    /// A station sends its data after the CTS.
    Data { station: StationId, exchange: u64 },
    /// No answer has begun.
    Deadline { station: StationId, exchange: u64 },
    /// Nothing followed an RTS that a station overheard, so that its reservation is void (section 10.3.2.4).
    Void { station: StationId, idle_from: Time },
}

impl Medium {
    /// Returns a medium in which nothing has been sent, at time `now`.
    pub fn new(settings: Settings, reach: Reach, now: Time) -> Self {
        let stations = (0..reach.stations())
            .map(|_| Station::new(&settings.phy, now))
            .collect();
        Self {
            senses: libm::pow(10.0, settings.senses_db / 10.0),
            rng: fastrand::Rng::with_seed(settings.seed),
            settings,
            reach,
            stations,
            air: Vec::new(),
            timers: BinaryHeap::new(),
            order: 0,
            events: VecDeque::new(),
            watched: None,
        }
    }

    /// Keeps what stations put on the air from now on, until [`Medium::poll_sent`] returns it.
    pub fn watch(&mut self) {
        self.watched.get_or_insert_default();
    }

    /// Returns what was put on the air next, in the order of time, since [`Medium::watch`].
    pub fn poll_sent(&mut self) -> Option<Sent> {
        self.watched.as_mut()?.pop_front()
    }

    /// Returns what all stations have in common.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes who hears whom, for frames that begin from now on. Ignored if the number of stations differs.
    pub fn set_reach(&mut self, reach: Reach) {
        if reach.stations() == self.stations.len() {
            self.reach = reach;
        }
    }

    /// Sets the size in octets above which a station sends RTS first; `None`: only where a frame asks for it.
    pub fn set_rts_threshold(&mut self, station: StationId, threshold: Option<usize>) {
        if let Some(station) = self.stations.get_mut(station) {
            station.rts_threshold = threshold;
        }
    }

    /// Says whether a station's receiver is on. One that is off neither reads nor senses, but may send.
    pub fn set_listening(&mut self, station: StationId, listening: bool) {
        if let Some(station) = self.stations.get_mut(station) {
            station.listening = listening;
        }
    }

    /// Returns what a station has done so far.
    pub fn counters(&self, station: StationId) -> Counters {
        self.stations
            .get(station)
            .map(|station| station.counters)
            .unwrap_or_default()
    }

    /// Returns the number of frames that a station has not finished with.
    pub fn queued(&self, station: StationId) -> usize {
        self.stations
            .get(station)
            .map_or(0, |station| station.queue.len() + station.aboard.len())
    }

    /// Takes a frame to be sent. A full queue refuses it: [`Event::Done`] follows at once, with no attempt.
    ///
    /// A frame of an unknown station is ignored.
    pub fn handle_frame(&mut self, now: Time, from: StationId, frame: Frame) {
        if self.queued(from) >= self.settings.queue {
            if let Some(station) = self.stations.get_mut(from) {
                station.counters.refused += 1;
                self.events.push_back(Event::Done {
                    id: frame.id,
                    station: from,
                    acknowledged: false,
                    attempts: 0,
                    times: Times::default(),
                });
            }
            return;
        }
        let Some(station) = self.stations.get_mut(from) else {
            return;
        };
        station.channel = frame.channel;
        let idle = station.queue.is_empty() && station.aboard.is_empty();
        station.queue.push_back(Queued {
            frame,
            since: now,
            attempts: 0,
            aired: false,
            received: false,
            times: Times::default(),
        });
        if !idle {
            return;
        }
        station.access_began = now;
        let free = station.counting.is_some() && station.nav <= now;
        if station.backoff == 0 && !free {
            // Section 10.3.4.2: who finds the air busy draws slots; who finds it free sends at once.
            station.backoff = self.rng.u32(0..=station.cw);
        }
        self.count_down(now, from);
    }

    /// Returns when to call [`Medium::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.peek().map(|Reverse(timer)| timer.at)
    }

    /// Does what is due at `now`. Each task happens at its own time, also if it is called late.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(Reverse(timer)) = self.timers.peek() {
            if timer.at > now {
                break;
            }
            let Timer { at, task, .. } = *timer;
            self.timers.pop();
            self.run(at, task);
        }
    }

    /// Returns what happened next, in the order of time.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn run(&mut self, now: Time, task: Task) {
        match task {
            Task::Access { station, countdown } => {
                if self.stations[station].countdown == countdown {
                    self.begin_exchange(now, station);
                }
            }
            Task::End { transmission } => self.end(now, transmission),
            Task::Answer {
                station,
                to,
                kind,
                rate,
                reserved,
            } => self.answer(now, station, to, kind, rate, reserved),
            Task::Data { station, exchange } => {
                if self.stations[station].exchange == exchange {
                    self.send_data(now, station);
                }
            }
            Task::Deadline { station, exchange } => self.deadline(now, station, exchange),
            Task::Void { station, idle_from } => {
                let phy = &self.settings.phy;
                let known = &mut self.stations[station];
                if known.busy == 0 && known.idle_from == idle_from && known.nav > now {
                    known.nav = now;
                    known.count_from(now, phy);
                    self.count_down(now, station);
                }
            }
        }
    }

    /// Sets the timer for the end of a station's countdown, if it has one.
    fn count_down(&mut self, now: Time, id: StationId) {
        let station = &mut self.stations[id];
        let at = station.access_time(now, &self.settings.phy);
        station.access_at = at;
        station.countdown += 1;
        if let Some(at) = at {
            let countdown = station.countdown;
            self.set_timer(
                at,
                Task::Access {
                    station: id,
                    countdown,
                },
            );
        }
    }

    fn set_timer(&mut self, at: Time, task: Task) {
        self.order += 1;
        let order = self.order;
        self.timers.push(Reverse(Timer { at, order, task }));
    }

    /// Returns the station that a frame is addressed to, if it is one of this medium.
    fn addressed(&self, to: Receiver) -> Option<StationId> {
        match to {
            Receiver::Station(id) if id < self.stations.len() => Some(id),
            _ => None,
        }
    }
}
