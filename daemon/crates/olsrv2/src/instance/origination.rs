//! The HELLOs and TCs that this router originates.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use nhdp::{jitter, Family, InterfaceId, Piece, Time};
use rfc5444::iana::willingness;
use rfc5444::Message;

use super::timing::tc_pace;
use super::{Context, Instance};
use crate::address::is_routable;
use crate::config::{Config, HelloTiming};
use crate::extension::{neighbour_metrics, newest_counter, OlsrNeighbour};
use crate::hello::{decorate, mac_tlv, willingness_tlv};
use crate::own_seqno::OwnNumbers;
use crate::tc::{AttachedNetwork, Content, NeighbourAddress};

/// The shortest time between two TCs that only serve newcomers.
const NEWCOMER_INTERVAL: Duration = Duration::from_secs(1);
/// The RFC 5444 packet header with a sequence number.
const PACKET_OVERHEAD: usize = 3;

impl Instance {
    /// The HELLO that is due on an interface, encoded.
    pub(crate) fn due_hello(
        &mut self,
        ctx: &mut Context,
        interface: InterfaceId,
    ) -> Option<Vec<u8>> {
        let schedule = self.hellos.get(&interface)?;
        if schedule.timer.next() > ctx.now {
            return None;
        }
        let hello = self.hello(ctx, interface);
        let once = self.nhdp.heard_once();
        let schedule = self.hellos.get_mut(&interface)?;
        let pace = ctx.hello_pace(interface);
        schedule.timer.sent(ctx.now, &pace, ctx.rng);
        let (limit, max_pieces) = (message_limit(ctx), pace.messages_per_interval());
        let piece = schedule
            .refresh
            .encode(ctx.now, hello, &once, limit, max_pieces)?;
        let Piece { octets, pieces } = piece;
        if pieces > 1 {
            let share = (pace.interval - pace.periodic_jitter) / (pieces as u32);
            schedule.timer.plan(ctx.now + share);
        }
        ctx.counters.hellos_sent += 1;
        Some(octets)
    }

    pub(super) fn hello(&self, ctx: &Context, interface: InterfaceId) -> Message {
        let HelloTiming { interval, validity } = ctx.hello_timing(interface);
        let (nhdp, metric) = (&self.nhdp, ctx.config.link_metric);
        let mut hello = nhdp.hello(
            interface,
            self.family,
            interval,
            validity,
            |link, neighbour, entry| decorate(nhdp, metric, link, neighbour, entry),
        );
        hello.originator = Some(self.originator);
        hello.tlvs.push(willingness_tlv(ctx.config));
        let mac = ctx.hardware_addresses.get(&interface);
        hello.tlvs.extend(mac.map(|mac| mac_tlv(*mac)));
        hello
    }

    /// The TC messages that are due (RFC 7181, section 16.2); none when there is nothing to advertise.
    pub(crate) fn due_tc(&mut self, ctx: &mut Context) -> Vec<Vec<u8>> {
        if self.tc_timer.next() > ctx.now || self.hellos.is_empty() {
            return Vec::new();
        }
        let content = self.content(ctx);
        if content != self.advertised {
            self.own.raise_ansn();
            self.advertised = content;
        }
        if !self.advertised.is_empty() {
            self.empty_tcs_until = ctx.now + ctx.config.timing.tc_validity;
        } else if ctx.now >= self.empty_tcs_until {
            self.tc_timer.skip(ctx.now, &tc_pace(ctx.config), ctx.rng);
            return Vec::new();
        }
        self.tc_timer.sent(ctx.now, &tc_pace(ctx.config), ctx.rng);
        ctx.counters.tcs_sent += 1;
        self.encode_tc(ctx)
    }

    /// What a TC has to advertise (RFC 7181, sections 16.1 and 17.3): all
    /// neighbours if that is wanted and fits into a packet, or selectors alone.
    pub(super) fn content(&self, ctx: &Context) -> Content {
        let config = ctx.config;
        // Neighbours expect a router that advertises them to forward to them.
        let willing = config.routing_willingness != willingness::NEVER;
        if config.advertise_all && willing {
            let mut content = self.content_of(config, |_| true);
            content.all = true;
            if content.fits(self.originator, message_limit(ctx)) {
                return content;
            }
        }
        self.content_of(config, |neighbour| neighbour.ext.selector)
    }

    fn content_of(&self, config: &Config, advertised: impl Fn(&OlsrNeighbour) -> bool) -> Content {
        let mut content = Content::default();
        for (id, neighbour) in self
            .symmetric_neighbours()
            .filter(|(_, neighbour)| advertised(neighbour))
        {
            let metrics = neighbour_metrics(&self.nhdp, id, config.link_metric);
            if let Some(metric) = metrics.metric_out {
                let addresses = neighbour.addresses.iter().chain(&neighbour.ext.originator);
                content.neighbours.extend(addresses.filter_map(|address| {
                    let originator = neighbour.ext.originator == Some(*address);
                    let routable = is_routable(*address);
                    (originator || routable).then_some((
                        *address,
                        NeighbourAddress {
                            originator,
                            routable,
                            metric,
                            metric_in: metrics.metric_in,
                        },
                    ))
                }));
            }
        }
        let attached = config
            .attached
            .iter()
            .filter(|attached| Family::of(attached.prefix.addr) == self.family);
        content.attached.extend(attached.map(|attached| {
            let network = AttachedNetwork {
                distance: attached.distance,
                metric: attached.metric,
            };
            (attached.prefix.canonical(), network)
        }));
        content
    }

    fn encode_tc(&mut self, ctx: &Context) -> Vec<Vec<u8>> {
        let times = [ctx.config.timing.tc_interval, ctx.config.timing.tc_validity];
        let ansn = self.own.ansn();
        let counters = self.neighbour_counters();
        let counter = |originator: IpAddr| counters.get(&originator).copied();
        let (own, limit) = (&mut self.own, message_limit(ctx));
        let next_seq = || own.next_seq();
        let messages =
            self.advertised
                .encode(self.originator, ansn, times, limit, counter, next_seq);
        // A TC fails to encode only when it exceeds 64 KiB, and those are cut to a packet's size.
        messages.unwrap_or_default()
    }

    /// The counters of the newest HELLOs of the neighbours that sign, by originator.
    fn neighbour_counters(&self) -> BTreeMap<IpAddr, u64> {
        let counters = self.symmetric_neighbours().filter_map(|(id, neighbour)| {
            Some((neighbour.ext.originator?, newest_counter(&self.nhdp, id)?))
        });
        counters.collect()
    }

    /// Applies a changed local attached network set. A network of this router's own needs no route to another's.
    pub(crate) fn attached_changed(&mut self, ctx: &mut Context) {
        self.dirty = true;
        self.trigger_tc(ctx);
    }

    /// Triggers HELLOs on those interfaces to which the change matters (RFC 6130, section 13).
    pub(super) fn trigger_hellos(
        &mut self,
        ctx: &mut Context,
        matters: impl Fn(InterfaceId) -> bool,
    ) {
        for (interface, schedule) in &mut self.hellos {
            if matters(*interface) {
                let pace = ctx.hello_pace(*interface);
                schedule.timer.trigger(ctx.now, &pace, ctx.rng);
            }
        }
    }

    pub(super) fn trigger_tc(&mut self, ctx: &mut Context) {
        self.tc_timer
            .trigger(ctx.now, &tc_pace(ctx.config), ctx.rng);
    }

    /// Sends the own TC again so that a router that has just appeared need not
    /// wait for the next one. The delay lets MPR selection settle first.
    pub(super) fn serve_newcomers(&mut self, ctx: &mut Context) {
        let settling = 2 * ctx.config.timing.hello_min_interval;
        let wanted = ctx.now + settling + jitter(settling, ctx.rng);
        let allowed = self
            .newcomer_tc
            .map_or(Time::ZERO, |last| last + NEWCOMER_INTERVAL);
        let pending = self.newcomer_tc.filter(|last| *last > ctx.now);
        let at = pending.map_or(wanted.max(allowed), |pending| pending.max(wanted));
        self.newcomer_tc = Some(at);
        self.tc_timer.plan(at);
    }
}

/// The most octets of a message that shares a packet with others.
fn message_limit(ctx: &Context) -> usize {
    let signature = if ctx.signing { icv::OVERHEAD } else { 0 };
    let taken = PACKET_OVERHEAD + signature;
    ctx.config.packet_size.saturating_sub(taken)
}

/// The first ANSN and message sequence number: configured, or random.
pub(super) fn first_numbers(ctx: &mut Context) -> OwnNumbers {
    let [ansn, seq] = match ctx.config.first_sequence_number {
        Some(first) => [first; 2],
        None => [ctx.rng.u16(..), ctx.rng.u16(..)],
    };
    OwnNumbers::new(ctx.now, ansn, seq)
}
