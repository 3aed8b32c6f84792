//! Keeps the kernel's routes equal to those that the router wants.
//!
//! A route is ours if table, protocol and metric are the configured ones. Networks have a metric of their own. A better
//! path is added before the old one is deleted, so that no packet finds the destination without a route.
//!
//! An *audit* is a dump of our routes, at most one in [`AUDIT_INTERVAL`]. It follows whatever may have changed them:
//! another program, a lost address or link (the kernel then drops routes silently), lost notices, or a failed request.
//!
//! Routes that an earlier olsrv2d process left behind stay at first, so that a restart does not interrupt traffic.
//! Those that the router wants again are adopted unchanged. The others are deleted when the settling time is over.

mod audit;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use olsrv2::{Prefix, Time};

use crate::config::RouteSettings;
use crate::netlink::{AddMode, Path, Requests, Route};

/// Shortest time between two audits. Bounds the work if another program keeps changing our routes.
const AUDIT_INTERVAL: Duration = Duration::from_secs(1);
/// Delay from a notice to the audit, so that the router reacts first and several notices cause one audit.
const AUDIT_DELAY: Duration = Duration::from_millis(50);
/// Longest pause between two attempts at a route that the kernel refuses.
const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(32);

/// The kernel's routing tables.
pub trait Kernel {
    /// Adds a route.
    fn add(&mut self, route: &Route, mode: AddMode) -> io::Result<()>;
    /// Deletes exactly this route.
    fn delete(&mut self, route: &Route) -> io::Result<()>;
    /// Returns the routes with our table, protocol and metric.
    fn list(&mut self, settings: RouteSettings) -> io::Result<Vec<Route>>;
}

impl Kernel for Requests {
    fn add(&mut self, route: &Route, mode: AddMode) -> io::Result<()> {
        self.add_route(route, mode)
    }

    fn delete(&mut self, route: &Route) -> io::Result<()> {
        self.delete_route(route)
    }

    fn list(&mut self, settings: RouteSettings) -> io::Result<Vec<Route>> {
        self.routes(settings)
    }
}

/// The routes of this router in the kernel.
pub struct Fib {
    settings: RouteSettings,
    wanted: BTreeMap<Prefix, Path>,
    /// The paths that the kernel is believed to have. A destination has several while one path replaces another.
    present: BTreeMap<Prefix, BTreeSet<Path>>,
    /// Destinations whose route the kernel refuses, with the reason that was logged.
    failed: BTreeMap<Prefix, String>,
    /// Destinations whose route another program has replaced since the last audit.
    usurped: BTreeSet<Prefix>,
    /// Time until which unwanted routes of an earlier process may stay.
    settles: Option<Time>,
    last_audit: Option<Time>,
    audit_due: Option<Time>,
    retry_interval: Duration,
    repaired: u64,
}

impl Fib {
    /// Adopts the routes that an earlier process left behind. They may stay until `settles`.
    ///
    /// # Errors
    /// The kernel's routes cannot be listed.
    pub fn open(
        kernel: &mut impl Kernel,
        settings: RouteSettings,
        settles: Time,
    ) -> io::Result<Self> {
        let mut fib = Self {
            settings,
            wanted: BTreeMap::new(),
            present: BTreeMap::new(),
            failed: BTreeMap::new(),
            usurped: BTreeSet::new(),
            settles: Some(settles),
            last_audit: None,
            audit_due: None,
            retry_interval: AUDIT_INTERVAL,
            repaired: 0,
        };
        fib.refresh(kernel)?;
        if !fib.present.is_empty() {
            log::info!(
                "{} routes of an earlier olsrv2d process found",
                fib.present.len()
            );
        }
        Ok(fib)
    }

    /// Sets the wanted route to a destination. Returns whether the kernel has it now.
    pub fn set(
        &mut self,
        kernel: &mut impl Kernel,
        now: Time,
        destination: Prefix,
        path: Path,
    ) -> bool {
        self.wanted.insert(destination, path);
        self.install(kernel, now, destination, path)
    }

    /// Withdraws the wanted route to a destination.
    pub fn remove(&mut self, kernel: &mut impl Kernel, now: Time, destination: Prefix) {
        self.wanted.remove(&destination);
        self.failed.remove(&destination);
        self.withdraw(kernel, now, destination);
    }

    /// Returns whether the kernel has the wanted route to `destination`.
    pub fn is_installed(&self, destination: &Prefix) -> bool {
        self.wanted.contains_key(destination) && self.is_settled(destination)
    }

    /// Returns how many routes had to be restored.
    pub fn repaired(&self) -> u64 {
        self.repaired
    }

    /// Returns how many wanted routes the kernel refuses.
    pub fn failed(&self) -> usize {
        self.failed.len()
    }

    /// Processes a change that another program made to routes. Schedules an audit if the change concerns ours.
    pub fn observe(&mut self, now: Time, routes: &[Route], replaced: bool) {
        for route in routes {
            if !self.concerns(route) {
                continue;
            }
            if replaced && route.protocol != self.settings.protocol {
                self.usurped.insert(route.destination);
            }
            self.suspect(now);
        }
    }

    /// Forgets the routes over an interface that went down. The kernel has dropped them without a notice.
    pub fn forget_interface(&mut self, now: Time, interface: u32) {
        for paths in self.present.values_mut() {
            paths.retain(|path| path.interface != interface);
        }
        self.suspect(now);
    }

    /// Schedules an audit as soon as one is allowed, because the belief about the kernel may be wrong.
    pub fn suspect(&mut self, now: Time) {
        let soon = now + AUDIT_DELAY;
        let earliest = self
            .last_audit
            .map_or(soon, |last| soon.max(last + AUDIT_INTERVAL));
        self.audit_due = Some(self.audit_due.map_or(earliest, |due| due.min(earliest)));
        self.retry_interval = AUDIT_INTERVAL;
    }

    /// Returns when to call [`Fib::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.audit_due, self.settles].into_iter().flatten().min()
    }

    /// Runs a due audit. Returns the destinations whose wanted route has become installed, or is no longer installed.
    pub fn handle_timeout(&mut self, kernel: &mut impl Kernel, now: Time) -> Vec<Prefix> {
        if self.settles.is_some_and(|settles| settles <= now) {
            self.settles = None;
            self.audit_due = Some(now);
        }
        if self.audit_due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.audit_due = None;
        self.last_audit = Some(now);
        self.audit(kernel, now)
    }

    /// Deletes all our routes. Called when olsrv2d ends and before its route settings change.
    pub fn clear(&mut self, kernel: &mut impl Kernel, now: Time) {
        self.wanted.clear();
        if let Err(error) = self.refresh(kernel) {
            log::error!("the kernel's routes cannot be listed: {error}");
        }
        for destination in self.unwanted() {
            self.withdraw(kernel, now, destination);
        }
    }

    fn install(
        &mut self,
        kernel: &mut impl Kernel,
        now: Time,
        destination: Prefix,
        path: Path,
    ) -> bool {
        let mut old = self.present.get(&destination).cloned().unwrap_or_default();
        if !old.remove(&path) {
            match self.add(kernel, destination, path, old) {
                Ok(beside) => old = beside,
                Err(error) => {
                    self.fail(now, destination, &error);
                    return false;
                }
            }
        }
        self.failed.remove(&destination);
        for stale in old {
            self.delete(kernel, now, destination, stale);
        }
        self.present.insert(destination, BTreeSet::from([path]));
        true
    }

    /// Adds a path after the old ones, or in their place if both are impossible. Returns the old paths still installed.
    fn add(
        &mut self,
        kernel: &mut impl Kernel,
        key: Prefix,
        path: Path,
        old: BTreeSet<Path>,
    ) -> io::Result<BTreeSet<Path>> {
        let route = self.route(key, path);
        if old.is_empty() {
            let mode = if self.usurped.contains(&key) {
                AddMode::Replace
            } else {
                AddMode::Exclusive
            };
            kernel.add(&route, mode)?;
            return Ok(old);
        }
        match kernel.add(&route, AddMode::Append) {
            // The kernel distinguishes IPv6 paths by next hop and interface only, also when it deletes one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                for stale in old {
                    kernel.delete(&self.route(key, stale))?;
                }
                kernel.add(&route, AddMode::Exclusive)?;
                Ok(BTreeSet::new())
            }
            result => result.map(|()| old),
        }
    }

    fn withdraw(&mut self, kernel: &mut impl Kernel, now: Time, destination: Prefix) {
        for path in self.present.remove(&destination).unwrap_or_default() {
            self.delete(kernel, now, destination, path);
        }
    }

    fn delete(&mut self, kernel: &mut impl Kernel, now: Time, destination: Prefix, path: Path) {
        match kernel.delete(&self.route(destination, path)) {
            Err(error) if !is_absence(&error) => {
                log::error!("route to {destination} cannot be removed: {error}");
                self.retry_later(now);
            }
            _ => {}
        }
    }

    fn fail(&mut self, now: Time, destination: Prefix, error: &io::Error) {
        let reason = error.to_string();
        if self.failed.get(&destination) != Some(&reason) {
            match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    log::warn!("route to {destination} is not installed: another program's route with the same metric exists");
                }
                _ => log::warn!("route to {destination} is refused by the kernel: {error}"),
            }
            self.failed.insert(destination, reason);
        }
        self.retry_later(now);
    }

    fn retry_later(&mut self, now: Time) {
        if self.audit_due.is_none() {
            self.audit_due = Some(now + self.retry_interval);
            self.retry_interval = (self.retry_interval * 2).min(RETRY_INTERVAL_MAX);
        }
    }

    fn route(&self, destination: Prefix, path: Path) -> Route {
        Route {
            destination,
            table: self.settings.table,
            protocol: self.settings.protocol,
            metric: self.settings.metric_of(destination),
            path,
        }
    }
}

/// Returns whether a refused deletion means that the route is gone already, alone or together with its interface.
fn is_absence(error: &io::Error) -> bool {
    use rustix::io::Errno;
    error.raw_os_error().is_some_and(|code| {
        [Errno::SRCH, Errno::NOENT, Errno::NODEV]
            .map(Errno::raw_os_error)
            .contains(&code)
    })
}

#[cfg(test)]
mod tests;
