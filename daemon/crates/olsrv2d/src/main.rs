//! OLSRv2 router for Linux: the sockets, netlink, timers and management around the `olsrv2` crate, which does no I/O
//! itself. One loop does the work. A second thread asks the drivers of wireless interfaces, because a driver may take
//! long to answer.
#![forbid(unsafe_code)]

mod attachments;
mod config;
mod daemon;
mod fib;
mod links;
mod management;
mod manet;
mod mesh;
mod netlink;
mod nl80211;
mod probation;
mod reactor;
mod signer;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use log::LevelFilter;

use config::Config;
use daemon::Daemon;

/// Exit status when the configuration or the command line is refused.
const WRONG_USAGE: u8 = 2;

/// OLSRv2 router (RFC 7181).
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/olsrv2d/olsrv2d.toml")]
    config: PathBuf,
    /// Check the configuration and exit: 0 when it is good, 2 when it is refused
    #[arg(long)]
    check: bool,
    /// What to log: off, error, warn, info, debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    daemonkit::logger::install("olsrv2d", arguments.log_level);
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
    match Daemon::new(&arguments.config, config).and_then(|mut daemon| daemon.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
