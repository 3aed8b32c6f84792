//! The event loop between kernel, mesh, router, and the readers of the change stream.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path as FilePath, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use daemonkit::{named, now, ServiceManager, Signals};
use olsrv2::{
    Event, Family, HelloTiming, InterfaceEvent, InterfaceId, LinkStatus, LinkView, Metric, Prefix,
    RouteView, Router, Time,
};
use serde_json::{json, Map};

use crate::config::{Config, Management, Weight};
use crate::fib::Fib;
use crate::links::Links;
use crate::management::change_lines::{DaemonCounters, Object};
use crate::management::changes::{Changes, Request};
use crate::management::open;
use crate::management::refusals::refusals;
use crate::management::state::State;
use crate::management::text::{Query, Telnet};
use crate::manet::{name, Manet};
use crate::mesh;
use crate::netlink::{Monitor, Notice, Path, Received, Requests};
use crate::nl80211::{self, Change, Mac, News, Radio};
use crate::probation::Probation;
use crate::reactor::{Reactor, Token};

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
    /// Networks of this machine outside the mesh.
    connected: Vec<Prefix>,
    reactor: Reactor,
    signals: Signals,
    requests: Requests,
    monitor: Monitor,
    links: Links,
    manet: Manet,
    router: Router,
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
            connected,
            reactor,
            signals,
            requests,
            monitor,
            links,
            manet: Manet::default(),
            router,
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
                self.tell(now, &Object::Route(&route, installed), true);
            }
        }
    }

    fn drain(&mut self, now: Time) {
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
                self.tell(now, &Object::Route(route, installed), true);
            }
            Event::RouteRemoved(destination) => {
                self.fib.remove(&mut self.requests, now, *destination);
                self.tell(now, &Object::NoRoute(*destination), false);
            }
            Event::NeighbourSet(view) => self.tell(now, &Object::Neighbour(view), true),
            Event::NeighbourRemoved(view) => self.tell(now, &Object::Neighbour(view), false),
            Event::LinkSet(view) => {
                self.weigh(now, view);
                self.tell(now, &Object::Link(view), true);
            }
            Event::LinkRemoved(view) => {
                self.probation.forget(view);
                self.tell(now, &Object::Link(view), false);
            }
            Event::NodeSet(view) => self.tell(now, &Object::Node(view), true),
            Event::NodeRemoved(view) => self.tell(now, &Object::Node(view), false),
            Event::EdgeSet(view) => self.tell(now, &Object::Edge(view), true),
            Event::EdgeRemoved(view) => self.tell(now, &Object::Edge(view), false),
            Event::AttachedSet(view) => self.tell(now, &Object::Attached(view), true),
            Event::AttachedRemoved(view) => self.tell(now, &Object::Attached(view), false),
            Event::DuplicateOriginator {
                originator,
                interface,
                source,
            } => {
                self.tell_duplicate(now, *originator, *interface, *source);
            }
        }
    }

    fn tell(&mut self, now: Time, object: &Object, is_set: bool) {
        if let Some(changes) = &mut self.changes {
            changes.tell(&self.reactor, now, object, is_set, self.manet.names());
        }
    }

    fn tell_duplicate(
        &mut self,
        now: Time,
        originator: IpAddr,
        interface: InterfaceId,
        source: IpAddr,
    ) {
        let interface = name(self.manet.names(), interface);
        log::warn!(
            "another router uses our originator {originator}: heard from {source} on {interface}"
        );
        let mut fields = Map::new();
        fields.insert("originator".into(), json!(originator));
        fields.insert("interface".into(), json!(interface));
        fields.insert("source".into(), json!(source));
        if let Some(changes) = &mut self.changes {
            changes.event(&self.reactor, now, "duplicate_originator", fields);
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

    /// Sets the metric of a link that was added or has changed.
    fn weigh(&mut self, now: Time, link: &LinkView) {
        let metric = match self.weight(link.interface) {
            Weight::Auto => self.measured(link),
            Weight::Hop => None,
            Weight::Constant(metric) => Some(metric),
        };
        match metric {
            None => self.probation.observe(now, link, self.config.metric),
            Some(metric) => {
                self.probation.forget(link);
                // A lost link has no metric. It gets one when it is heard again.
                if link.metric_in.is_some_and(|known| known != metric) {
                    self.router
                        .set_link_metric(now, link.interface, link.address, Some(metric));
                }
            }
        }
    }

    fn weight(&self, interface: InterfaceId) -> Weight {
        let name = self.manet.names().get(&interface.0);
        let weight = name.and_then(|name| self.config.weights.get(name));
        weight.copied().unwrap_or(Weight::Hop)
    }

    /// Returns the metric that the link layer has measured.
    fn measured(&self, link: &LinkView) -> Option<Metric> {
        let radio = self.radio.as_ref()?;
        radio.metric(link.interface.0, nl80211::mac_of(link)?)
    }

    fn take_station_notices(&mut self, now: Time) {
        if let Some(radio) = &mut self.radio {
            let changes = radio.take_notices(now);
            self.follow_stations(now, &changes);
        }
    }

    fn take_survey(&mut self, now: Time) {
        let Some(radio) = &mut self.radio else { return };
        match radio.take_report(now, &self.reactor) {
            Ok(changes) => {
                self.tell_hardware_addresses();
                self.warn_of_scale();
                self.follow_stations(now, &changes);
            }
            Err(error) => {
                log::error!("nl80211: {error}; stations are not watched: restart olsrv2d");
                self.radio = None;
            }
        }
    }

    fn follow_stations(&mut self, now: Time, changes: &[Change]) {
        for change in changes {
            let interface = InterfaceId(change.interface);
            let mut links = self.router.links();
            links.retain(|link| {
                link.interface == interface && nl80211::mac_of(link) == Some(change.mac)
            });
            for link in links {
                match &change.news {
                    News::Lost(reason) => self.lose(now, &link, reason),
                    News::Metric(_) => self.weigh(now, &link),
                    News::Back => {}
                }
            }
            self.drain(now);
        }
    }

    /// Ends a link whose station is out of reach. The neighbour's next HELLO starts a new link.
    fn lose(&mut self, now: Time, link: &LinkView, reason: &str) {
        if link.status < LinkStatus::Heard {
            return;
        }
        let interface = link.interface;
        let event = InterfaceEvent::NeighbourLost {
            interface,
            address: link.address,
        };
        log::info!("{}: {reason}", self.manet.describe(&event));
        self.router.handle_interface(now, event);
    }

    /// Warns once if a wired interface has a default metric that cannot be compared with measured ones.
    fn warn_of_scale(&mut self) {
        let Some(radio) = &self.radio else { return };
        if self.warned_of_scale || radio.wireless().next().is_none() {
            return;
        }
        let mut others = radio.others().map(InterfaceId);
        if let Some(other) = others.find(|index| self.weight(*index) == Weight::Auto) {
            log::warn!(
                "{}: not wireless, so its links have metric {}, far more than measured ones: set `metric` in its [[interface]]",
                name(self.manet.names(), other),
                self.config.metric.get()
            );
            self.warned_of_scale = true;
        }
    }

    /// Announces the hardware address in the HELLOs of wireless interfaces. Neighbours find our station by it.
    fn tell_hardware_addresses(&mut self) {
        let Some(radio) = &self.radio else { return };
        let wireless: BTreeMap<u32, Mac> = radio.wireless().collect();
        for index in self.manet.names().keys() {
            let mac = wireless.get(index).copied();
            self.router.set_hardware_address(InterfaceId(*index), mac);
        }
    }

    fn take_notices(&mut self, now: Time) -> io::Result<()> {
        let mut changed = false;
        for _ in 0..BURST {
            match self.monitor.receive()? {
                Received::Nothing => break,
                Received::Notices(notices) => {
                    for notice in notices {
                        changed |= self.take_notice(now, notice);
                    }
                }
                Received::Overrun => {
                    log::info!("netlink: notices were lost; all links, addresses and routes are read again");
                    self.fib.suspect(now);
                    self.reread_links(now);
                    changed = true;
                }
            }
        }
        if changed {
            self.follow_links(now);
        }
        Ok(())
    }

    /// Reads all links and addresses again. If that fails, the next attempt follows after [`RETRY`].
    fn reread_links(&mut self, now: Time) {
        let links = self.requests.links();
        match links.and_then(|links| Ok(Links::new(links, self.requests.addresses()?))) {
            Ok(links) => {
                self.links = links;
                self.reread_due = None;
            }
            Err(error) => {
                log::error!("links cannot be listed: {error}");
                self.reread_due = Some(now + RETRY);
            }
        }
    }

    /// Processes a notice. Returns whether the links changed.
    fn take_notice(&mut self, now: Time, notice: Notice) -> bool {
        match &notice {
            Notice::Route { routes, replaced } => self.fib.observe(now, routes, *replaced),
            Notice::LinkGone(index) => self.fib.forget_interface(now, *index),
            Notice::Link(link) if !link.admin_up => self.fib.forget_interface(now, link.index),
            _ => {}
        }
        let about_address = matches!(notice, Notice::Address(_) | Notice::AddressGone(_));
        let changed = self.links.apply(notice);
        if changed && about_address {
            // The kernel may have dropped routes with this source, and those over an interface without another address.
            self.fib.suspect(now);
        }
        changed
    }

    /// Adapts the router and the sockets to changed links or a changed configuration.
    fn follow_links(&mut self, now: Time) {
        let connected = self.links.connected(&self.config.interfaces);
        if originators(&self.config, &self.links) != self.originators || connected != self.connected
        {
            self.reconfigure(now);
        }
        self.synchronise_interfaces(now);
    }

    /// Reconfigures the router. Readers whose greeting names old originators are disconnected.
    fn reconfigure(&mut self, now: Time) {
        let originators = originators(&self.config, &self.links);
        let before = std::mem::replace(&mut self.originators, originators);
        self.connected = self.links.connected(&self.config.interfaces);
        let config = self.config.router(
            &self.originators,
            &self.connected,
            self.first_sequence_number,
        );
        self.router.reconfigure(now, config);
        self.drain(now);
        if self.originators != before {
            self.log_originators();
            if let Some(changes) = &mut self.changes {
                changes.restart();
            }
        }
    }

    fn synchronise_interfaces(&mut self, now: Time) {
        let originator = self.originator_v4();
        let result = self.manet.synchronise(
            &self.config.interfaces,
            &self.links,
            originator,
            &self.reactor,
        );
        self.sockets_due = result.incomplete.then_some(now + RETRY);
        self.time_hellos(now);
        self.watch_stations(now);
        for event in result.events {
            log::info!("{}", self.manet.describe(&event));
            self.router.handle_interface(now, event);
            self.drain(now);
        }
    }

    /// Watches the stations of all interfaces that are up.
    fn watch_stations(&mut self, now: Time) {
        let interfaces = self.manet.interfaces().into_iter();
        let wanted = interfaces.filter_map(|interface| Some((interface.index, interface.mac?)));
        if let Some(radio) = &mut self.radio {
            radio.watch(now, &wanted.collect());
        }
    }

    /// Sets the HELLO timing of each interface in the router.
    fn time_hellos(&mut self, now: Time) {
        for (index, name) in self.manet.names() {
            let timing = self.config.hellos.get(name).map(|timing| HelloTiming {
                interval: timing.interval,
                validity: timing.validity,
            });
            self.router
                .set_hello_timing(now, InterfaceId(*index), timing);
        }
    }

    fn originator_v4(&self) -> Option<Ipv4Addr> {
        self.originators.iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        })
    }

    fn reload(&mut self, now: Time) {
        log::info!("reading {} again", self.path.display());
        self.service.reloading(now);
        match Config::load(&self.path) {
            Ok(config) => self.apply(now, config),
            Err(error) => log::error!("{error}; the configuration in force stays"),
        }
        self.service.ready();
    }

    /// Puts a configuration in force. If its management sockets cannot be opened, nothing changes.
    fn apply(&mut self, now: Time, config: Config) {
        if let Err(error) = self.apply_management(&config.management) {
            log::error!("{error}; the configuration in force stays");
            return;
        }
        let old = std::mem::replace(&mut self.config, config);
        if old.route != self.config.route {
            self.move_routes(now);
        }
        self.reconfigure(now);
        if (old.metric, &old.weights) != (self.config.metric, &self.config.weights) {
            self.restart_probation(now);
            self.drain(now);
        }
        self.synchronise_interfaces(now);
    }

    /// Puts all links on probation again, because the configured metric changed.
    fn restart_probation(&mut self, now: Time) {
        self.probation = Probation::default();
        for link in self.router.links() {
            self.router
                .set_link_metric(now, link.interface, link.address, None);
        }
    }

    /// Opens the new management sockets before it closes the old ones.
    fn apply_management(&mut self, new: &Management) -> io::Result<()> {
        let old = &self.config.management;
        let telnet = if old.telnet == new.telnet {
            None
        } else {
            Some(open::telnet(new, &self.reactor)?)
        };
        let query = if old.query == new.query {
            None
        } else {
            Some(open::query(new, &self.reactor)?)
        };
        if old.socket != new.socket {
            self.changes = open::changes(new, &self.reactor)?;
        } else if let Some(changes) = self
            .changes
            .as_ref()
            .filter(|_| old.socket_group != new.socket_group)
        {
            changes.admit(new.socket_group.as_deref())?;
        }
        let kept = self.query.as_ref().filter(|_| query.is_none());
        if let Some(kept) = kept.filter(|_| old.socket_group != new.socket_group) {
            kept.admit(new.socket_group.as_deref())?;
        }
        if let Some(telnet) = telnet {
            self.telnet = telnet;
        }
        if let Some(query) = query {
            self.query = query;
        }
        Ok(())
    }

    /// Installs all routes under new settings, then removes the old ones.
    fn move_routes(&mut self, now: Time) {
        let settles = now + settling_time(&self.config);
        match Fib::open(&mut self.requests, self.config.route, settles) {
            Ok(fib) => {
                let mut old = std::mem::replace(&mut self.fib, fib);
                for route in self.router.routes() {
                    self.fib
                        .set(&mut self.requests, now, route.destination, path(&route));
                }
                old.clear(&mut self.requests, now);
            }
            Err(error) => log::error!("the kernel's routes cannot be listed: {error}"),
        }
    }

    fn serve_due_texts(&mut self, now: Time) {
        let is_due = |due: Option<Time>| due.is_some_and(|due| due <= now);
        if is_due(self.telnet.as_ref().and_then(Telnet::poll_timeout)) {
            self.serve_text(Token::Telnet, now);
        }
        if is_due(self.query.as_ref().and_then(Query::poll_timeout)) {
            self.serve_text(Token::Query, now);
        }
    }

    fn serve_text(&mut self, token: Token, now: Time) {
        let Self {
            telnet,
            query,
            reactor,
            router,
            radio,
            fib,
            config,
            manet,
            ..
        } = self;
        let observe = || State::observe(now, router, radio.as_ref(), fib, config, manet);
        match (token, telnet, query) {
            (Token::Telnet, Some(telnet), _) => telnet.serve(reactor, daemonkit::now, observe),
            (Token::Query, _, Some(query)) => query.serve(reactor, daemonkit::now, observe),
            _ => {}
        }
    }

    /// Carries out the requests of a reader of the change stream.
    fn serve_reader(&mut self, number: u32, now: Time) {
        let Some(changes) = &mut self.changes else {
            return;
        };
        for request in changes.serve(number, &self.reactor) {
            match request {
                Request::Trust(addresses) => self.router.set_trusted(addresses),
                Request::Refusals => {
                    let names = self.manet.names();
                    let told = refusals(&self.router.refusals(now), now, names);
                    changes.tell_refusals(&self.reactor, number, now, told);
                }
            }
        }
    }

    fn accept_reader(&mut self, now: Time) {
        // Changes that are already decided are sent before the snapshot.
        self.drain(now);
        let Self {
            changes,
            reactor,
            router,
            radio,
            fib,
            config,
            manet,
            ..
        } = self;
        let counted = DaemonCounters {
            routes_repaired: fib.repaired(),
            routes_failed: fib.failed() as u64,
            send_errors: self.send_errors,
        };
        if let Some(changes) = changes {
            let state = State::observe(now, router, radio.as_ref(), fib, config, manet);
            if let Err(error) = changes.accept(reactor, &state, counted) {
                log::warn!("a reader of the change stream is refused: {error}");
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

fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}
