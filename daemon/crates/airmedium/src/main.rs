//! A medium with airtime for radios of mac80211_hwsim: frames take as long as on a real channel, stations wait for each
//! other, collide, repeat and lose. The model is the crate `airtime`; this program is its connection to the kernel.
#![forbid(unsafe_code)]

mod bridge;
mod config;
mod daemon;
mod hwsim;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use log::LevelFilter;

use config::Config;
use daemon::Daemon;

/// Exit status when the configuration or the command line is refused.
const WRONG_USAGE: u8 = 2;

/// Medium with airtime for radios of mac80211_hwsim. It carries their frames until it ends.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Configuration file; SIGHUP reads positions, links and RTS thresholds again
    config: PathBuf,
    /// Check the configuration and exit: 0 when it is good, 2 when it is refused
    #[arg(long)]
    check: bool,
    /// Write what each station has done to this file at the end, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// What to log: off, error, warn, info, debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    daemonkit::logger::install("airmedium", arguments.log_level);
    let config = match Config::load(&arguments.config) {
        Ok(config) => config,
        Err(error) => {
            log::error!("{error}");
            return WRONG_USAGE.into();
        }
    };
    if arguments.check {
        return ExitCode::SUCCESS;
    }
    let outcome = Daemon::new(config).and_then(|mut daemon| {
        let ended = daemon.run(&arguments.config);
        match &arguments.report {
            Some(path) => ended.and(daemon.write_report(path)),
            None => ended,
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
