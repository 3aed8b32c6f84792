//! Messages that use an address of this router or of another one.

use core::net::IpAddr;

use nhdp::{Hello, InterfaceId};
use rfc5444::Prefix;

use super::{Context, Instance};
use crate::config::Config;
use crate::event::Event;
use crate::extension::OlsrNeighbour;
use crate::hello::HelloInfo;
use crate::own_seqno::OwnMessage;

impl Instance {
    /// Returns whether a HELLO from `source` claims addresses of a symmetric neighbour that has not announced `source`.
    /// A router announces all its addresses on each interface (RFC 6130, section 11.1).
    pub(super) fn is_of_another(&self, source: IpAddr, hello: &Hello, info: &HelloInfo) -> bool {
        let originator = info.originator;
        let claims = |neighbour: &OlsrNeighbour| {
            let same = originator.is_some() && neighbour.ext.originator == originator;
            if same && info.is_signed() && !neighbour.ext.signed {
                // The unsigned one is the impostor.
                return false;
            }
            let mut addresses = hello.local_addresses();
            same || addresses.any(|address| {
                let theirs = neighbour.ext.originator == Some(address);
                !theirs && neighbour.addresses.contains(&address)
            })
        };
        self.nhdp.neighbours().any(|(id, neighbour)| {
            neighbour.symmetric && claims(neighbour) && !self.speaks_for(id, neighbour, source)
        })
    }

    /// Removes other routers' originators from the addresses that a HELLO claims for its sender. Returns how many.
    pub(super) fn strip_foreign_originators(
        &self,
        hello: &mut Hello,
        originator: Option<IpAddr>,
    ) -> u64 {
        let before = hello.local_addresses().count();
        let neighbours = || self.nhdp.neighbours().filter(|(_, one)| one.symmetric);
        let is_own = |address: &IpAddr| {
            let neighbours = &mut neighbours();
            originator == Some(*address)
                || !self.topology.contains(*address)
                    && !neighbours.any(|(_, one)| one.ext.originator == Some(*address))
        };
        hello.this_interface.retain(is_own);
        hello.other_interfaces.retain(is_own);
        (before - hello.local_addresses().count()) as u64
    }

    /// Whether an address is partially owned by this router, former originators aside (RFC 7181, section 12.2).
    pub(crate) fn owns(&self, config: &Config, address: IpAddr) -> bool {
        let host = Prefix::host(address);
        let mut attached = config.attached.iter();
        address == self.originator
            || self.nhdp.is_own(address)
            || attached.any(|network| network.prefix.canonical() == host)
    }

    pub(super) fn own_address_used(
        &mut self,
        ctx: &mut Context,
        interface: InterfaceId,
        source: IpAddr,
        originator: Option<IpAddr>,
    ) {
        ctx.counters.invalid += 1;
        ctx.counters.spoofed += u64::from(!self.nhdp.is_local(source));
        let foreign = originator == Some(self.originator) && !self.nhdp.is_local(source);
        if foreign && self.own.reactions.start(ctx.now) {
            let originator = self.originator;
            ctx.events.push_back(Event::DuplicateOriginator {
                originator,
                interface,
                source,
            });
        }
    }

    /// Handles a message with this router's originator; `ansn` is set if it is a TC.
    pub(crate) fn own_message_heard(
        &mut self,
        ctx: &mut Context,
        interface: InterfaceId,
        source: IpAddr,
        seq: u16,
        ansn: Option<u16>,
    ) {
        let judgement = self.own.judge(ctx.now, seq, ansn);
        if judgement == OwnMessage::Duplicate {
            ctx.counters.spoofed += 1;
            let originator = self.originator;
            ctx.events.push_back(Event::DuplicateOriginator {
                originator,
                interface,
                source,
            });
        }
        if matches!(judgement, OwnMessage::Duplicate | OwnMessage::Predecessor) {
            self.trigger_tc(ctx);
        }
    }
}
