//! The loop between the kernel and the medium.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::path::Path;

use daemonkit::{named, now, Code, Reactor, Signals};
use netlink_packet_core::{NetlinkMessage, NetlinkPayload, NLM_F_ACK, NLM_F_DUMP};
use netlink_sys::{protocols::NETLINK_GENERIC, Socket};
use netlinkkit::{error_of, Asker, Duplex, Message};
use serde_json::{json, Value};

use crate::bridge::{Bridge, Order};
use crate::config::Config;
use crate::hwsim::{self, Mac, Told};

/// Bytes that may wait in the socket: some hundred frames. The kernel drops a frame for which there is no room.
const WAITING: usize = 8 << 20;
/// Datagrams that are read in a turn, so that timers are not late.
const BURST: usize = 16;
/// Deliveries whose refusal is still recognised.
const RECENT: usize = 256;
/// Nanoseconds by which the kernel may wake us late to save power; by default 50000, five slots.
const TIMER_SLACK: u64 = 1;

#[derive(Clone, Copy)]
enum Token {
    Kernel,
    Signals,
}

impl Code for Token {
    fn encode(self) -> u64 {
        match self {
            Self::Kernel => 0,
            Self::Signals => 1,
        }
    }

    fn decode(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::Kernel),
            1 => Some(Self::Signals),
            _ => None,
        }
    }
}

/// The program's connection to hwsim, and the medium behind it.
pub struct Daemon {
    bridge: Bridge,
    socket: Duplex,
    family: u16,
    /// Sequence number of the registration until it is acknowledged.
    registering: Option<u32>,
    /// Sequence numbers of the last deliveries, with their radios.
    delivered: VecDeque<(u32, Mac)>,
}

impl Daemon {
    /// Registers at hwsim. Its radios hear each other through this program from now on.
    ///
    /// # Errors
    /// The module is not loaded, or the kernel refuses a socket.
    pub fn new(config: Config) -> io::Result<Self> {
        let family = family()?;
        let mut socket = Duplex::over(Socket::new(NETLINK_GENERIC)?, WAITING)
            .map_err(|error| named("generic netlink", &error))?;
        let registering = Some(socket.send(hwsim::register(family), NLM_F_ACK)?);
        Ok(Self {
            bridge: Bridge::new(config, now()),
            socket,
            family,
            registering,
            delivered: VecDeque::with_capacity(RECENT),
        })
    }

    /// Carries frames until SIGTERM or SIGINT. SIGHUP reads the configuration again.
    ///
    /// # Errors
    /// The kernel refuses the registration, or a descriptor breaks.
    pub fn run(&mut self, config: &Path) -> io::Result<()> {
        let mut signals = Signals::catch()?;
        let mut reactor = Reactor::new()?;
        reactor.add(&self.socket, Token::Kernel)?;
        reactor.add(&signals, Token::Signals)?;
        if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK)) {
            log::debug!("timer slack: {error}");
        }
        while !signals.end() {
            self.bridge.handle_timeout(now());
            self.tell()?;
            let wait = self.bridge.poll_timeout();
            let wait = wait.map(|at| at.saturating_sub(now()));
            for token in reactor.wait(wait)? {
                match token {
                    Token::Kernel => self.listen()?,
                    Token::Signals => signals.drain(),
                }
            }
            if signals.take_reload() {
                self.reload(config);
            }
        }
        Ok(())
    }

    /// Writes what each station has done so far as JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_report(&self, path: &Path) -> io::Result<()> {
        let stations: serde_json::Map<String, Value> = self
            .bridge
            .counters()
            .map(|(name, counters)| (name.to_owned(), json!(counters)))
            .collect();
        let strangers = self.bridge.strangers();
        let report = json!({"schema": 1, "stations": stations, "strangers": strangers});
        fs::write(path, format!("{report}\n"))
            .map_err(|error| named(&path.display().to_string(), &error))
    }

    fn reload(&mut self, path: &Path) {
        let outcome = Config::load(path)
            .map_err(|error| error.to_string())
            .and_then(|config| self.bridge.reconfigure(config));
        match outcome {
            Ok(()) => log::info!("{}: read again", path.display()),
            Err(error) => log::error!("the former configuration stays in force: {error}"),
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        for _ in 0..BURST {
            match self.socket.receive::<Message>() {
                Ok(Some(messages)) => {
                    for message in messages {
                        self.take(message)?;
                    }
                }
                Ok(None) => break,
                Err(error) if error.raw_os_error() == Some(NO_BUFFER_SPACE) => {
                    log::debug!("the kernel sent more frames than fit into the socket");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take(&mut self, message: NetlinkMessage<Message>) -> io::Result<()> {
        let sequence = message.header.sequence_number;
        match message.payload {
            NetlinkPayload::InnerMessage(inner) if inner.family == self.family => {
                match hwsim::read(&inner) {
                    Some(Told::Frame(sent)) => self.bridge.handle_frame(now(), sent),
                    Some(Told::Address {
                        radio,
                        address,
                        added,
                    }) => self.bridge.handle_address(radio, address, added),
                    None => {}
                }
            }
            NetlinkPayload::Error(error) if self.registering == Some(sequence) => {
                error_of(error.raw_code()).map_err(|error| refused(&error))?;
                self.registering = None;
                log::info!("the radios of mac80211_hwsim hear each other through this medium");
            }
            NetlinkPayload::Error(error) if error.raw_code() != 0 => {
                let known = self.delivered.iter().find(|(sent, _)| *sent == sequence);
                if let Some((_, radio)) = known {
                    self.bridge.handle_refusal(now(), *radio);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells the kernel what has happened on the air.
    fn tell(&mut self) -> io::Result<()> {
        while let Some(order) = self.bridge.poll_order() {
            let (message, to) = match order {
                Order::Deliver {
                    radio,
                    octets,
                    rate_index,
                    signal_dbm,
                    frequency,
                } => {
                    let family = self.family;
                    let message =
                        hwsim::delivery(family, radio, &octets, rate_index, signal_dbm, frequency);
                    (message, Some(radio))
                }
                Order::Report {
                    radio,
                    cookie,
                    flags,
                    rows,
                    signal_dbm,
                } => {
                    let message =
                        hwsim::report(self.family, radio, cookie, flags, &rows, signal_dbm);
                    (message, None)
                }
            };
            let sequence = self.socket.send(message, 0)?;
            if let Some(radio) = to {
                if self.delivered.len() == RECENT {
                    self.delivered.pop_front();
                }
                self.delivered.push_back((sequence, radio));
            }
        }
        Ok(())
    }
}

/// ENOBUFS.
const NO_BUFFER_SPACE: i32 = rustix::io::Errno::NOBUFS.raw_os_error();

/// Returns the number of hwsim's family.
fn family() -> io::Result<u16> {
    let mut asker = Asker::over(Socket::new(NETLINK_GENERIC)?)?;
    let sequence = asker.send(Message::families(), NLM_F_DUMP)?;
    let mut found = None;
    loop {
        for answer in asker.receive::<Message>(sequence)? {
            match answer.payload {
                NetlinkPayload::InnerMessage(family) => {
                    found = found.or(family.family_id(hwsim::FAMILY));
                }
                NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => {
                    return found.ok_or_else(|| {
                        io::Error::other(
                            "this kernel has no radios of mac80211_hwsim: modprobe mac80211_hwsim",
                        )
                    });
                }
                _ => {}
            }
        }
    }
}

/// Says why hwsim has refused the registration.
fn refused(error: &io::Error) -> io::Error {
    let why = match error.kind() {
        io::ErrorKind::ResourceBusy => "another medium is registered: end it first",
        io::ErrorKind::PermissionDenied => "only root may be the medium",
        io::ErrorKind::Unsupported => {
            "radios with several channels at once: load mac80211_hwsim with channels=1"
        }
        _ => "see dmesg",
    };
    io::Error::new(
        error.kind(),
        format!("mac80211_hwsim refuses this medium: {error}; {why}"),
    )
}
