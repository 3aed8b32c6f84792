//! Flows over a medium in virtual time: stations that always have something to send, and lines of relays.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::frame::{Attempt, Event, Frame, Receiver};
use crate::medium::Medium;
use crate::rate::Rate;
use crate::{StationId, Time};

/// Transmissions for which a saturated source keeps frames in its station's queue: the present and the next.
const AHEAD: usize = 2;
/// Bits of a frame's name that number it; above are the hop and the flow.
const NUMBER_BITS: u32 = 40;
const HOP_BITS: u32 = 8;

/// How much a source offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// There is always something to send.
    Saturated,
    /// A frame at each interval, which is more than zero.
    Every(Duration),
}

/// Frames of one size that go along a path of stations.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The source, the relays and the destination: at least two stations, at most 256.
    pub path: Vec<StationId>,
    /// Octets of a frame with its header and check sequence.
    pub octets: usize,
    /// Octets of these that are user data, for the throughput.
    pub payload: usize,
    /// The rate table of its frames.
    pub attempts: Vec<Attempt>,
    /// Whether frames may be aggregated.
    pub aggregated: bool,
    /// What is offered.
    pub load: Load,
}

impl Flow {
    /// Returns a saturated flow of frames at one rate, tried seven times each (dot11ShortRetryLimit).
    pub fn saturated(path: &[StationId], octets: usize, rate: Rate) -> Self {
        Self {
            path: path.to_vec(),
            octets,
            payload: octets,
            attempts: vec![Attempt {
                rate,
                count: 7,
                rts: false,
            }],
            aggregated: false,
            load: Load::Saturated,
        }
    }
}

/// What became of a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Frames that the source gave to its station.
    pub offered: u64,
    /// Frames that reached the destination, each counted once.
    pub delivered: u64,
    /// Frames that some station gave up or refused. One may have arrived all the same, without its acknowledgement.
    pub lost: u64,
    /// Sum of the delays from source to destination of those that arrived.
    pub delay: Duration,
    /// The longest of them.
    pub delay_max: Duration,
}

impl Outcome {
    /// Returns the throughput of user data in Mbit/s.
    pub fn mbit_s(&self, flow: &Flow, span: Duration) -> f64 {
        (self.delivered * flow.payload as u64 * 8) as f64 / span.as_secs_f64() / 1e6
    }

    /// Returns the mean delay; zero if nothing arrived.
    pub fn mean_delay(&self) -> Duration {
        u32::try_from(self.delivered)
            .ok()
            .and_then(|delivered| self.delay.checked_div(delivered))
            .unwrap_or_default()
    }
}

/// Runs flows over a medium from its time `from` on.
#[derive(Debug)]
pub struct Run<'a> {
    medium: &'a mut Medium,
    flows: &'a [Flow],
    outcomes: Vec<Outcome>,
    /// When each flow offers its next frame; `None` if it is saturated.
    due: Vec<Option<Time>>,
    /// When the source gave each frame that is under way, by flow: number and time.
    born: Vec<Vec<(u64, Time)>>,
}

/// Runs flows for a span of virtual time. Returns what became of each.
///
/// Every relay hands on what it receives. A medium that has run before goes on.
pub fn run(medium: &mut Medium, flows: &[Flow], from: Time, span: Duration) -> Vec<Outcome> {
    let mut run = Run {
        medium,
        flows,
        outcomes: vec![Outcome::default(); flows.len()],
        due: flows.iter().map(|flow| first(flow, from)).collect(),
        born: vec![Vec::new(); flows.len()],
    };
    run.to(from, from + span);
    run.outcomes
}

fn first(flow: &Flow, from: Time) -> Option<Time> {
    match flow.load {
        Load::Saturated => None,
        Load::Every(_) => Some(from),
    }
}

impl Run<'_> {
    fn to(&mut self, from: Time, end: Time) {
        let ahead = AHEAD * self.medium.settings().aggregate.max(1);
        for number in 0..self.flows.len() {
            if self.flows[number].load == Load::Saturated {
                (0..ahead).for_each(|_| self.offer(from, number));
            }
        }
        while let Some(now) = self.next().filter(|next| *next <= end) {
            for number in 0..self.flows.len() {
                if self.due[number].is_some_and(|due| due <= now) {
                    self.offer(now, number);
                    if let Load::Every(interval) = self.flows[number].load {
                        self.due[number] = Some(now + interval.max(Duration::from_nanos(1)));
                    }
                }
            }
            self.medium.handle_timeout(now);
            while let Some(event) = self.medium.poll_event() {
                self.take(now, event);
            }
        }
    }

    fn next(&self) -> Option<Time> {
        let due = self.due.iter().flatten().min().copied();
        due.into_iter().chain(self.medium.poll_timeout()).min()
    }

    fn offer(&mut self, now: Time, flow: usize) {
        let number = self.outcomes[flow].offered;
        self.outcomes[flow].offered += 1;
        self.born[flow].push((number, now));
        self.send(now, flow, 0, number);
    }

    fn send(&mut self, now: Time, flow: usize, hop: usize, number: u64) {
        let known = &self.flows[flow];
        let (Some(from), Some(to)) = (known.path.get(hop), known.path.get(hop + 1)) else {
            return;
        };
        let frame = Frame {
            id: name(flow, hop, number),
            to: Receiver::Station(*to),
            octets: known.octets,
            attempts: known.attempts.clone(),
            acknowledged: true,
            aggregated: known.aggregated,
            channel: 1,
        };
        self.medium.handle_frame(now, *from, frame);
    }

    fn take(&mut self, now: Time, event: Event) {
        match event {
            Event::Received {
                id,
                addressed: true,
                duplicate: false,
                ..
            } => {
                let (flow, hop, number) = parts(id);
                if hop + 2 == self.flows[flow].path.len() {
                    self.arrived(now, flow, number);
                } else {
                    self.send(now, flow, hop + 1, number);
                }
            }
            Event::Received { .. } => {}
            Event::Done {
                id, acknowledged, ..
            } => {
                let (flow, hop, number) = parts(id);
                if !acknowledged {
                    self.outcomes[flow].lost += 1;
                    self.born[flow].retain(|(known, _)| *known != number);
                }
                if hop == 0 && self.flows[flow].load == Load::Saturated {
                    self.offer(now, flow);
                }
            }
        }
    }

    fn arrived(&mut self, now: Time, flow: usize, number: u64) {
        let outcome = &mut self.outcomes[flow];
        outcome.delivered += 1;
        let born = &mut self.born[flow];
        if let Some(place) = born.iter().position(|(known, _)| *known == number) {
            let delay = now.saturating_sub(born.remove(place).1);
            outcome.delay += delay;
            outcome.delay_max = outcome.delay_max.max(delay);
        }
    }
}

fn name(flow: usize, hop: usize, number: u64) -> u64 {
    ((flow as u64) << (NUMBER_BITS + HOP_BITS)) | ((hop as u64) << NUMBER_BITS) | number
}

fn parts(id: u64) -> (usize, usize, u64) {
    let hop = (id >> NUMBER_BITS) & ((1 << HOP_BITS) - 1);
    let number = id & ((1 << NUMBER_BITS) - 1);
    (
        (id >> (NUMBER_BITS + HOP_BITS)) as usize,
        hop as usize,
        number,
    )
}
