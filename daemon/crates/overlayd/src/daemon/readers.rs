//! Readers of the control socket, and the admin API.

use daemonkit::{now, Time};
use overlay_node::Admission;

use super::Daemon;
use crate::admin::{Admin, View};
use crate::commands::{Gathered, Kind, Portion, Said};
use crate::control;

impl Daemon {
    pub(super) fn accept_reader(&mut self) {
        let status = self.status();
        if let Some(control) = &mut self.control {
            if let Err(error) = control.accept(&self.reactor, &status) {
                log::warn!("control socket: {error}");
            }
        }
    }

    pub(super) fn serve_reader(&mut self, number: u32) {
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

    pub(super) fn answer_reader(&mut self, number: u32, answer: &serde_json::Value) {
        if let Some(control) = &mut self.control {
            control.answer(number, &self.reactor, answer);
        }
    }

    /// Carries out a portion of a command. Returns how many nodes the command names so far, or why it is refused.
    pub(super) fn carry_out(&mut self, number: u32, portion: Portion) -> Result<usize, String> {
        if let Some(control) = &self.control {
            control.may_command(number)?;
        }
        if !self.permits_by_control {
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

    pub(super) fn serve_admin(&mut self) {
        let now = now();
        self.with_admin(now, Admin::serve);
        self.drain(now);
    }

    pub(super) fn with_admin(&mut self, now: Time, act: impl FnOnce(&mut Admin, &mut View<'_>)) {
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

    pub(super) fn status(&self) -> serde_json::Value {
        let tun = self.tun.as_ref();
        let mut status =
            control::status(now(), &self.node, self.permits_by_control, &self.ports, tun);
        status["admin"] = self.admin.as_ref().map(control::api).into();
        status
    }
}
