//! Another configuration while the router runs.

use std::io;

use olsrv2::Time;

use super::{path, settling_time, Daemon};
use crate::config::{Config, Management};
use crate::fib::Fib;
use crate::management::open;

impl Daemon {
    pub(super) fn reload(&mut self, now: Time) {
        log::info!("reading {} again", self.path.display());
        self.service.reloading(now);
        match Config::load(&self.path) {
            Ok(config) => self.apply(now, config),
            Err(error) => log::error!("{error}; the configuration in force stays"),
        }
        self.service.ready();
    }

    /// Puts a configuration in force. If its management sockets cannot be opened, nothing changes.
    pub(super) fn apply(&mut self, now: Time, config: Config) {
        if let Err(error) = self.apply_management(&config.management) {
            log::error!("{error}; the configuration in force stays");
            return;
        }
        let old = std::mem::replace(&mut self.config, config);
        if old.route != self.config.route {
            self.move_routes(now);
        }
        self.reconfigure(now);
        if old.wanted_signer() != self.config.wanted_signer() {
            self.set_signer(now);
        }
        if (old.metric, &old.weights) != (self.config.metric, &self.config.weights) {
            self.restart_probation(now);
            self.drain(now);
        }
        self.synchronise_interfaces(now);
    }

    /// Opens the new management sockets before it closes the old ones.
    pub(super) fn apply_management(&mut self, new: &Management) -> io::Result<()> {
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
    pub(super) fn move_routes(&mut self, now: Time) {
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
}
