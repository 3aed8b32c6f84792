//! Serves the admin API of cjdns on a UDP socket from the node's data. `cjdns_admin` decodes the requests.

mod asking;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use cjdns_admin::{
    Counters, LogLevel, LogLine, Now, Outcome, Password, Pong, Server, Ticket, MAX_REQUEST,
};
use daemonkit::{logger, named, Time};
use log::{Level, LevelFilter};
use overlay_node::{Node, PingId, PingResult, Report};
use switch::Scheme;

use asking::Asking;

use crate::config;
use crate::neighbours::Neighbours;
use crate::port::Port;

/// Requests read in a turn.
const BURST: usize = 16;

/// The socket and its server.
pub struct Admin {
    socket: UdpSocket,
    bound: SocketAddr,
    server: Server,
    pings: Pings,
    /// Lowest log level that a subscriber wants.
    wanted: Option<LogLevel>,
}

/// Pings that callers requested, with the ticket and the kind of each.
type Pings = BTreeMap<PingId, (Ticket, Asked)>;

enum Asked {
    /// Sent as a control frame with these bytes.
    Control(Vec<u8>),
    /// Sent as a DHT message.
    Query,
}

/// The parts of the daemon that a request may use.
pub struct View<'a> {
    /// The present time.
    pub now: Time,
    /// The node.
    pub node: &'a mut Node,
    /// Its interfaces.
    pub ports: &'a mut [Port],
    /// The users that may connect, and the configured connections.
    pub neighbours: &'a mut Neighbours,
}

impl Admin {
    /// Opens the socket.
    ///
    /// # Errors
    /// The address is in use.
    pub fn bind(settings: &config::Admin) -> io::Result<Self> {
        let what = format!("admin.bind {}", settings.bind);
        let socket = UdpSocket::bind(settings.bind).map_err(|error| named(&what, &error))?;
        socket.set_nonblocking(true)?;
        let password = settings.password.as_ref().map(config::Secret::octets);
        Ok(Self {
            bound: socket.local_addr()?,
            socket,
            server: Server::new(password.and_then(|octets| Password::new(octets).ok())),
            pings: Pings::new(),
            wanted: None,
        })
    }

    /// Returns the address on which it listens.
    pub const fn bound(&self) -> SocketAddr {
        self.bound
    }

    /// Returns the number of requests by their result.
    pub const fn counters(&self) -> &Counters {
        self.server.counters()
    }

    /// Returns when to call [`Admin::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.server.poll_timeout()
    }

    /// Answers the requests that have arrived.
    pub fn serve(&mut self, view: &mut View<'_>) {
        let mut datagram = [0; MAX_REQUEST + 1];
        for _ in 0..BURST {
            let Ok((length, from)) = self.socket.recv_from(&mut datagram) else {
                break;
            };
            let (now, request) = (at(view.now), &datagram[..length]);
            let mut router = Asking {
                view: &mut *view,
                pings: &mut self.pings,
            };
            let answer = self.server.handle(now, from, request, &mut router);
            if let Some(answer) = answer {
                self.send(from, &answer);
            }
        }
        self.flush();
    }

    /// Sends the result of a ping to the caller that requested it.
    pub fn pinged(&mut self, view: &mut View<'_>, id: PingId, result: &PingResult) {
        let Some((ticket, asked)) = self.pings.remove(&id) else {
            return;
        };
        let outcome = match (result, asked) {
            (
                &PingResult::Answered {
                    version, report, ..
                },
                Asked::Control(opaque),
            ) => Outcome::Pong(pong(version, opaque, report)),
            (&PingResult::Answered { version, .. }, Asked::Query) => Outcome::Reply {
                version,
                scheme: Scheme::V3X5X8,
                nodes: Vec::new(),
            },
            (PingResult::Replied(reply), _) => Outcome::Reply {
                version: reply.from.version,
                scheme: reply.scheme,
                nodes: reply.contacts.clone(),
            },
            (PingResult::Refused(code), _) => Outcome::Error(*code),
            (PingResult::TimedOut, _) => Outcome::Silence,
        };
        let now = at(view.now);
        let mut router = Asking {
            view,
            pings: &mut self.pings,
        };
        self.server.complete(now, ticket, &outcome, &mut router);
        self.flush();
    }

    /// Ends the questions that were not answered in time.
    pub fn handle_timeout(&mut self, view: &mut View<'_>) {
        let now = at(view.now);
        let mut router = Asking {
            view,
            pings: &mut self.pings,
        };
        self.server.handle_timeout(now, &mut router);
        self.flush();
    }

    /// Sends new log lines to the subscribers, and sets the log level that they want.
    pub fn follow_log(&mut self, now: Time) {
        for line in logger::take_lines() {
            self.server.log(
                at(now),
                LogLine {
                    level: level_of(line.level),
                    file: &line.file,
                    line: line.line,
                    message: &line.message,
                },
            );
        }
        self.flush();
        let wanted = self.server.log_level();
        if wanted != self.wanted {
            self.wanted = wanted;
            logger::tap(wanted.map_or(LevelFilter::Off, filter_of));
        }
    }

    fn flush(&mut self) {
        while let Some((to, octets)) = self.server.poll_transmit() {
            self.send(to, &octets);
        }
    }

    /// Sends an answer. An error is ignored: a log line about it would be sent to the subscribers, and might fail as
    /// well.
    fn send(&self, to: SocketAddr, octets: &[u8]) {
        let _ = self.socket.send_to(octets, to);
    }
}

const fn level_of(level: Level) -> LogLevel {
    match level {
        Level::Error => LogLevel::Error,
        Level::Warn => LogLevel::Warn,
        Level::Info => LogLevel::Info,
        Level::Debug => LogLevel::Debug,
        Level::Trace => LogLevel::Keys,
    }
}

const fn filter_of(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error | LogLevel::Critical => LevelFilter::Error,
        LogLevel::Warn => LevelFilter::Warn,
        LogLevel::Info => LevelFilter::Info,
        LogLevel::Debug => LevelFilter::Debug,
        LogLevel::Keys => LevelFilter::Trace,
    }
}

impl AsFd for Admin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn pong(version: u32, opaque: Vec<u8>, report: Report) -> Pong {
    let mut pong = Pong {
        version,
        opaque,
        ..Pong::default()
    };
    match report {
        Report::Presence => {}
        Report::Key(key) => pong.key = Some(key),
        Report::Supernode(supernode) => pong.snode = supernode,
        Report::WayBack(path) => pong.return_path = Some(path),
        Report::Link(switch::LinkAddress::Udp4(address)) => pong.lower = Some(address.to_string()),
        Report::Link(switch::LinkAddress::Udp6(address)) => pong.lower = Some(address.to_string()),
        Report::Link(switch::LinkAddress::Other(_)) => {}
    }
    pong
}

fn at(monotonic: Time) -> Now {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    Now {
        monotonic,
        unix: unix.unwrap_or_default(),
    }
}
