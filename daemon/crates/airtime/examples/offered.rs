//! Offers datagrams at a fixed rate along a line of stations that all sense each other, in virtual time, and prints one
//! JSON object: what arrives, and what is lost behind the source. A source whose own queue is full is held up, as a
//! sending program is, so that what its station refuses does not count.

use std::time::Duration;

use airtime::scenario::{run, Flow, Load};
use airtime::{Medium, Phy, Rate, Reach, Settings, Time};
use clap::Parser;
use serde_json::json;

/// Signal over noise of each link, in dB: enough for every rate.
const SNR_DB: f64 = 40.0;

/// Offer datagrams at a fixed rate along a line, over modelled 802.11g air.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Number of hops, 1 to 250
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=250))]
    hops: u16,
    /// Octets of a data frame with header and check sequence, 1 to 4095
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4095))]
    octets: u16,
    /// Octets of user data in a frame, at most --octets
    #[arg(long)]
    payload: u16,
    /// Mbit/s of user data that are offered
    #[arg(long)]
    offered: f64,
    /// Rate of data frames in Mbit/s: 1, 2, 5.5, 11, 6, 9, 12, 18, 24, 36, 48 or 54
    #[arg(long, default_value_t = 24.0)]
    rate: f64,
    /// Seconds of virtual time
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Seed of slots and losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() {
    match report(&Arguments::parse()) {
        Ok(report) => println!("{report}"),
        Err(message) => {
            eprintln!("offered: {message}");
            std::process::exit(2);
        }
    }
}

fn report(arguments: &Arguments) -> Result<serde_json::Value, String> {
    let rate = Rate::legacy((arguments.rate * 1000.0) as u32, false).ok_or_else(|| {
        format!(
            "--rate {} is refused; --help lists the rates",
            arguments.rate
        )
    })?;
    if arguments.payload == 0 || arguments.payload > arguments.octets {
        return Err(format!(
            "--payload {} is refused; allowed: 1 to {}",
            arguments.payload, arguments.octets
        ));
    }
    for (name, value, most) in [
        ("offered", arguments.offered, 1e4),
        ("seconds", arguments.seconds, 1e6),
    ] {
        if !(value > 0.0 && value <= most) {
            return Err(format!(
                "--{name} {value} is refused; allowed: more than 0, up to {most}"
            ));
        }
    }
    let last = usize::from(arguments.hops);
    let path: Vec<usize> = (0..=last).collect();
    let interval = f64::from(arguments.payload) * 8.0 / (arguments.offered * 1e6);
    let flow = Flow {
        payload: usize::from(arguments.payload),
        load: Load::Every(Duration::from_secs_f64(interval)),
        ..Flow::saturated(&path, usize::from(arguments.octets), rate)
    };
    let settings = Settings {
        phy: Phy::g(),
        seed: arguments.seed,
        ..Settings::default()
    };
    let mut medium = Medium::new(settings, Reach::all(last + 1, SNR_DB), Time::ZERO);
    let span = Duration::from_secs_f64(arguments.seconds);
    let flows = [flow];
    let outcomes = run(&mut medium, &flows, Time::ZERO, span);
    let (outcome, held_up) = (&outcomes[0], medium.counters(0).refused);
    let sent = outcome.offered - held_up;
    let lost = outcome.lost - held_up;
    Ok(json!({
        "schema": 1,
        "hops": arguments.hops,
        "octets": arguments.octets,
        "payload": arguments.payload,
        "offered_mbit_s": arguments.offered,
        "rate": arguments.rate,
        "seconds": arguments.seconds,
        "seed": arguments.seed,
        "mbit_s": outcome.mbit_s(&flows[0], span),
        "sent": sent,
        "held_up": held_up,
        "delivered": outcome.delivered,
        "lost": lost,
        "loss_percent": if sent > 0 { 100.0 * lost as f64 / sent as f64 } else { 0.0 },
    }))
}
