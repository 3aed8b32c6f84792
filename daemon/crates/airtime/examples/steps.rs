//! Lets a program drive the model of the air step by step: JSON lines in, JSON lines out.
//!
//! The first line is the place: `{"stations": 3, "links": [[0, 1, 40.0], ...], "flows": [{"path": [1, 0], "octets":
//! 1500, "kbps": 24000, "interval": null}, ...], "seed": 1}`. A link has two stations and signal over noise in dB. A
//! flow with an interval (seconds) offers a frame each time, one without always has something to send. Each further
//! line is a step: `{"seconds": 1.0, "rts": [500, null, ...]}`, with an RTS threshold for each station, and perhaps
//! `"links"` that replace the former ones. The answer has the counters of each station and flow since the start.

use std::collections::HashMap;
use std::io::{stdin, BufRead, Write};
use std::time::Duration;

use airtime::{Attempt, Event, Frame, Medium, Rate, Reach, Receiver, Settings, Time};
use serde_json::{json, Value};

/// Attempts for each frame (dot11ShortRetryLimit).
const TRIES: u8 = 7;
/// Frames that a flow that always has something to send keeps in its station's queue.
const AHEAD: usize = 4;
/// Most stations and flows of a place.
const MOST: usize = 64;

struct Flow {
    path: Vec<usize>,
    octets: usize,
    rate: Rate,
    interval: Option<Duration>,
    due: Time,
    waiting: usize,
    delivered: u64,
    lost: u64,
    delays: Vec<f64>,
}

/// What a driver would have counted of a station (nl80211_sta_info).
#[derive(Clone, Default)]
struct Counted {
    frames: u64,
    octets: u64,
    retries: u64,
    failed: u64,
}

struct Under {
    flow: usize,
    hop: usize,
    born: Time,
}

struct Air {
    medium: Medium,
    flows: Vec<Flow>,
    counted: Vec<Counted>,
    under: HashMap<u64, Under>,
    number: u64,
    now: Time,
}

fn main() {
    if let Err(message) = serve() {
        eprintln!("steps: {message}");
        std::process::exit(2);
    }
}

fn serve() -> Result<(), String> {
    let mut lines = stdin().lock().lines();
    let mut next = || -> Result<Option<Value>, String> {
        match lines.next() {
            None => Ok(None),
            Some(line) => serde_json::from_str(&line.map_err(|error| error.to_string())?)
                .map(Some)
                .map_err(|error| format!("a line is no JSON: {error}")),
        }
    };
    let Some(place) = next()? else {
        return Err("there is no place".into());
    };
    let mut air = Air::new(&place)?;
    while let Some(step) = next()? {
        air.change(&step)?;
        air.run(seconds(&step["seconds"])?);
        println!("{}", air.report());
        std::io::stdout()
            .flush()
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn number(value: &Value, most: usize, what: &str) -> Result<usize, String> {
    let found = value.as_u64().and_then(|found| usize::try_from(found).ok());
    found
        .filter(|found| *found <= most)
        .ok_or_else(|| format!("{what} {value} is refused; allowed: 0 to {most}"))
}

fn seconds(value: &Value) -> Result<Duration, String> {
    value
        .as_f64()
        .filter(|found| *found > 0.0 && *found <= 3600.0)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("seconds {value} is refused; allowed: more than 0, up to 3600"))
}

fn list<'a>(value: &'a Value, what: &str) -> Result<&'a Vec<Value>, String> {
    value
        .as_array()
        .filter(|found| found.len() <= MOST * MOST)
        .ok_or_else(|| format!("{what} {value} is refused; allowed: a list"))
}

fn reach(stations: usize, links: &Value) -> Result<Reach, String> {
    let mut reach = Reach::none(stations);
    for link in list(links, "links")? {
        let ends = (
            number(&link[0], stations - 1, "station")?,
            number(&link[1], stations - 1, "station")?,
        );
        let snr = link[2]
            .as_f64()
            .ok_or_else(|| format!("link {link} has no signal in dB"))?;
        reach.link(ends.0, ends.1, snr);
    }
    Ok(reach)
}

fn flow(stations: usize, found: &Value) -> Result<Flow, String> {
    let path = list(&found["path"], "path")?
        .iter()
        .map(|id| number(id, stations - 1, "station"))
        .collect::<Result<Vec<_>, _>>()?;
    if path.len() < 2 {
        return Err(format!(
            "path {path:?} is refused; allowed: two stations or more"
        ));
    }
    let kbps = number(&found["kbps"], 54_000, "kbps")?;
    let interval = match &found["interval"] {
        Value::Null => None,
        given => Some(seconds(given)?),
    };
    Ok(Flow {
        path,
        octets: number(&found["octets"], 2346, "octets")?,
        rate: Rate::legacy(kbps as u32, false)
            .ok_or_else(|| format!("kbps {kbps} is refused; allowed: rates of 802.11b and g"))?,
        interval,
        due: Time::ZERO,
        waiting: 0,
        delivered: 0,
        lost: 0,
        delays: Vec::new(),
    })
}

impl Air {
    fn new(place: &Value) -> Result<Self, String> {
        let stations = number(&place["stations"], MOST, "stations")?.max(1);
        let settings = Settings {
            seed: place["seed"].as_u64().unwrap_or(1),
            ..Settings::default()
        };
        Ok(Self {
            medium: Medium::new(settings, reach(stations, &place["links"])?, Time::ZERO),
            flows: list(&place["flows"], "flows")?
                .iter()
                .map(|found| flow(stations, found))
                .collect::<Result<_, _>>()?,
            counted: vec![Counted::default(); stations],
            under: HashMap::new(),
            number: 0,
            now: Time::ZERO,
        })
    }

    fn change(&mut self, step: &Value) -> Result<(), String> {
        if !step["links"].is_null() {
            self.medium
                .set_reach(reach(self.counted.len(), &step["links"])?);
        }
        for (station, threshold) in list(&step["rts"], "rts")?.iter().enumerate() {
            let octets = match threshold {
                Value::Null => None,
                given => Some(number(given, 2347, "rts")?),
            };
            self.medium.set_rts_threshold(station, octets);
        }
        Ok(())
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        self.offer();
        while let Some(now) = self.next().filter(|next| *next <= end) {
            self.now = now;
            self.medium.handle_timeout(now);
            while let Some(event) = self.medium.poll_event() {
                self.take(&event);
            }
            self.offer();
        }
        self.now = end;
    }

    fn next(&self) -> Option<Time> {
        let due = self
            .flows
            .iter()
            .filter(|flow| flow.interval.is_some())
            .map(|flow| flow.due);
        due.chain(self.medium.poll_timeout()).min()
    }

    /// Gives each flow's source what is due.
    fn offer(&mut self) {
        for index in 0..self.flows.len() {
            loop {
                let flow = &mut self.flows[index];
                match flow.interval {
                    Some(interval) if flow.due <= self.now => flow.due += interval,
                    None if flow.waiting < AHEAD => {}
                    _ => break,
                }
                flow.waiting += 1;
                self.send(index, 0, self.now);
            }
        }
    }

    fn send(&mut self, index: usize, hop: usize, born: Time) {
        let flow = &self.flows[index];
        self.number += 1;
        let frame = Frame {
            id: self.number,
            to: Receiver::Station(flow.path[hop + 1]),
            octets: flow.octets,
            attempts: vec![Attempt {
                rate: flow.rate,
                count: TRIES,
                rts: false,
            }],
            acknowledged: true,
            aggregated: false,
            channel: 1,
        };
        let from = flow.path[hop];
        self.under.insert(
            self.number,
            Under {
                flow: index,
                hop,
                born,
            },
        );
        self.medium.handle_frame(self.now, from, frame);
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Received {
                id,
                addressed: true,
                duplicate: false,
                ..
            } => {
                let Some(under) = self.under.get(id) else {
                    return;
                };
                let (index, hop, born) = (under.flow, under.hop, under.born);
                let flow = &mut self.flows[index];
                if hop + 2 == flow.path.len() {
                    flow.delivered += 1;
                    flow.delays
                        .push(self.now.saturating_sub(born).as_secs_f64());
                } else {
                    self.send(index, hop + 1, born);
                }
            }
            Event::Received { .. } => {}
            Event::Done {
                id,
                station,
                acknowledged,
                attempts,
                ..
            } => {
                let Some(under) = self.under.remove(id) else {
                    return;
                };
                let flow = &mut self.flows[under.flow];
                if under.hop == 0 {
                    flow.waiting = flow.waiting.saturating_sub(1);
                }
                flow.lost += u64::from(!acknowledged);
                if *attempts > 0 {
                    let counted = &mut self.counted[*station];
                    counted.frames += 1;
                    counted.octets += flow.octets as u64;
                    counted.retries += u64::from(*attempts) - 1;
                    counted.failed += u64::from(!acknowledged);
                }
            }
        }
    }

    /// Returns the counters so far, with the delays of the last step.
    fn report(&mut self) -> Value {
        let stations: Vec<Value> = (0..self.counted.len())
            .map(|id| {
                let (counted, on_air) = (&self.counted[id], self.medium.counters(id));
                json!({
                    "frames": counted.frames,
                    "octets": counted.octets,
                    "retries": counted.retries,
                    "failed": counted.failed,
                    "rts": on_air.rts_sent,
                    "sending": on_air.sending.as_secs_f64(),
                    "busy": on_air.busy.as_secs_f64(),
                })
            })
            .collect();
        let flows: Vec<Value> = self
            .flows
            .iter_mut()
            .map(|flow| {
                json!({
                    "delivered": flow.delivered,
                    "lost": flow.lost,
                    "delays": core::mem::take(&mut flow.delays),
                })
            })
            .collect();
        json!({"stations": stations, "flows": flows})
    }
}
