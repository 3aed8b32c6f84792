//! Messages that arrive: HELLOs and TCs, and copies of this router's own.

use core::net::IpAddr;

use nhdp::{jitter, Family, Hello, InterfaceId, Time};
use rfc5444::{iana, Message, PacketView, RawMessage};

use super::Router;
use crate::hello::HelloInfo;
use crate::instance::Instance;
use crate::signatures::Proof;
use crate::speakers::Way;
use crate::tc::Tc;

impl Router {
    pub(super) fn handle_messages(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        bytes: &[u8],
    ) {
        let Ok(packet) = PacketView::new(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        // One jitter for all messages of a packet keeps them together (RFC 5148, section 5.3).
        let due = now + jitter(self.config.timing.forward_jitter, &mut self.rng);
        for message in packet.messages() {
            let before = self.counters;
            let claimed = message.as_ref().ok().and_then(|raw| raw.header.originator);
            match message {
                Err(_) => self.counters.malformed += 1,
                Ok(message) if !self.admits(now, interface, source, &message) => {
                    self.counters.rate_limited += 1;
                }
                Ok(message) if message.header.typ == iana::message::HELLO => {
                    self.handle_hello(now, interface, source, &message);
                }
                Ok(message) => self.handle_flooded(now, interface, source, &message, due),
            }
            if let Some(claimed) = claimed {
                let (origin, after) = ((interface, source), &self.counters);
                self.refusals
                    .note_claim(now, origin, claimed, &before, after);
            }
        }
    }

    /// Returns whether a message is within the budgets of its source.
    fn admits(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        message: &RawMessage,
    ) -> bool {
        let instances = &self.instances;
        self.expected.begin();
        self.limiter.admit(
            now,
            (interface, source),
            message.header.typ == iana::message::HELLO,
            self.config.limits.messages_per_second,
            || is_neighbour(instances, interface, source),
        ) || self.is_expected(now, (interface, source), message)
    }

    fn handle_hello(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        raw: &RawMessage,
    ) {
        let Ok(message) = raw.decode() else {
            self.counters.malformed += 1;
            return;
        };
        let Ok(hello) = Hello::read(&message) else {
            self.counters.invalid += 1;
            return;
        };
        if self.is_echo(&message) {
            self.counters.spoofed += 1;
            return;
        }
        let (origin, way) = ((interface, source), Way::Direct(interface));
        let Some(author) = self.judge(now, origin, way, raw, Some(&message)) else {
            return;
        };
        let is_direct =
            Family::of(source) != hello.family || hello.this_interface.contains(&source);
        if author.proof().is_some() && !is_direct {
            // Its sender's interface has another address: somebody passes it on.
            self.counters.disbelieved += 1;
            return;
        }
        let Some(source) = hello_source(&hello, source) else {
            self.counters.invalid += 1;
            return;
        };
        let Ok(info) = HelloInfo::read(&message, &hello, source, author.proof()) else {
            self.counters.invalid += 1;
            return;
        };
        let implied = info.originator.filter(|_| hello.originator.is_none());
        if implied.is_some_and(|originator| !self.may_be_implied(now, originator)) {
            return;
        }
        if hello
            .local_addresses()
            .chain(info.originator)
            .any(|address| self.is_former_originator(now, address))
        {
            self.counters.invalid += 1;
            return;
        }
        let (instances, mut ctx) = self.parts(now);
        if let Some(instance) = instances
            .iter_mut()
            .find(|instance| instance.family == hello.family)
        {
            instance.process_hello(&mut ctx, interface, source, hello, &info);
        }
    }

    pub(super) fn is_former_originator(&self, now: Time, address: IpAddr) -> bool {
        let expires = self.old_originators.get(&address);
        expires.is_some_and(|expires| *expires > now)
    }

    pub(super) fn handle_own(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        originator: IpAddr,
        seq: u16,
        raw: &RawMessage,
    ) {
        let is_foreign = self.signing && self.is_twins(now, (interface, source), raw);
        if self.signing && !is_foreign {
            return;
        }
        let tc = Some(raw).filter(|raw| raw.header.typ == iana::message::TC);
        let ansn = tc.and_then(|raw| Some(Tc::read(&raw.decode().ok()?).ok()??.ansn));
        let (instances, mut ctx) = self.parts(now);
        if let Some(instance) = instances
            .iter_mut()
            .find(|instance| instance.originator == originator)
        {
            instance.own_message_heard(&mut ctx, interface, source, seq, ansn, is_foreign);
        }
    }

    pub(super) fn handle_tc(
        &mut self,
        now: Time,
        source: IpAddr,
        message: &Message,
        proof: Option<Proof>,
    ) {
        let tc = match Tc::read(message) {
            Ok(Some(tc)) => Tc { proof, ..tc },
            Ok(None) => return,
            Err(_) => {
                self.counters.invalid += 1;
                return;
            }
        };
        let (instances, mut ctx) = self.parts(now);
        let family = Family::of(tc.originator);
        if let Some(instance) = instances
            .iter_mut()
            .find(|instance| instance.family == family)
        {
            instance.process_tc(&mut ctx, tc, source);
        }
    }
}

/// The address to send to when answering a HELLO. A HELLO in a packet of the
/// other family names it itself.
fn hello_source(hello: &Hello, source: IpAddr) -> Option<IpAddr> {
    if Family::of(source) == hello.family {
        Some(source)
    } else {
        hello.this_interface.first().copied()
    }
}

/// Returns whether there is a symmetric link to the interface that sends from `source`.
pub(super) fn is_neighbour(instances: &[Instance], interface: InterfaceId, source: IpAddr) -> bool {
    let family = Family::of(source);
    let instance = instances.iter().find(|instance| instance.family == family);
    instance.is_some_and(|instance| instance.is_flooding_selector(interface, source).is_some())
}
