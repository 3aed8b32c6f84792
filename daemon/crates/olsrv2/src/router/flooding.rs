//! Flooding of messages over all hops (RFC 7181, section 14).

use alloc::vec::Vec;
use core::net::IpAddr;

use icv::Claim;
use nhdp::{Family, InterfaceId, Time};
use rfc5444::{forward_copy, iana, last_hop_copy, Message, MessageHeader, RawMessage};

use super::input::is_neighbour;
use super::Router;
use crate::duplicate::{MessageKey, Sender};
use crate::instance::Instance;
use crate::signatures::Signatures;
use crate::speakers::Way;

/// Returns whether a message claims a signature.
fn is_signed(message: &Message) -> bool {
    Claim::read(&message.tlvs) != Ok(None)
}

impl Router {
    /// Handles a message that may be forwarded at `due` (RFC 7181, section 14).
    pub(super) fn handle_flooded(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        raw: &RawMessage,
        due: Time,
    ) {
        let MessageHeader {
            typ,
            originator: Some(originator),
            seq: Some(seq),
            ..
        } = raw.header
        else {
            self.counters.invalid += 1;
            return;
        };
        if self
            .instances
            .iter()
            .any(|instance| instance.originator == originator)
        {
            return self.handle_own(now, interface, source, originator, seq, raw);
        }
        if self.is_former_originator(now, originator) {
            return;
        }
        let mut instances = self.instances.iter();
        if instances.any(|instance| instance.owns(&self.config, originator)) {
            self.counters.invalid += 1;
            self.counters.spoofed += 1;
            return;
        }
        let is_neighbour = is_neighbour(&self.instances, interface, source);
        let sender = (interface, is_neighbour.then_some(source));
        let key = MessageKey {
            originator,
            seq,
            typ,
            digest: self.digest(raw),
        };
        if self.duplicates.is_processed(now, &key) {
            self.counters.duplicates += 1;
            let instances = self.instances.iter_mut();
            instances
                .for_each(|instance| instance.topology.heard_again(now, originator, seq, source));
        } else if !self.process_flooded(now, interface, source, originator, raw, due) {
            return;
        } else {
            let (hold, limit) = (
                self.config.timing.duplicate_hold_time,
                self.config.limits.duplicates,
            );
            let seen = self.duplicates.entry(now, key, sender, hold, limit);
            seen.processed = true;
        }
        // Only messages that may be forwarded count as received or forwarded (RFC 7181, section 14.1).
        if let Some((copy, limit)) = forward_copy(raw.octets).zip(raw.header.hop_limit) {
            if self.may_forward(now, source, key, sender, limit) {
                self.forward(now, raw, copy, due);
            }
        }
    }

    /// Processes a new message, unless somebody else than its originator has sent it. Returns whether it may be
    /// forwarded.
    fn process_flooded(
        &mut self,
        now: Time,
        interface: InterfaceId,
        source: IpAddr,
        originator: IpAddr,
        raw: &RawMessage,
        due: Time,
    ) -> bool {
        let (message, origin) = (raw.decode(), (interface, source));
        let author = self.judge(now, origin, Way::Flooded, raw, message.as_ref().ok());
        let Some(author) = author else {
            return false;
        };
        let proof = author.proof();
        if proof.is_none() && self.is_disbelieved(now, originator, source, raw) {
            self.counters.disbelieved += 1;
            self.show_originator(now, originator, raw, due);
            return false;
        }
        let is_signed = message.as_ref().is_ok_and(is_signed);
        if proof.is_none() && !is_signed {
            let limit = self.config.limits.nodes;
            self.speakers.heard_unsigned(now, originator, limit);
        }
        if raw.header.typ == iana::message::TC {
            match message {
                Ok(message) => self.handle_tc(now, source, &message, proof),
                Err(_) => self.counters.malformed += 1,
            }
        }
        true
    }

    /// Returns whether a message contradicts its claimed originator, which no signature proves (docs/development/adr/0050).
    fn is_disbelieved(
        &self,
        now: Time,
        originator: IpAddr,
        source: IpAddr,
        raw: &RawMessage,
    ) -> bool {
        let any = |is: &dyn Fn(&Instance) -> bool| self.instances.iter().any(is);
        let is_neighbour = any(&|one| one.is_neighbour(originator));
        // olsrd2, but not olsrv2d, sends the TCs of both families in one packet, and names the other family's
        // originator.
        let of_olsrd2 = || !any(&|one| one.topology.advertises_all(originator));
        let first_hand = any(&|one| one.is_from(originator, source, false))
            || any(&|one| one.is_from(originator, source, true)) && of_olsrd2();
        let last_hop = raw.header.hop_limit.is_none_or(|limit| limit <= 1);
        let relayed = || !last_hop && any(&|one| one.is_heard_by(originator, source));
        let contested = || any(&|one| one.topology.is_contested(now, originator, source));
        !first_hand && (is_neighbour && !relayed() || last_hop || contested())
    }

    /// Sends a disbelieved message to its alleged originator, a neighbour, which then raises its numbers. With a hop
    /// limit of 1, nobody else believes it.
    fn show_originator(&mut self, now: Time, originator: IpAddr, raw: &RawMessage, due: Time) {
        let mut instances = self.instances.iter_mut();
        if instances.any(|one| one.is_neighbour(originator) && one.shows.start(now)) {
            if let Some(copy) = last_hop_copy(raw.octets) {
                self.forward(now, raw, copy, due);
            }
        }
    }

    /// Hashes what makes a message the same as another. Everybody can change the rest, without any key, and a changed
    /// copy must not stand in the way of the true one.
    fn digest(&self, raw: &RawMessage) -> u64 {
        let hash = |octets: &mut dyn Iterator<Item = u8>| {
            octets.fold(self.digest_key, |digest, octet| {
                let mixed = (digest ^ u64::from(octet)).wrapping_mul(self.digest_key);
                mixed.rotate_left(29)
            })
        };
        let is_looked_at = self.config.signatures != Signatures::Off;
        let tlvs = is_looked_at.then(|| raw.message_tlvs());
        let claim = tlvs.map(|tlvs| Claim::read(&tlvs.unwrap_or_default()));
        let Some(Ok(Some(claim))) = claim else {
            return hash(&mut raw.lasting_octets());
        };
        match claim.essence(raw.octets) {
            Ok(essence) => hash(&mut essence.into_iter()),
            Err(_) => hash(&mut raw.lasting_octets()),
        }
    }

    /// Returns whether to forward a copy of a message now, and records the answer in the sets (RFC 7181, section 14.3).
    ///
    /// The link is that of the IP source. In a dual-stack packet it may have another family than the message. Whoever
    /// lowers the hop limit of a copy, and sends it first, stops nothing: one that may go more than twice as far is
    /// forwarded again, at most six times.
    fn may_forward(
        &mut self,
        now: Time,
        source: IpAddr,
        key: MessageKey,
        sender: Sender,
        hop_limit: u8,
    ) -> bool {
        let interface = sender.0;
        let transport = Family::of(source);
        let instance = self
            .instances
            .iter()
            .find(|instance| instance.family == transport);
        let Some(selector) =
            instance.and_then(|instance| instance.is_flooding_selector(interface, source))
        else {
            return false;
        };
        let Some(slot) = self
            .interfaces
            .get(&interface)
            .map(|interface| interface.slot)
        else {
            return false;
        };
        let (hold, limit) = (
            self.config.timing.duplicate_hold_time,
            self.config.limits.duplicates,
        );
        let seen = self.duplicates.entry(now, key, sender, hold, limit);
        let received = seen.received & (1 << slot) != 0;
        seen.received |= 1 << slot;
        let is_better = match seen.forwarded {
            0 => !received,
            before => u16::from(hop_limit) > 2 * u16::from(before),
        };
        if selector && is_better {
            seen.forwarded = hop_limit;
        }
        selector && is_better
    }

    /// Queues a copy of a message on all interfaces of its family.
    fn forward(&mut self, now: Time, raw: &RawMessage, copy: Vec<u8>, due: Time) {
        let family = if raw.header.addr_len == Family::V4.address_length() {
            Family::V4
        } else {
            Family::V6
        };
        for id in self.interfaces_of(family) {
            self.counters.forwarded += 1;
            self.push(id, family, copy.clone(), now, due);
        }
    }

    pub(super) fn interfaces_of(&self, family: Family) -> Vec<InterfaceId> {
        let instance = self
            .instances
            .iter()
            .find(|instance| instance.family == family);
        instance
            .into_iter()
            .flat_map(Instance::interfaces)
            .collect()
    }
}
