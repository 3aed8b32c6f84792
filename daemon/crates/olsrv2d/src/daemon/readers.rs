//! Readers of the text interface and of the change stream.

use std::net::IpAddr;

use olsrv2::{InterfaceId, Time};
use serde_json::{json, Map};

use super::Daemon;
use crate::management::change_lines::{DaemonCounters, Object};
use crate::management::changes::Request;
use crate::management::refusals::refusals;
use crate::management::state::State;
use crate::management::text::{Query, Telnet};
use crate::manet::name;
use crate::reactor::Token;

impl Daemon {
    pub(super) fn publish(&mut self, now: Time, object: &Object, is_set: bool) {
        if let Some(changes) = &mut self.changes {
            changes.publish(&self.reactor, now, object, is_set, self.manet.names());
        }
    }

    pub(super) fn report_duplicate(
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

    pub(super) fn serve_due_texts(&mut self, now: Time) {
        let is_due = |due: Option<Time>| due.is_some_and(|due| due <= now);
        if is_due(self.telnet.as_ref().and_then(Telnet::poll_timeout)) {
            self.serve_text(Token::Telnet, now);
        }
        if is_due(self.query.as_ref().and_then(Query::poll_timeout)) {
            self.serve_text(Token::Query, now);
        }
    }

    pub(super) fn serve_text(&mut self, token: Token, now: Time) {
        let Self {
            telnet,
            query,
            reactor,
            router,
            radio,
            fib,
            config,
            manet,
            signer,
            ..
        } = self;
        let observe = || {
            State::observe(
                now,
                router,
                radio.as_ref(),
                fib,
                config,
                manet,
                signer.as_ref(),
            )
        };
        match (token, telnet, query) {
            (Token::Telnet, Some(telnet), _) => telnet.serve(reactor, daemonkit::now, observe),
            (Token::Query, _, Some(query)) => query.serve(reactor, daemonkit::now, observe),
            _ => {}
        }
    }

    /// Carries out the requests of a reader of the change stream.
    pub(super) fn serve_reader(&mut self, number: u32, now: Time) {
        let Some(changes) = &mut self.changes else {
            return;
        };
        for request in changes.serve(number, &self.reactor) {
            if let Err(reason) = self.carry_out_request(number, now, request) {
                if let Some(changes) = &mut self.changes {
                    changes.refuse(&self.reactor, number, &reason);
                }
            }
        }
    }

    fn carry_out_request(
        &mut self,
        number: u32,
        now: Time,
        request: Request,
    ) -> Result<(), String> {
        match request {
            Request::Trust(addresses) => self.router.set_trusted(addresses),
            Request::Keys(keys) => self.router.set_trusted_keys(keys),
            Request::Refusals => self.report_refusals(number, now),
            Request::Counters => self.report_counters(number, now),
            Request::Attach(networks) => {
                self.attachments.attach(&networks)?;
                self.announce(now);
            }
            Request::Withdraw(prefixes) => {
                let configured = &self.config.attached;
                self.attachments.withdraw(&prefixes, configured)?;
                self.announce(now);
            }
        }
        Ok(())
    }

    fn report_refusals(&mut self, number: u32, now: Time) {
        if let Some(changes) = &mut self.changes {
            let names = self.manet.names();
            let reported = refusals(&self.router.refusals(now), now, names);
            changes.publish_refusals(&self.reactor, number, now, reported);
        }
    }

    fn report_counters(&mut self, number: u32, now: Time) {
        let counted = self.counted();
        if let Some(changes) = &mut self.changes {
            changes.publish_counters(&self.reactor, number, now, &self.router.counters(), counted);
        }
    }

    fn counted(&self) -> DaemonCounters {
        DaemonCounters {
            routes_repaired: self.fib.repaired(),
            routes_failed: self.fib.failed() as u64,
            send_errors: self.send_errors,
        }
    }

    /// Announces the networks of the configuration file and those of programs, and publishes what changed.
    pub(super) fn announce(&mut self, now: Time) {
        let before = self.router.config().attached.clone();
        let wanted = self.attachments.over(&self.config.attached);
        self.router.set_attached(now, wanted.clone());
        self.drain(now);
        for gone in before.iter().filter(|one| {
            let mut prefixes = wanted.iter().map(|other| other.prefix);
            !prefixes.any(|prefix| prefix == one.prefix)
        }) {
            self.publish(now, &Object::LocalAttached(gone, false), false);
        }
        for set in wanted.iter().filter(|one| !before.contains(one)) {
            let configured = self.config.attached.contains(set);
            self.publish(now, &Object::LocalAttached(set, configured), true);
        }
    }

    pub(super) fn accept_reader(&mut self, now: Time) {
        // Changes that are already decided are sent before the snapshot.
        self.drain(now);
        let counted = self.counted();
        let Self {
            changes,
            reactor,
            router,
            radio,
            fib,
            config,
            manet,
            signer,
            ..
        } = self;
        if let Some(changes) = changes {
            let state = State::observe(
                now,
                router,
                radio.as_ref(),
                fib,
                config,
                manet,
                signer.as_ref(),
            );
            if let Err(error) = changes.accept(reactor, &state, counted) {
                log::warn!("a reader of the change stream is refused: {error}");
            }
        }
    }
}
