//! Signs the messages of the OLSRv2 router on this node (RFC 7182) with the node's key, which the router never gets.
//!
//! The router asks over a UNIX socket ([`icv::Request`]). A router that was restarted is served at once, and so is one
//! beside whom somebody connects and asks nothing.
#![forbid(unsafe_code)]

mod client;
mod clients;
mod counter;
mod key;
mod pace;
#[cfg(test)]
mod test_directory;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use daemonkit::{named, now, Code, ControlSocket, ServiceManager, Signals};
use log::LevelFilter;

use clients::{Clients, PLACES};
use counter::Counter;
use key::Key;

/// Exit status when the command line, the key or the counter is refused.
const WRONG_USAGE: u8 = 2;

/// Signs the messages of an OLSRv2 router
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The node's private key: Ed25519, PKCS#8 in PEM
    #[arg(long, value_name = "FILE", default_value = "/var/lib/meshsec/node.key")]
    key: PathBuf,
    /// File of the counter; the program writes it and needs its directory for itself
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/lib/olsrv2-signer/counter"
    )]
    counter: PathBuf,
    /// Socket at which the router asks
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/run/olsrv2-signer/sign.sock"
    )]
    socket: PathBuf,
    /// Group that may connect: the router's
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Check the key and the counter and exit: 0 when they are good, 2 when they are refused
    #[arg(long)]
    check: bool,
    /// What to log: off, error, warn, info, debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
}

/// The descriptors of the event loop.
#[derive(Clone, Copy)]
enum Token {
    Signal,
    Listener,
    /// The connection in this place.
    Client(usize),
}

impl Code for Token {
    fn encode(self) -> u64 {
        match self {
            Self::Signal => 0,
            Self::Listener => 1,
            Self::Client(place) => 2 + place as u64,
        }
    }

    fn decode(code: u64) -> Option<Self> {
        let clients = (0..PLACES).map(Self::Client);
        let mut all = [Self::Signal, Self::Listener].into_iter().chain(clients);
        all.find(|token| token.encode() == code)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    daemonkit::logger::install("olsrv2-signer", arguments.log_level);
    daemonkit::secrecy::keep_private();
    let key = match key(&arguments) {
        Ok(key) => key,
        Err(message) => {
            log::error!("{message}");
            return WRONG_USAGE.into();
        }
    };
    if arguments.check {
        return ExitCode::SUCCESS;
    }
    match serve(&arguments, key) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn key(arguments: &Arguments) -> Result<Key, String> {
    let seed = daemonkit::node_key::load(&arguments.key)?;
    Ok(Key::new(&seed, Counter::open(&arguments.counter)?))
}

/// Signs until SIGTERM or SIGINT.
fn serve(arguments: &Arguments, mut key: Key) -> io::Result<()> {
    let path = arguments.socket.display().to_string();
    let socket = ControlSocket::listen(&arguments.socket, arguments.group.as_deref());
    let socket = socket.map_err(|error| named(&path, &error))?;
    let mut reactor = daemonkit::Reactor::new()?;
    let mut signals = Signals::catch()?;
    reactor.add(&signals, Token::Signal)?;
    reactor.add(&socket, Token::Listener)?;
    let service = ServiceManager::from_environment();
    service.ready();
    let mut clients = Clients::default();
    let mut alive_due = service.watchdog.map(|period| now() + period);
    while !signals.end() {
        for token in reactor.wait(alive_due.map(|due| due.saturating_sub(now())))? {
            match token {
                Token::Signal => signals.drain(),
                Token::Listener => {
                    if let Ok(stream) = socket.accept() {
                        let (place, client) = clients.admit(stream);
                        reactor.add(client, Token::Client(place))?;
                    }
                }
                Token::Client(place) => clients.serve(place, now(), &mut key),
            }
        }
        if alive_due.is_some_and(|due| due <= now()) {
            service.alive();
            alive_due = service.watchdog.map(|period| now() + period);
        }
    }
    service.stopping();
    Ok(())
}
