//! Lets a client of an access point fetch a page over modelled 802.11n air in virtual time, writes what a radio in monitor
//! mode would capture, and prints one JSON object.
//!
//! The client acknowledges each segment of TCP, and sends RTS before each exchange; the access point sends none. The
//! server opens its window by slow start. No frame is lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use airtime::{
    Attempt, Event, Frame, Medium, Phy, Rate, Reach, Receiver, Sent, Settings, StationId, Time,
    What,
};
use clap::Parser;
use serde_json::json;

const ACCESS_POINT: StationId = 0;
const CLIENT: StationId = 1;
/// Signal over noise of each link, in dB: enough for every rate.
const SNR_DB: f64 = 40.0;
/// Octets of a page, of a segment's payload, and of frames with a segment and with an acknowledgement of TCP.
const PAGE: usize = 320_000;
const PAYLOAD: usize = 1448;
const DATA_OCTETS: usize = 1538;
const ACK_OCTETS: usize = 90;
/// Frames in one aggregate, at most.
const AGGREGATE: usize = 8;
/// Segments that the server sends at first, and that are under way at most (64 KiB).
const FIRST_WINDOW: usize = 10;
const MOST_WINDOW: usize = 45;
/// One way between server and access point, and the time of a segment on their wire of 100 Mbit/s.
const WIRE: Duration = Duration::from_micros(500);
const ON_WIRE: Duration = Duration::from_micros(123);
/// Attempts for each frame (dot11ShortRetryLimit).
const TRIES: u8 = 7;
/// What tells the name of an acknowledgement from its segment's.
const ACKNOWLEDGES: u64 = 1 << 32;

const MHZ: u16 = 2437;
/// Radiotap: a capture file of frames with such headers, and the fields of one.
const LINK_TYPE: u32 = 127;
const TSFT_FLAGS_CHANNEL: u32 = 0b1011;
const RATE_FIELD: u32 = 1 << 2;
const MCS_FIELD: u32 = 1 << 19;
const AMPDU_FIELD: u32 = 1 << 20;
/// OFDM in the 2.4 GHz band.
const CHANNEL_FLAGS: u16 = 0x00c0;
/// Width, scheme and guard interval are known.
const MCS_KNOWN: u8 = 0b111;
/// A preamble of OFDM, and the mixed one of HT with one stream.
const PREAMBLE: Duration = Duration::from_micros(20);
const HT_PREAMBLE: Duration = Duration::from_micros(36);

/// Fetch a page over modelled 802.11n air.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Where the capture goes
    #[arg(long)]
    capture: PathBuf,
    /// HT scheme of data frames on 20 MHz, 0 to 7
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=7))]
    mcs: u8,
    /// Seed of slots
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() {
    let arguments = Arguments::parse();
    let Some(rate) = Rate::ht(arguments.mcs, false, false) else {
        unreachable!("clap has checked the scheme");
    };
    let mut page = Page::new(rate, arguments.seed);
    page.fetch();
    let content = capture(&page.sent, arguments.mcs);
    if let Err(error) = std::fs::write::<&Path, _>(&arguments.capture, content) {
        eprintln!("page: {}: {error}", arguments.capture.display());
        std::process::exit(1);
    }
    let report = json!({
        "schema": 1,
        "seed": arguments.seed,
        "mcs": arguments.mcs,
        "segments": page.segments,
        "milliseconds": page.now.as_secs_f64() * 1e3,
        "transmissions": page.sent.len(),
    });
    println!("{report}");
}

/// What comes over the wire.
enum Arrival {
    /// A segment at the access point.
    Segment(u64),
    /// An acknowledgement at the server.
    Acknowledgement,
}

struct Page {
    medium: Medium,
    rate: Rate,
    now: Time,
    /// By time, and by number where two come at once.
    wire: BTreeMap<(Time, u64), Arrival>,
    /// When the server's wire is free.
    free: Time,
    segments: u64,
    /// Segments that the server has sent, that are acknowledged, and that may be under way.
    begun: u64,
    acknowledged: u64,
    window: usize,
    sent: Vec<Sent>,
}

impl Page {
    fn new(rate: Rate, seed: u64) -> Self {
        let settings = Settings {
            phy: Phy::g(),
            aggregate: AGGREGATE,
            seed,
            ..Settings::default()
        };
        let mut medium = Medium::new(settings, Reach::all(2, SNR_DB), Time::ZERO);
        medium.set_rts_threshold(CLIENT, Some(0));
        medium.watch();
        Self {
            medium,
            rate,
            now: Time::ZERO,
            wire: BTreeMap::new(),
            free: Time::ZERO,
            segments: PAGE.div_ceil(PAYLOAD) as u64,
            begun: 0,
            acknowledged: 0,
            window: FIRST_WINDOW,
            sent: Vec::new(),
        }
    }

    fn fetch(&mut self) {
        self.fill_window();
        while self.acknowledged < self.segments {
            let Some(now) = self.next() else {
                return;
            };
            self.now = now;
            self.medium.handle_timeout(now);
            while let Some(event) = self.medium.poll_event() {
                self.take(event);
            }
            while self
                .wire
                .first_key_value()
                .is_some_and(|((at, _), _)| *at <= now)
            {
                if let Some((_, arrival)) = self.wire.pop_first() {
                    self.arrive(arrival);
                }
            }
            self.sent
                .extend(std::iter::from_fn(|| self.medium.poll_sent()));
        }
    }

    fn next(&self) -> Option<Time> {
        let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
        arrival.into_iter().chain(self.medium.poll_timeout()).min()
    }

    fn take(&mut self, event: Event) {
        if let Event::Received {
            id,
            to,
            addressed: true,
            duplicate: false,
            ..
        } = event
        {
            if to == CLIENT {
                self.send(CLIENT, ACCESS_POINT, id | ACKNOWLEDGES, ACK_OCTETS);
            } else {
                self.wire
                    .insert((self.now + WIRE, id), Arrival::Acknowledgement);
            }
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Segment(number) => self.send(ACCESS_POINT, CLIENT, number, DATA_OCTETS),
            Arrival::Acknowledgement => {
                self.acknowledged += 1;
                self.window = (self.window + 1).min(MOST_WINDOW);
                self.fill_window();
            }
        }
    }

    fn fill_window(&mut self) {
        while self.begun < self.segments && self.begun - self.acknowledged < self.window as u64 {
            self.free = self.free.max(self.now) + ON_WIRE;
            self.wire
                .insert((self.free + WIRE, self.begun), Arrival::Segment(self.begun));
            self.begun += 1;
        }
    }

    fn send(&mut self, from: StationId, to: StationId, id: u64, octets: usize) {
        let attempts = vec![Attempt {
            rate: self.rate,
            count: TRIES,
            rts: false,
        }];
        let frame = Frame {
            id,
            to: Receiver::Station(to),
            octets,
            attempts,
            acknowledged: true,
            aggregated: true,
            channel: 1,
        };
        self.medium.handle_frame(self.now, from, frame);
    }
}

/// Returns a pcap file. Of data frames it has the header, as of one that was cut.
fn capture(all: &[Sent], mcs: u8) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, LINK_TYPE] {
        file.extend(u32::to_le_bytes(word));
    }
    for (number, sent) in all.iter().enumerate() {
        let headers = match sent.what {
            What::Data => sent.carried.len(),
            _ => 1,
        };
        for place in 0..headers {
            let tap = radiotap(sent, mcs, number as u32);
            let (mac, octets) = mac(sent, place);
            let length = tap.len() + octets;
            let micros = sent.at.as_micros() as u32;
            let kept = (tap.len() + mac.len()) as u32;
            for word in [micros / 1_000_000, micros % 1_000_000, kept, length as u32] {
                file.extend(word.to_le_bytes());
            }
            file.extend(tap);
            file.extend(mac);
        }
    }
    file
}

fn radiotap(sent: &Sent, mcs: u8, number: u32) -> Vec<u8> {
    let ht = sent.rate.is_ht();
    let aggregate = sent.carried.len() > 1;
    let present = TSFT_FLAGS_CHANNEL
        | if ht { MCS_FIELD } else { RATE_FIELD }
        | if aggregate { AMPDU_FIELD } else { 0 };
    // The time is that of the first bit after the preamble.
    let at = sent.at + if ht { HT_PREAMBLE } else { PREAMBLE };
    let mut tap = vec![0, 0, 0, 0];
    tap.extend(present.to_le_bytes());
    tap.extend((at.as_micros() as u64).to_le_bytes());
    tap.push(0);
    tap.push(if ht {
        0
    } else {
        (sent.rate.kbps() / 500) as u8
    });
    tap.extend(MHZ.to_le_bytes());
    tap.extend(CHANNEL_FLAGS.to_le_bytes());
    if ht {
        tap.extend([MCS_KNOWN, 0, mcs]);
    }
    if aggregate {
        tap.resize(tap.len().next_multiple_of(4), 0);
        tap.extend(number.to_le_bytes());
        tap.extend([0; 4]);
    }
    tap[2] = tap.len() as u8;
    tap
}

/// Returns the header of a frame, and its octets without check sequence.
fn mac(sent: &Sent, place: usize) -> (Vec<u8>, usize) {
    let (to, from) = (address(sent.to), address(Receiver::Station(sent.from)));
    let control: u8 = match sent.what {
        What::Rts => 0xb4,
        What::Cts => 0xc4,
        What::Ack => 0xd4,
        What::BlockAck => 0x94,
        What::Data => 0x88,
    };
    let mut header = vec![control, 0, 0, 0];
    header.extend(to);
    match sent.what {
        What::Cts | What::Ack => {}
        What::Rts => header.extend(from),
        What::BlockAck => {
            header.extend(from);
            header.extend([0; 12]);
        }
        What::Data => {
            let carried = sent.carried[place];
            let way = if sent.from == ACCESS_POINT {
                0x02
            } else {
                0x01
            };
            header[1] = way | if carried.retry { 0x08 } else { 0 };
            header.extend(from);
            header.extend(to);
            header.extend(((carried.id as u16) << 4).to_le_bytes());
            header.extend([0; 2]);
            return (header, carried.octets - 4);
        }
    }
    let octets = header.len();
    (header, octets)
}

fn address(of: Receiver) -> [u8; 6] {
    match of {
        Receiver::Station(id) => [2, 0, 0, 0, 0, id as u8],
        Receiver::All | Receiver::Nobody => [0xff; 6],
    }
}
