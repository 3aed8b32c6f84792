//! The event loop. It passes frames and packets to the node, and sends the node's output in batches.
//!
//! # Back pressure
//!
//! While an interface is blocked, nothing is read from the TUN device, so that the programs of this machine wait.
//! Frames of other nodes for that interface are dropped and counted when too many wait.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cryptoauth::{Ciphers, Credential, Portable, PrivateKey};
use daemonkit::{named, now, ServiceManager, Signals, Time};
use overlay_node::{
    Admission, Connection, Destination, Event, InterfaceId, Limits, LinkAddress, Node, Timing,
    Verdict,
};
use rand_core::{OsRng, TryRngCore, UnwrapErr};

use crate::admin::{Admin, View};
use crate::commands::{Gathered, Gathering, Kind, Portion, Said};
use crate::config::{Config, Interface, Peer, PeerAddress, User};
use crate::control::{self, Control};
use crate::io::buffers::{Buffer, Part, Pool};
use crate::io::links::{self, Links};
use crate::io::tun::Tun;
use crate::io::Arrival;
use crate::neighbours::{reason, Neighbours};
use crate::port::Port;
use crate::tokens::{Reactor, Token};

/// Number of buffers in addition to those for the frames that wait for each interface.
const BUFFERS_IN_WORK: u16 = 512;
const BUFFERS_OF_PORT: u16 = 256;
/// Number of free buffers below which everything that waits is sent before anything else is read.
const RESERVE: usize = 128;
/// Reads from one interface, or from the TUN device, in a turn, so that none delays the others.
const ROUNDS: usize = 4;
const PACKETS: usize = 256;
/// Longest wait. It lets the daemon notice a clock that was set back during a suspend.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The running node.
pub struct Daemon {
    path: PathBuf,
    reactor: Reactor,
    signals: Signals,
    service: ServiceManager,
    watchdog_due: Option<Time>,
    node: Node,
    rng: UnwrapErr<OsRng>,
    pool: Pool,
    ports: Vec<Port>,
    tun: Option<Tun>,
    /// Whether the loop waits for packets of the TUN device.
    reads_tun: bool,
    neighbours: Neighbours,
    /// Whether the control socket sets who is permitted.
    is_told: bool,
    gathering: Gathering,
    control: Option<Control>,
    admin: Option<Admin>,
    links: Links,
}

impl Daemon {
    /// Opens everything that can fail: sockets, the TUN device, the control socket.
    ///
    /// # Errors
    /// A resource is not available; the error names it.
    pub fn new(path: PathBuf, config: Config, key: PrivateKey) -> io::Result<Self> {
        let now = now();
        let mut rng = OsRng.unwrap_err();
        let reactor = Reactor::new()?;
        let signals = Signals::catch()?;
        reactor.add(&signals, Token::Signal)?;
        let mut node = Node::new(settings(&config, key, now), now, &mut rng)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        // Opened before devices are looked up, so that no change is missed.
        let links = Links::listen().map_err(|error| named("notices about devices", &error))?;
        reactor.add(&links, Token::Links)?;
        let ports = open_ports(&config.interfaces, &mut node, &mut rng, &reactor)?;
        let mut neighbours = Neighbours::default();
        add_users(&mut neighbours, &mut node, &config.users)?;
        connect(&mut neighbours, &mut node, &config.interfaces, &ports)?;
        let admin = config.admin.as_ref().map(Admin::bind).transpose()?;
        if let Some(admin) = &admin {
            reactor.add(admin, Token::Admin)?;
        }
        let tun = open_tun(&config, &node, &reactor)?;
        let control = Control::listen(&config.control, &reactor)?;
        let buffers = BUFFERS_IN_WORK + BUFFERS_OF_PORT * ports.len() as u16;
        Ok(Self {
            path,
            reactor,
            signals,
            service: ServiceManager::from_environment(),
            watchdog_due: None,
            node,
            rng,
            pool: Pool::new(buffers),
            ports,
            reads_tun: tun.is_some(),
            tun,
            neighbours,
            is_told: config.is_told,
            gathering: Gathering::default(),
            control,
            admin,
            links,
        })
    }

    /// Works until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// The event loop or the TUN device fails.
    pub fn run(&mut self) -> io::Result<()> {
        log::info!("address {}, key {}", self.node.address(), self.node.key());
        self.drain(now());
        self.flush();
        self.watchdog_due = self.service.watchdog.map(|period| now() + period);
        self.service.ready();
        while !self.signals.end() {
            self.turn()?;
        }
        self.service.stopping();
        log::info!("ended");
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        let due = self
            .watchdog_due
            .map_or(Time::MAX, |due| due)
            .min(self.node.poll_timeout())
            .min(self.admin_due());
        let wait = due.saturating_sub(now()).min(WAIT_MAX);
        for token in self.reactor.wait(Some(wait))? {
            self.serve(token)?;
        }
        if self.signals.take_reload() {
            self.reload();
        }
        let (now, admin_due) = (now(), self.admin_due());
        if self.node.poll_timeout() <= now {
            self.node.handle_timeout(now);
            self.drain(now);
        }
        if now >= admin_due {
            self.with_admin(now, Admin::handle_timeout);
            self.drain(now);
        }
        self.with_admin(now, |admin, view| admin.follow_log(view.now));
        self.flush();
        self.follow_flow()?;
        self.feed_watchdog(now);
        Ok(())
    }

    fn admin_due(&self) -> Time {
        let due = self.admin.as_ref().and_then(Admin::poll_timeout);
        due.unwrap_or(Time::MAX)
    }

    fn serve(&mut self, token: Token) -> io::Result<()> {
        match token {
            Token::Signal => self.signals.drain(),
            Token::Tun => self.take_packets()?,
            Token::Port(number) => self.take_frames(number.into()),
            Token::Beacon(number) => self.take_beacons(number.into()),
            Token::Listener => self.accept_reader(),
            Token::Reader(number) => self.serve_reader(number),
            Token::Admin => self.serve_admin(),
            Token::Links => self.follow_links()?,
        }
        Ok(())
    }

    /// Reads packets of this machine from the TUN device.
    fn take_packets(&mut self) -> io::Result<()> {
        // Moved out of `self`, because the node and the pool are used while it is read.
        let Some(mut tun) = self.tun.take() else {
            return Ok(());
        };
        let before = tun.counters;
        let mut taken = Ok(0);
        let mut packets = 0;
        while packets < PACKETS && !self.ports.iter().any(|port| port.is_blocked) {
            taken = self.take_piece(&mut tun);
            match taken {
                Ok(count) if count > 0 => packets += count,
                Ok(_) | Err(_) => break,
            }
        }
        if packets >= PACKETS {
            tun.note_crowd(now(), &before);
        }
        self.tun = Some(tun);
        taken.map(drop)
    }

    /// Reads one piece from the device. Returns the number of packets and pieces, 0 if nothing waits.
    fn take_piece(&mut self, tun: &mut Tun) -> io::Result<usize> {
        let now = now();
        let Some(mut packets) = tun.receive()? else {
            return Ok(0);
        };
        let mut count = 1;
        while let Some(Part { buffer, range }) = packets.next(&mut self.pool) {
            let octets = self.pool.octets_mut(buffer);
            let verdict = self.node.send_packet(now, &mut self.rng, octets, range);
            self.obey(buffer, verdict);
            self.drain(now);
            self.flush_when_short();
            count += 1;
        }
        Ok(count)
    }

    /// Reads frames of other nodes from an interface.
    fn take_frames(&mut self, number: usize) {
        for _ in 0..ROUNDS {
            let now = now();
            match self.ports[number].receive() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    log::warn!("{}: {error}", self.ports[number].name);
                    break;
                }
            }
            while let Some(arrival) = self.ports[number].next(&mut self.pool) {
                self.take_frame(now, self.ports[number].id, arrival);
                self.flush_when_short();
            }
        }
    }

    fn take_frame(&mut self, now: Time, interface: InterfaceId, arrival: Arrival) {
        let Part { buffer, range } = arrival.frame;
        let octets = self.pool.octets_mut(buffer);
        if arrival.is_beacon {
            let beacon = &octets[range];
            self.node
                .receive_beacon(now, interface, &arrival.from, beacon);
            self.pool.give(buffer);
        } else {
            let (rng, from) = (&mut self.rng, &arrival.from);
            let verdict = self.node.receive(now, rng, interface, from, octets, range);
            self.obey(buffer, verdict);
        }
        self.drain(now);
    }

    fn take_beacons(&mut self, number: usize) {
        let now = now();
        for _ in 0..ROUNDS {
            let port = &mut self.ports[number];
            let Some((from, beacon)) = port.next_beacon() else {
                break;
            };
            self.node.receive_beacon(now, port.id, &from, &beacon);
            self.drain(now);
        }
    }

    /// Transmits, delivers or frees a buffer, as the node decided.
    fn obey(&mut self, buffer: Buffer, verdict: Verdict) {
        match verdict {
            Verdict::Nothing => self.pool.give(buffer),
            Verdict::Transmit {
                interface,
                to,
                frame: range,
            } => self.push(interface, Destination::Unicast(to), Part { buffer, range }),
            Verdict::Deliver { packet: range } => self.deliver(Part { buffer, range }),
        }
    }

    fn push(&mut self, interface: InterfaceId, to: Destination, frame: Part) {
        match self.ports.get_mut(usize::from(interface.number())) {
            Some(port) => port.push(to, frame, &mut self.pool),
            None => self.pool.give(frame.buffer),
        }
    }

    fn deliver(&mut self, packet: Part) {
        match &mut self.tun {
            Some(tun) => tun.push(packet),
            None => self.pool.give(packet.buffer),
        }
    }

    /// Sends the frames that the node originates, and reports its events.
    fn drain(&mut self, now: Time) {
        self.transmit(now);
        let mut was_told = false;
        while let Some(event) = self.node.poll_event() {
            self.tell(now, &event);
            was_told = true;
        }
        if was_told {
            // A search of the admin API asks its next question when the last one is answered.
            self.transmit(now);
        }
    }

    fn transmit(&mut self, now: Time) {
        while let Some(buffer) = self.pool.take() {
            let octets = self.pool.octets_mut(buffer);
            let Some(said) = self.node.poll_transmit(now, &mut self.rng, octets) else {
                self.pool.give(buffer);
                break;
            };
            let range = said.frame;
            self.push(said.interface, said.to, Part { buffer, range });
            self.flush_when_short();
        }
    }

    fn tell(&mut self, now: Time, event: &Event) {
        log::debug!("{event:?}");
        if let Event::Pinged { id, result } = event {
            self.with_admin(now, |admin, view| admin.pinged(view, *id, result));
        }
        if let Some(control) = &mut self.control {
            control.tell(&self.reactor, now, event, &self.ports);
        }
    }

    fn flush_when_short(&mut self) {
        if self.pool.free() < RESERVE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Some(tun) = &mut self.tun {
            tun.flush(&mut self.pool);
        }
        for port in &mut self.ports {
            port.flush(&mut self.pool);
        }
    }

    /// Waits until the blocked interfaces are writable. While any is blocked, the TUN device is not read.
    fn follow_flow(&mut self) -> io::Result<()> {
        let mut is_free = true;
        for (number, port) in self.ports.iter_mut().enumerate() {
            is_free &= !port.is_blocked;
            if port.is_blocked != port.waits {
                let token = Token::Port(number as u16);
                if let Some(descriptor) = port.descriptor() {
                    let blocked = port.is_blocked;
                    self.reactor.want_write(descriptor, token, blocked)?;
                }
                port.waits = port.is_blocked;
            }
        }
        if let Some(tun) = self.tun.as_mut().filter(|_| is_free != self.reads_tun) {
            self.reactor.want(&*tun, Token::Tun, is_free, false)?;
            self.reads_tun = is_free;
            if !is_free {
                tun.note_stall(now());
            }
        }
        Ok(())
    }

    /// Follows devices that appear and disappear.
    fn follow_links(&mut self) -> io::Result<()> {
        if !self.links.changed() {
            return Ok(());
        }
        let now = now();
        for (number, port) in (0..).zip(&mut self.ports) {
            match port.follow() {
                Ok((false, kept)) if kept == port.beacons().len() => {}
                Ok((is_new, kept)) => {
                    watch(&self.reactor, number, port, is_new, kept)?;
                    // The first beacon is sent at once.
                    let (rng, beacons) = (&mut self.rng, port.beacons_are);
                    self.node.set_beacons(now, rng, port.id, beacons);
                }
                Err(error) => log::warn!("{error}"),
            }
        }
        let (node, neighbours) = (&mut self.node, &mut self.neighbours);
        if let Err((key, error)) = neighbours.follow_devices(now, node, device_index) {
            log::warn!("peer {key}: {}", reason(error));
        }
        self.drain(now);
        Ok(())
    }

    fn accept_reader(&mut self) {
        let status = self.status();
        if let Some(control) = &mut self.control {
            if let Err(error) = control.accept(&self.reactor, &status) {
                log::warn!("control socket: {error}");
            }
        }
    }

    fn serve_reader(&mut self, number: u32) {
        let Some(control) = &mut self.control else {
            return;
        };
        let mut wants_status = false;
        for said in control.serve(number, &self.reactor) {
            let answer = match said {
                Ok(Said::Status) => {
                    wants_status = true;
                    continue;
                }
                Ok(Said::Portion(portion)) => {
                    let name = portion.kind.name();
                    control::answer(Some(name), &self.carry_out(number, portion))
                }
                Err(reason) => control::answer(None, &Err(reason)),
            };
            self.answer_reader(number, &answer);
            self.drain(now());
        }
        if wants_status {
            let status = self.status();
            self.answer_reader(number, &status);
        }
    }

    fn answer_reader(&mut self, number: u32, answer: &serde_json::Value) {
        if let Some(control) = &mut self.control {
            control.answer(number, &self.reactor, answer);
        }
    }

    /// Carries out a portion of a command. Returns how many nodes the command names so far, or why it is refused.
    fn carry_out(&mut self, number: u32, portion: Portion) -> Result<usize, String> {
        if let Some(control) = &self.control {
            control.may_command(number)?;
        }
        if !self.is_told {
            return Err("allowed with permit = \"control\" in the configuration".into());
        }
        let kind = portion.kind;
        let addresses = match self.gathering.take(number, portion)? {
            Gathered::Whole(addresses) => addresses,
            Gathered::Part(count) => return Ok(count),
        };
        let count = addresses.len();
        match kind {
            Kind::Permit => self.node.admit(Admission::Only(addresses)),
            Kind::Keep => self.node.keep(now(), &addresses),
        }
        Ok(count)
    }

    fn serve_admin(&mut self) {
        let now = now();
        self.with_admin(now, Admin::serve);
        self.drain(now);
    }

    fn with_admin(&mut self, now: Time, act: impl FnOnce(&mut Admin, &mut View<'_>)) {
        if let Some(admin) = &mut self.admin {
            let mut view = View {
                now,
                node: &mut self.node,
                ports: &mut self.ports,
                neighbours: &mut self.neighbours,
            };
            act(admin, &mut view);
        }
    }

    fn status(&self) -> serde_json::Value {
        let tun = self.tun.as_ref();
        let mut status = control::status(now(), &self.node, self.is_told, &self.ports, tun);
        status["admin"] = self.admin.as_ref().map(control::api).into();
        status
    }

    /// Reads the configuration again. Only `permit` takes effect; everything else needs a restart.
    fn reload(&mut self) {
        self.service.reloading(now());
        match Config::load(&self.path) {
            Ok(config) => {
                // What the control socket has set stays in force.
                if !(self.is_told && config.is_told) {
                    self.node.admit(config.admission);
                }
                self.is_told = config.is_told;
                log::info!("{}: read again, permit is in force", self.path.display());
            }
            Err(error) => log::error!("{error}; nothing was changed"),
        }
        self.service.ready();
    }

    fn feed_watchdog(&mut self, now: Time) {
        if let (Some(period), Some(due)) = (self.service.watchdog, self.watchdog_due) {
            if due <= now {
                self.service.alive();
                self.watchdog_due = Some(now + period);
            }
        }
    }
}

/// Returns the fastest ciphers of this machine.
pub fn ciphers() -> &'static dyn Ciphers {
    match sodium::load() {
        Ok(sodium) => sodium,
        Err(error) => {
            log::warn!("{error}; the portable ciphers are used, a third as fast");
            &Portable
        }
    }
}

/// Returns the initial configuration of the node.
fn settings(config: &Config, key: PrivateKey, now: Time) -> overlay_node::Config {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    overlay_node::Config {
        key,
        ciphers: ciphers(),
        unix_at_zero: unix.unwrap_or_default().saturating_sub(now),
        noise: config.noise,
        admission: config.admission.clone(),
        limits: Limits::default(),
        timing: Timing::default(),
    }
}

fn open_ports(
    interfaces: &[Interface],
    node: &mut Node,
    rng: &mut UnwrapErr<OsRng>,
    reactor: &Reactor,
) -> io::Result<Vec<Port>> {
    let mut ports = Vec::new();
    for (number, interface) in (0..).zip(interfaces) {
        let id = node.add_interface(now(), rng, interface.beacons);
        let port = Port::open(id, interface)?;
        watch(reactor, number, &port, true, 0)?;
        ports.push(port);
    }
    Ok(ports)
}

/// Watches the socket of an interface if it is new, and its beacon sockets after the first `known`.
fn watch(
    reactor: &Reactor,
    number: u16,
    port: &Port,
    is_new: bool,
    known: usize,
) -> io::Result<()> {
    if let Some(descriptor) = port.descriptor().filter(|_| is_new) {
        reactor.add(descriptor, Token::Port(number))?;
    }
    for beacons in port.beacons().iter().skip(known) {
        reactor.add(beacons, Token::Beacon(number))?;
    }
    Ok(())
}

fn add_users(neighbours: &mut Neighbours, node: &mut Node, users: &[User]) -> io::Result<()> {
    for user in users {
        let name = user.name.as_deref();
        let (login, password) = (name.map(str::as_bytes), user.password.octets());
        neighbours
            .add_user(node, login, password, user.only)
            .map_err(|error| invalid(&format!("user {:?}", name.unwrap_or_default()), error))?;
    }
    Ok(())
}

fn connect(
    neighbours: &mut Neighbours,
    node: &mut Node,
    interfaces: &[Interface],
    ports: &[Port],
) -> io::Result<()> {
    for (interface, port) in interfaces.iter().zip(ports) {
        for peer in &interface.peers {
            let connection = Connection {
                interface: port.id,
                to: match peer.address {
                    PeerAddress::Udp(address) => LinkAddress::Udp(address),
                    PeerAddress::UdpBy(address, _) => LinkAddress::Udp(address.into()),
                    PeerAddress::Ethernet(mac) => LinkAddress::Ethernet(mac),
                },
                key: peer.key,
                credential: credential(peer),
            };
            if let PeerAddress::UdpBy(address, device) = &peer.address {
                neighbours.connect_by(connection, *address, device);
                continue;
            }
            let name = peer.name.as_deref().unwrap_or("without a name");
            let what = format!("{}: peer {name}, {}", port.name, peer.key);
            neighbours
                .connect(now(), node, connection)
                .map_err(|error| invalid(&what, reason(error)))?;
        }
    }
    let connected = neighbours.follow_devices(now(), node, device_index);
    connected.map_err(|(key, error)| invalid(&format!("peer {key}"), reason(error)))
}

fn device_index(name: &str) -> Option<u32> {
    links::index_of(name).ok().flatten()
}

fn credential(peer: &Peer) -> Option<Credential> {
    let (login, password) = peer.password.as_ref()?;
    Some(match login {
        Some(login) => Credential::login(login.as_bytes(), password.octets()),
        None => Credential::password(password.octets()),
    })
}

fn open_tun(config: &Config, node: &Node, reactor: &Reactor) -> io::Result<Option<Tun>> {
    let Some(name) = &config.tun.name else {
        return Ok(None);
    };
    let mut tun = Tun::open(name).map_err(|error| named(&format!("tun {name}"), &error))?;
    let address = config.tun.address.then(|| node.address().into());
    tun.configure(address, config.tun.mtu)
        .map_err(|error| named(&format!("tun {name}"), &error))?;
    reactor.add(&tun, Token::Tun)?;
    Ok(Some(tun))
}

fn invalid(what: &str, error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what}: {error}"))
}
