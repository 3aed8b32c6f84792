//! The audit: comparing the kernel's routes with those wanted.

use std::collections::BTreeSet;
use std::io;

use olsrv2::{Prefix, Time};

use super::{Fib, Kernel};
use crate::netlink::{Path, Route};

impl Fib {
    pub(super) fn audit(&mut self, kernel: &mut impl Kernel, now: Time) -> Vec<Prefix> {
        let before: Vec<(Prefix, bool)> = self
            .wanted
            .keys()
            .map(|key| (*key, self.is_settled(key)))
            .collect();
        if let Err(error) = self.refresh(kernel) {
            log::error!("the kernel's routes cannot be listed: {error}");
            self.retry_later(now);
            return Vec::new();
        }
        self.repair(kernel, now);
        if self.settles.is_none() {
            for destination in self.unwanted() {
                self.withdraw(kernel, now, destination);
            }
        }
        before
            .into_iter()
            .filter(|(key, was)| self.is_settled(key) != *was)
            .map(|(key, _)| key)
            .collect()
    }

    /// Restores every wanted route that is missing in the kernel or differs there.
    pub(super) fn repair(&mut self, kernel: &mut impl Kernel, now: Time) {
        let wanted: Vec<(Prefix, Path)> = self
            .wanted
            .iter()
            .map(|(key, path)| (*key, *path))
            .collect();
        for (destination, path) in wanted {
            if self.is_settled(&destination) {
                continue;
            }
            let known_failure = self.failed.contains_key(&destination);
            if self.install(kernel, now, destination, path) && !known_failure {
                self.repaired += 1;
                log::warn!("route to {destination} was missing or changed and is restored");
            }
        }
        self.usurped.clear();
    }

    /// Lists our routes in the kernel.
    pub(super) fn refresh(&mut self, kernel: &mut impl Kernel) -> io::Result<()> {
        let routes = kernel.list(self.settings)?;
        self.present.clear();
        for route in routes {
            self.present
                .entry(route.destination)
                .or_default()
                .insert(route.path);
        }
        Ok(())
    }

    pub(super) fn unwanted(&self) -> Vec<Prefix> {
        self.present
            .keys()
            .filter(|key| !self.wanted.contains_key(key))
            .copied()
            .collect()
    }

    /// Returns whether the kernel has exactly the wanted route.
    pub(super) fn is_settled(&self, destination: &Prefix) -> bool {
        match (self.wanted.get(destination), self.present.get(destination)) {
            (Some(path), Some(paths)) => paths.len() == 1 && paths.contains(path),
            (wanted, present) => wanted.is_none() && present.is_none_or(BTreeSet::is_empty),
        }
    }

    /// Returns whether a route is one of this router's, or stands in the place of one.
    pub(super) fn concerns(&self, route: &Route) -> bool {
        let ours = route.protocol == self.settings.protocol
            || self.wanted.contains_key(&route.destination);
        ours && self.settings.is_place_of_ours(route)
    }
}
