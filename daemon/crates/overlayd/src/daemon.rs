//! The event loop. It passes frames and packets to the node, and sends the node's output in batches.
//!
//! # Back pressure
//!
//! While an interface is blocked, nothing is read from the TUN device, so that the programs of this machine wait.
//! Frames of other nodes for that interface are dropped and counted when too many wait.

mod opening;
mod packets;
mod readers;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use cryptoauth::{Ciphers, Portable, PrivateKey};
use daemonkit::{named, now, ServiceManager, Signals, Time};
use overlay_node::{Event, Node};
use rand_core::{OsRng, TryRngCore, UnwrapErr};

use crate::admin::Admin;
use crate::commands::Gathering;
use crate::config::Config;
use crate::control::Control;
use crate::io::buffers::Pool;
use crate::io::links::Links;
use crate::io::tun::Tun;
use crate::neighbours::{reason, Neighbours};
use crate::port::Port;
use crate::tokens::{Reactor, Token};

use opening::{add_users, connect, device_index, open_ports, open_tun, settings, watch};

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
    permits_by_control: bool,
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
            permits_by_control: config.permits_by_control,
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

    fn publish(&mut self, now: Time, event: &Event) {
        log::debug!("{event:?}");
        if let Event::Pinged { id, result } = event {
            self.with_admin(now, |admin, view| admin.pinged(view, *id, result));
        }
        if let Some(control) = &mut self.control {
            control.publish(&self.reactor, now, event, &self.ports);
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

    /// Reads the configuration again. Only `permit` takes effect; everything else needs a restart.
    fn reload(&mut self) {
        self.service.reloading(now());
        match Config::load(&self.path) {
            Ok(config) => {
                // What the control socket has set stays in force.
                if !(self.permits_by_control && config.permits_by_control) {
                    self.node.admit(config.admission);
                }
                self.permits_by_control = config.permits_by_control;
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
