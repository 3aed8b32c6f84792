//! Interfaces that are up, and the packets that wait on them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use nhdp::{Family, InterfaceId, Time};

use super::{Router, MAX_INTERFACES};
use crate::event::Transmit;
use crate::outbox::Outbox;

/// An interface that is up.
#[derive(Debug)]
pub(super) struct Interface {
    /// Its bit in the received sets.
    pub(super) slot: u32,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) outboxes: BTreeMap<Family, Outbox>,
    /// The sequence number of the last packet.
    pub(super) packet_seq: u16,
}

impl Router {
    pub(super) fn interface_addresses(&self) -> Vec<(InterfaceId, Vec<IpAddr>)> {
        let interfaces = self.interfaces.iter();
        interfaces
            .map(|(id, own)| (*id, own.addresses.clone()))
            .collect()
    }

    pub(super) fn set_interface(&mut self, now: Time, id: InterfaceId, addresses: Vec<IpAddr>) {
        let Some(slot) = self.slot_for(id) else {
            self.counters.over_limit += 1;
            return;
        };
        let (instances, mut ctx) = self.parts(now);
        for instance in instances {
            instance.set_interface(&mut ctx, id, &addresses);
        }
        let packet_seq = self.rng.u16(..);
        let new = Interface {
            slot,
            addresses: Vec::new(),
            outboxes: BTreeMap::new(),
            packet_seq,
        };
        self.interfaces.entry(id).or_insert(new).addresses = addresses;
    }

    /// The slot of an interface, or the lowest free one.
    fn slot_for(&self, id: InterfaceId) -> Option<u32> {
        if let Some(interface) = self.interfaces.get(&id) {
            return Some(interface.slot);
        }
        let is_free = |slot: &u32| {
            self.interfaces
                .values()
                .all(|interface| interface.slot != *slot)
        };
        (0..MAX_INTERFACES).find(is_free)
    }

    pub(super) fn remove_interface(&mut self, now: Time, id: InterfaceId) {
        self.interfaces.remove(&id);
        self.speakers.forget_interface(id);
        self.limiter.forget_interface(id);
        self.expected.forget_interface(id);
        self.own_tokens.forget_interface(id);
        let (instances, mut ctx) = self.parts(now);
        for instance in instances {
            instance.remove_interface(&mut ctx, id);
        }
    }

    pub(super) fn push(
        &mut self,
        id: InterfaceId,
        family: Family,
        message: Vec<u8>,
        now: Time,
        due: Time,
    ) {
        if let Some(interface) = self.interfaces.get_mut(&id) {
            interface
                .outboxes
                .entry(family)
                .or_default()
                .push(message, now, due);
        }
    }

    pub(super) fn transmit_due(&mut self, now: Time) {
        for (id, interface) in &mut self.interfaces {
            let Interface {
                outboxes,
                packet_seq,
                ..
            } = interface;
            for (family, outbox) in outboxes {
                for bytes in outbox.take_due(now, self.config.packet_size, packet_seq) {
                    self.counters.packets_sent += 1;
                    self.counters.octets_sent += bytes.len() as u64;
                    self.transmits.push_back(Transmit {
                        interface: *id,
                        family: *family,
                        bytes,
                    });
                }
            }
        }
    }
}
