//! Messages that use an address of this router or of another one.

use core::net::IpAddr;

use icv::{is_hash, is_hash_of};
use nhdp::{Hello, InterfaceId, NeighbourId};
use rfc5444::Prefix;

use super::{Context, Instance};
use crate::config::Config;
use crate::event::Event;
use crate::extension::OlsrNeighbour;
use crate::hello::HelloInfo;
use crate::own_seqno::OwnMessage;
use crate::signatures::Signatures;
use crate::speakers::Speakers;

impl Instance {
    /// Returns whether a HELLO from `source` claims addresses of a symmetric neighbour that has not announced `source`,
    /// or takes its link. A router announces all its addresses on each interface (RFC 6130, section 11.1).
    pub(super) fn is_of_another(
        &self,
        speakers: &Speakers,
        source: IpAddr,
        hello: &Hello,
        info: &HelloInfo,
    ) -> bool {
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
            neighbour.symmetric
                && (claims(neighbour) && !self.speaks_for(id, neighbour, source)
                    || neighbour.ext.signed
                        && info.originator != neighbour.ext.originator
                        && self.overlaps(id, neighbour, source, hello)
                        && !self.may_follow(speakers, neighbour, info))
        })
    }

    /// Returns whether NHDP would merge a HELLO with a neighbour, whose link would be the sender's then (RFC 6130, section
    /// 12.3). An originator among the other addresses does not count, because it is removed.
    fn overlaps(
        &self,
        id: NeighbourId,
        neighbour: &OlsrNeighbour,
        source: IpAddr,
        hello: &Hello,
    ) -> bool {
        let others = hello.other_interfaces.iter();
        let mut others = others.filter(|address| neighbour.ext.originator != Some(**address));
        let mut own = hello.this_interface.iter();
        self.speaks_for(id, neighbour, source)
            || own.any(|address| neighbour.addresses.contains(address))
            || others.any(|address| neighbour.addresses.contains(address))
    }

    /// Returns whether the sender of a HELLO may take over the link of a neighbour that signs. Link-local addresses prove
    /// nothing, so who has one first keeps it, except that a card ranks above none, and that a router says which is its
    /// next key (docs/development/adr/0041).
    fn may_follow(&self, speakers: &Speakers, neighbour: &OlsrNeighbour, info: &HelloInfo) -> bool {
        let pair = info.originator.zip(neighbour.ext.originator);
        pair.is_some_and(|(originator, present)| {
            let is_next = self.topology.attaches(present, Prefix::host(originator));
            let ranks_above = speakers.is_trusted(originator) && !speakers.is_trusted(present);
            info.is_signed() && (is_next || ranks_above)
        })
    }

    /// Removes other routers' addresses from those that a HELLO claims for its sender: their originators, and what other
    /// keys speak for. Returns how many.
    pub(super) fn strip_foreign(&self, ctx: &Context, hello: &mut Hello, info: &HelloInfo) -> u64 {
        let before = hello.local_addresses().count();
        let neighbours = || self.nhdp.neighbours().filter(|(_, one)| one.symmetric);
        let is_own = |address: &IpAddr| {
            let neighbours = &mut neighbours();
            info.originator == Some(*address)
                || !self.topology.contains(*address)
                    && !neighbours.any(|(_, one)| one.ext.originator == Some(*address))
                    && may_claim(ctx, info, *address)
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

    /// Handles a message with this router's originator; `ansn` is set if it is a TC, and `is_foreign` if its signature
    /// shows that this router has not sent it.
    pub(crate) fn own_message_heard(
        &mut self,
        ctx: &mut Context,
        interface: InterfaceId,
        source: IpAddr,
        seq: u16,
        ansn: Option<u16>,
        is_foreign: bool,
    ) {
        let judgement = self.own.judge(ctx.now, seq, ansn, is_foreign);
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

/// Returns whether an address that is not the originator may be the sender's, as far as keys say: its own key's where it
/// signs, and none that signs where it does not.
fn may_claim(ctx: &Context, info: &HelloInfo, address: IpAddr) -> bool {
    if ctx.config.signatures == Signatures::Off {
        return true;
    }
    let signer = info.originator.filter(|_| info.is_signed());
    match (signer.and_then(|signer| ctx.speakers.key(signer)), address) {
        (None, _) => !ctx.speakers.must_sign(ctx.now, address),
        (Some(key), IpAddr::V6(host)) if is_hash(address) => is_hash_of(host, key),
        (Some(key), _) => !ctx.speakers.is_of_other(ctx.now, address, key),
    }
}
