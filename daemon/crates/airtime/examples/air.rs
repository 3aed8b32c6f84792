//! Runs saturated stations over the model of the air in virtual time and prints one JSON object. Seconds of air take
//! milliseconds.

use std::time::Duration;

use airtime::scenario::{run, Flow, Outcome};
use airtime::{Attempt, Medium, Phy, Rate, Reach, Settings, StationId, Time};
use clap::{Args, Parser, Subcommand};
use serde_json::{json, Value};

/// Signal over noise of each link, in dB: enough for every rate.
const SNR_DB: f64 = 40.0;
/// Attempts for each frame (dot11ShortRetryLimit).
const TRIES: u8 = 7;

/// Run saturated 802.11 stations in virtual time.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    place: Place,
    #[command(flatten)]
    air: Air,
}

/// Who is where.
#[derive(Subcommand)]
enum Place {
    /// Stations that all hear each other send to one more
    Contention {
        /// Number of senders, 1 to 250
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=250))]
        stations: u16,
    },
    /// One flow along a line of relays
    Line {
        /// Number of hops, 1 to 250
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=250))]
        hops: u16,
        /// How many places away carrier sense reaches; frames are read one place away
        #[arg(long, default_value_t = 2)]
        senses: u16,
    },
    /// Two stations that do not hear each other send to one between them
    Hidden,
}

#[derive(Args)]
struct Air {
    /// Physical layer: b, g or a (with HT rates: n in that band)
    #[arg(long, global = true, default_value = "g")]
    phy: String,
    /// Rate of data frames: Mbit/s as 11 or 5.5, or an HT scheme as mcs7
    #[arg(long, global = true, default_value = "24")]
    rate: String,
    /// Octets of a data frame with header and check sequence
    #[arg(long, global = true, default_value_t = 1500)]
    octets: usize,
    /// Send RTS before frames of more octets than this
    #[arg(long, global = true)]
    rts: Option<usize>,
    /// Frames in one aggregate, at most
    #[arg(long, global = true, default_value_t = 1)]
    aggregate: usize,
    /// Ratio of signals, in dB, from which the stronger one is received all the same
    #[arg(long, global = true)]
    capture: Option<f64>,
    /// Seconds of virtual time
    #[arg(long, global = true, default_value_t = 20.0)]
    seconds: f64,
    /// Seed of slots and losses
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
}

fn main() {
    let arguments = Arguments::parse();
    match report(&arguments) {
        Ok(report) => println!("{report}"),
        Err(message) => {
            eprintln!("air: {message}");
            std::process::exit(2);
        }
    }
}

fn report(arguments: &Arguments) -> Result<Value, String> {
    let air = &arguments.air;
    let rate = parse_rate(&air.rate)?;
    if !(air.seconds > 0.0 && air.seconds <= 1e6) {
        return Err(format!(
            "--seconds {} is refused; allowed: more than 0, up to 1000000",
            air.seconds
        ));
    }
    let (name, reach, paths) = place(&arguments.place);
    let settings = Settings {
        phy: parse_phy(&air.phy)?,
        capture_db: air.capture,
        aggregate: air.aggregate,
        seed: air.seed,
        ..Settings::default()
    };
    let flows: Vec<Flow> = paths.iter().map(|path| flow(path, rate, air)).collect();
    let stations = reach.stations();
    let mut medium = Medium::new(settings, reach, Time::ZERO);
    (0..stations).for_each(|id| medium.set_rts_threshold(id, air.rts));
    let span = Duration::from_secs_f64(air.seconds);
    let outcomes = run(&mut medium, &flows, Time::ZERO, span);
    let shown: Vec<Value> = flows
        .iter()
        .zip(&outcomes)
        .map(|(flow, outcome)| shown_flow(flow, outcome, span))
        .collect();
    let total: f64 = flows
        .iter()
        .zip(&outcomes)
        .map(|(flow, outcome)| outcome.mbit_s(flow, span))
        .sum();
    Ok(json!({
        "schema": 1,
        "place": name,
        "phy": air.phy,
        "rate": air.rate,
        "octets": air.octets,
        "rts_threshold": air.rts,
        "aggregate": air.aggregate,
        "capture_db": air.capture,
        "seconds": air.seconds,
        "seed": air.seed,
        "mbit_s": total,
        "flows": shown,
        "stations": (0..stations).map(|id| medium.counters(id)).collect::<Vec<_>>(),
    }))
}

fn place(place: &Place) -> (Value, Reach, Vec<Vec<StationId>>) {
    match place {
        Place::Contention { stations } => {
            let senders = usize::from(*stations);
            let name = json!({"kind": "contention", "stations": stations});
            let paths = (1..=senders).map(|id| vec![id, 0]).collect();
            (name, Reach::all(senders + 1, SNR_DB), paths)
        }
        Place::Line { hops, senses } => {
            let last = usize::from(*hops);
            let name = json!({"kind": "line", "hops": hops, "senses": senses});
            let reach = Reach::line(last + 1, SNR_DB, usize::from(*senses));
            (name, reach, vec![(0..=last).collect()])
        }
        Place::Hidden => {
            let mut reach = Reach::none(3);
            reach.link(0, 1, SNR_DB);
            reach.link(0, 2, SNR_DB);
            (
                json!({"kind": "hidden"}),
                reach,
                vec![vec![1, 0], vec![2, 0]],
            )
        }
    }
}

fn flow(path: &[StationId], rate: Rate, air: &Air) -> Flow {
    Flow {
        attempts: vec![Attempt {
            rate,
            count: TRIES,
            rts: false,
        }],
        aggregated: air.aggregate > 1,
        ..Flow::saturated(path, air.octets, rate)
    }
}

fn parse_phy(text: &str) -> Result<Phy, String> {
    match text {
        "b" => Ok(Phy::b()),
        "g" => Ok(Phy::g()),
        "a" => Ok(Phy::a()),
        _ => Err(format!("--phy {text} is refused; allowed: b, g, a")),
    }
}

fn parse_rate(text: &str) -> Result<Rate, String> {
    let found = match text.strip_prefix("mcs") {
        Some(scheme) => scheme
            .parse()
            .ok()
            .and_then(|mcs| Rate::ht(mcs, false, false)),
        None => text
            .parse::<f64>()
            .ok()
            .and_then(|mbit| Rate::legacy((mbit * 1000.0) as u32, false)),
    };
    found.ok_or_else(|| {
        format!(
            "--rate {text} is refused; allowed: 1, 2, 5.5, 11, 6, 9, 12, 18, 24, 36, 48, 54, mcs0 to mcs31"
        )
    })
}

fn shown_flow(flow: &Flow, outcome: &Outcome, span: Duration) -> Value {
    json!({
        "hops": flow.path.len() - 1,
        "mbit_s": outcome.mbit_s(flow, span),
        "offered": outcome.offered,
        "delivered": outcome.delivered,
        "lost": outcome.lost,
        "mean_delay_seconds": outcome.mean_delay().as_secs_f64(),
        "max_delay_seconds": outcome.delay_max.as_secs_f64(),
    })
}
