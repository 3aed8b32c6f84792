//! The event loop between kernel, mesh, router, and the readers of the change stream.

mod avoid;
mod interfaces;
mod readers;
mod reload;
mod signing;
mod stations;

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path as FilePath, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use daemonkit::{named, now, ServiceManager, Signals};
use olsrv2::{Event, Family, InterfaceId, Prefix, RouteView, Router, Time};

use crate::attachments::Attachments;
use crate::config::Config;
use crate::fib::Fib;
use crate::links::Links;
use crate::management::change_lines::Object;
use crate::management::changes::Changes;
use crate::management::open;
use crate::management::text::{Query, Telnet};
use crate::manet::{name, Manet};
use crate::mesh;
use crate::netlink::{Monitor, Path, Requests};
use crate::nl80211::Radio;
use crate::probation::Probation;
use crate::reactor::{Reactor, Token};
use crate::signer::Signer;

/// Packets or notices read from one socket in a turn, so that a burst does not delay the timers.
const BURST: usize = 64;
/// The largest UDP payload, in octets.
const PACKET_MAX: usize = 65_535;
/// Pause before a request is repeated that the kernel has refused.
const RETRY: Duration = Duration::from_secs(1);

/// The running router.
pub struct Daemon {
    path: PathBuf,
    config: Config,
    first_sequence_number: u16,
    originators: Vec<IpAddr>,
    attachments: Attachments,
    /// Networks of this machine outside the mesh.
    connected: Vec<Prefix>,
    reactor: Reactor,
    signals: Signals,
    requests: Requests,
    monitor: Monitor,
    links: Links,
    manet: Manet,
    router: Router,
    signer: Option<Signer>,
    probation: Probation,
    /// `None` after a permanent failure.
    radio: Option<Radio>,
    /// Whether the warning about metrics that cannot be compared has been logged.
    warned_of_scale: bool,
    fib: Fib,
    telnet: Option<Telnet>,
    query: Option<Query>,
    changes: Option<Changes>,
    send_errors: u64,
    sockets_due: Option<Time>,
    reread_due: Option<Time>,
    service: ServiceManager,
    watchdog_due: Option<Time>,
    packet: Vec<u8>,
}

impl Daemon {
    /// Opens everything that can fail: sockets, netlink, the management interfaces.
    ///
    /// # Errors
    /// A resource is not available; the error names it.
    pub fn new(path: &FilePath, config: Config) -> io::Result<Self> {
        let now = now();
        let reactor = Reactor::new()?;
        let signals = Signals::catch()?;
        let mut requests = Requests::open().map_err(|error| named("netlink", &error))?;
        let monitor = Monitor::open(requests.port()).map_err(|error| named("netlink", &error))?;
        let links = Links::new(requests.links()?, requests.addresses()?);
        let first_sequence_number = wall_clock_sequence_number();
        let originators = originators(&config, &links);
        let connected = links.connected(&config.interfaces);
        let router = Router::new(
            config.router(&originators, &connected, first_sequence_number),
            now,
            random_seed(),
        );
        let fib = Fib::open(&mut requests, config.route, now + settling_time(&config))?;
        let telnet = open::telnet(&config.management, &reactor)?;
        let query = open::query(&config.management, &reactor)?;
        let changes = open::changes(&config.management, &reactor)?;
        reactor.add(&signals, Token::Signal)?;
        reactor.add(&monitor, Token::Monitor)?;
        let radio =
            Radio::start(daemonkit::now, &reactor).map_err(|error| named("nl80211", &error))?;
        Ok(Self {
            path: path.to_owned(),
            config,
            first_sequence_number,
            originators,
            attachments: Attachments::default(),
            connected,
            reactor,
            signals,
            requests,
            monitor,
            links,
            manet: Manet::default(),
            router,
            signer: None,
            probation: Probation::default(),
            radio: Some(radio),
            warned_of_scale: false,
            fib,
            telnet,
            query,
            changes,
            send_errors: 0,
            sockets_due: None,
            reread_due: None,
            service: ServiceManager::from_environment(),
            watchdog_due: None,
            packet: vec![0; PACKET_MAX],
        })
    }

    /// Routes until SIGTERM or SIGINT, then removes the routes from the kernel.
    ///
    /// # Errors
    /// A netlink socket or the event loop fails.
    pub fn run(&mut self) -> io::Result<()> {
        self.log_originators();
        let start = now();
        self.set_signer(start);
        self.synchronise_interfaces(start);
        self.settle(start);
        self.watchdog_due = self.service.watchdog.map(|period| start + period);
        self.service.ready();
        while !self.signals.end() {
            self.turn()?;
        }
        self.service.stopping();
        self.fib.clear(&mut self.requests, now());
        log::info!("ended");
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        let due = self.next_due();
        let ready = self
            .reactor
            .wait(due.map(|due| due.saturating_sub(now())))?;
        for token in ready {
            self.serve(token, now())?;
        }
        if self.signals.take_reload() {
            self.reload(now());
        }
        let now = now();
        self.serve_due_texts(now);
        if self.reread_due.is_some_and(|due| due <= now) {
            self.reread_links(now);
            self.follow_links(now);
        }
        if self.sockets_due.is_some_and(|due| due <= now) {
            self.synchronise_interfaces(now);
        }
        self.settle(now);
        self.feed_watchdog(now);
        Ok(())
    }

    fn next_due(&self) -> Option<Time> {
        [
            self.router.poll_timeout(),
            self.probation.poll_timeout(),
            self.signer.as_ref().and_then(Signer::poll_timeout),
            self.radio.as_ref().and_then(Radio::poll_timeout),
            self.fib.poll_timeout(),
            self.sockets_due,
            self.reread_due,
            self.watchdog_due,
            self.telnet.as_ref().and_then(Telnet::poll_timeout),
            self.query.as_ref().and_then(Query::poll_timeout),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn serve(&mut self, token: Token, now: Time) -> io::Result<()> {
        match token {
            Token::Signal => self.signals.drain(),
            Token::Monitor => self.take_notices(now)?,
            Token::Stations => self.take_station_notices(now),
            Token::Survey => self.take_survey(now),
            Token::MeshV4(index) => self.take_packets(Family::V4, index, now),
            Token::MeshV6(index) => self.take_packets(Family::V6, index, now),
            Token::Signer => self.take_signatures(now),
            Token::ChangesListener => self.accept_reader(now),
            Token::Telnet | Token::Query => self.serve_text(token, now),
            Token::Changes(number) => self.serve_reader(number, now),
        }
        Ok(())
    }

    /// Runs the due timers of the router and of the kernel routes, and carries out what they decided.
    fn settle(&mut self, now: Time) {
        if self.router.poll_timeout().is_some_and(|due| due <= now) {
            self.router.handle_timeout(now);
        }
        if let Some(radio) = &mut self.radio {
            radio.handle_timeout(now);
        }
        for (interface, address) in self.probation.handle_timeout(now) {
            let metric = Some(self.config.metric);
            self.router.set_link_metric(now, interface, address, metric);
        }
        self.drain(now);
        let changed = self.fib.handle_timeout(&mut self.requests, now);
        if changed.is_empty() {
            return;
        }
        for route in self.router.routes() {
            if changed.contains(&route.destination) {
                let installed = self.fib.is_installed(&route.destination);
                self.publish(now, &Object::Route(&route, installed), true);
            }
        }
    }

    fn drain(&mut self, now: Time) {
        self.ask_for_signatures(now);
        while let Some(transmit) = self.router.poll_transmit() {
            self.send(transmit.interface, transmit.family, &transmit.bytes);
        }
        while let Some(event) = self.router.poll_event() {
            self.carry_out(now, &event);
        }
    }

    fn send(&mut self, interface: InterfaceId, family: Family, packet: &[u8]) {
        let result = match self.manet.socket(family, interface.0) {
            Some(socket) => mesh::send(socket, family, packet),
            None => Err(ErrorKind::NotConnected.into()),
        };
        if let Err(error) = result {
            self.send_errors += 1;
            log::debug!(
                "{}: {family:?} packet not sent: {error}",
                name(self.manet.names(), interface)
            );
        }
    }

    fn carry_out(&mut self, now: Time, event: &Event) {
        match event {
            Event::RouteSet(route) => {
                let installed =
                    self.fib
                        .set(&mut self.requests, now, route.destination, path(route));
                self.publish(now, &Object::Route(route, installed), true);
            }
            Event::RouteRemoved(destination) => {
                self.fib.remove(&mut self.requests, now, *destination);
                self.publish(now, &Object::NoRoute(*destination), false);
            }
            Event::NeighbourSet(view) => self.publish(now, &Object::Neighbour(view), true),
            Event::NeighbourRemoved(view) => self.publish(now, &Object::Neighbour(view), false),
            Event::LinkSet(view) => {
                self.weigh(now, view);
                self.publish(now, &Object::Link(view), true);
            }
            Event::LinkRemoved(view) => {
                self.probation.forget(view);
                self.publish(now, &Object::Link(view), false);
            }
            Event::NodeSet(view) => self.publish(now, &Object::Node(view), true),
            Event::NodeRemoved(view) => self.publish(now, &Object::Node(view), false),
            Event::EdgeSet(view) => self.publish(now, &Object::Edge(view), true),
            Event::EdgeRemoved(view) => self.publish(now, &Object::Edge(view), false),
            Event::AttachedSet(view) => self.publish(now, &Object::Attached(view), true),
            Event::AttachedRemoved(view) => self.publish(now, &Object::Attached(view), false),
            Event::DuplicateOriginator {
                originator,
                interface,
                source,
            } => {
                self.report_duplicate(now, *originator, *interface, *source);
            }
        }
    }

    fn take_packets(&mut self, family: Family, index: u32, now: Time) {
        for _ in 0..BURST {
            let Some(socket) = self.manet.socket(family, index) else {
                return;
            };
            match socket.recv_from(&mut self.packet) {
                Ok((length, source)) => {
                    let octets = &self.packet[..length];
                    self.router
                        .handle_packet(now, InterfaceId(index), source.ip(), octets);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The socket reports an error of the link. A netlink notice will say what it means.
                Err(error) => {
                    log::debug!("{}: {error}", name(self.manet.names(), InterfaceId(index)))
                }
            }
        }
    }

    fn feed_watchdog(&mut self, now: Time) {
        if self.watchdog_due.is_some_and(|due| due <= now) {
            self.service.alive();
            self.watchdog_due = self.service.watchdog.map(|period| now + period);
        }
    }

    fn log_originators(&self) {
        let texts: Vec<String> = self.originators.iter().map(IpAddr::to_string).collect();
        match texts.as_slice() {
            [] => log::warn!("no originator: lo has no routable address; waiting for one"),
            texts => log::info!("originators: {}", texts.join(", ")),
        }
    }
}

/// Returns the originators in force: the configured ones, else those of `lo`.
fn originators(config: &Config, links: &Links) -> Vec<IpAddr> {
    if !config.originators.is_empty() {
        return config.originators.clone();
    }
    links.loopback_originators()
}

/// Returns the time until every router has been heard: two HELLOs for a symmetric link, and a TC interval for the TCs.
fn settling_time(config: &Config) -> Duration {
    2 * config.hello.interval + config.tc.interval
}

fn path(route: &RouteView) -> Path {
    Path {
        next_hop: Some(route.next_hop),
        interface: route.interface.0,
        source: Some(route.source),
    }
}

/// Returns a sequence number, from the wall clock, that is newer than those used before a restart. No state is stored.
fn wall_clock_sequence_number() -> u16 {
    let quarter_seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis()
        / 250;
    quarter_seconds as u16
}

/// Returns a number that nobody can know. Each call has another one.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}
