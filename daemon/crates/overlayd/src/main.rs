//! Node of the cjdns-compatible overlay for Linux: TUN, UDP, Ethernet and
//! management around the sans-IO `overlay_node`. One loop, one thread.

mod admin;
mod bench;
mod commands;
mod config;
mod control;
mod daemon;
mod identity;
mod io;
mod neighbours;
mod node_address;
mod port;
mod tokens;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use log::LevelFilter;

use config::Config;
use daemon::Daemon;

/// Exit status of a refused configuration or command line.
const WRONG_USAGE: u8 = 2;

/// Node of the cjdns-compatible overlay
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Configuration file
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/overlayd/overlayd.toml"
    )]
    config: PathBuf,
    /// Check the configuration and the key and exit: 0 when they are good, 2 when they are refused
    #[arg(long)]
    check: bool,
    /// What to log: off, error, warn, info, debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Measure what one core of this machine achieves: ciphers, switching, the path of a packet through a node
    Bench {
        /// Length of the packets in bytes
        #[arg(long, default_value_t = 1304, value_parser = clap::value_parser!(u16).range(1280..=1400))]
        octets: u16,
        /// How long each figure is measured, in seconds
        #[arg(long, default_value_t = 1.0)]
        seconds: f64,
        /// Print the figures as JSON
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    daemonkit::logger::install("overlayd", arguments.log_level);
    if let Some(Command::Bench {
        octets,
        seconds,
        json,
    }) = arguments.command
    {
        bench::run(octets.into(), seconds, json);
        return ExitCode::SUCCESS;
    }
    daemonkit::secrecy::keep_private();
    let (config, key) = match read(&arguments) {
        Ok(read) => read,
        Err(message) => {
            log::error!("{message}");
            return WRONG_USAGE.into();
        }
    };
    if arguments.check {
        return ExitCode::SUCCESS;
    }
    match Daemon::new(arguments.config, config, key).and_then(|mut daemon| daemon.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn read(arguments: &Arguments) -> Result<(Config, cryptoauth::PrivateKey), String> {
    let config = Config::load(&arguments.config).map_err(|error| error.to_string())?;
    let key = identity::load(&config.key)?;
    Ok((config, key))
}
