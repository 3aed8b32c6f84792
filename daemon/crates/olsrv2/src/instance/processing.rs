//! The messages of other routers.

use alloc::collections::BTreeSet;
use core::net::IpAddr;

use nhdp::{Hello, InterfaceId, Rejected};
use rfc5444::Prefix;

use super::{Context, Instance};
use crate::belief;
use crate::evict::Standing;
use crate::hello::HelloInfo;
use crate::tc::Tc;
use crate::topology::{Outcome, Predecessor};

impl Instance {
    /// Processes a HELLO (RFC 6130, section 12; RFC 7181, section 15.3).
    pub(crate) fn process_hello(
        &mut self,
        ctx: &mut Context,
        interface: InterfaceId,
        source: IpAddr,
        mut hello: Hello,
        info: &HelloInfo,
    ) {
        if hello
            .local_addresses()
            .chain(info.originator)
            .any(|address| self.owns(ctx.config, address))
        {
            return self.own_address_used(ctx, interface, source, info.originator);
        }
        if self.is_of_another(ctx.speakers, source, &hello, info) {
            ctx.counters.disbelieved += 1;
            return;
        }
        ctx.counters.disbelieved += self.strip_foreign(ctx, &mut hello, info);
        let longest = belief::HELLO_INTERVAL_MAX.max(ctx.hello_timing(interface).interval);
        hello.validity = belief::bounded(hello.validity, hello.interval, longest);
        let own = self.nhdp.interface_addresses(interface);
        let Ok(metric_out) = info.metric_out(own) else {
            ctx.counters.invalid += 1;
            return;
        };
        // A link without L_out_metric must not be symmetric (RFC 7181, section 17.2).
        if metric_out.is_none() {
            hello.refuse_link(own);
        }
        if !is_fresh(ctx, own, info) {
            hello.ignore_link(own);
        }
        self.nhdp_touched = true;
        match self.nhdp.process(ctx.now, interface, source, &hello) {
            Ok(link) => {
                ctx.counters.hellos_received += 1;
                self.dirty |= info.apply(ctx.now, &mut self.nhdp, link, metric_out);
                if let Some(originator) = info.originator.filter(|_| info.is_signed()) {
                    self.topology.note_confirmed(ctx.speakers, originator);
                }
            }
            Err(Rejected::OwnAddress(_)) => {
                ctx.counters.invalid += 1;
                ctx.counters.spoofed += 1;
            }
            Err(Rejected::UnknownInterface | Rejected::TooManyLinks) => {}
        }
    }

    /// Processes a TC (RFC 7181, section 16.3).
    pub(crate) fn process_tc(&mut self, ctx: &mut Context, mut tc: Tc, source: IpAddr) {
        if !self.admits(ctx, &tc) {
            ctx.counters.over_limit += 1;
            return;
        }
        let longest = belief::TC_INTERVAL_MAX.max(ctx.config.timing.tc_interval);
        tc.validity = belief::bounded(tc.validity, tc.interval, longest);
        let first_hand = self.is_from(tc.originator, source, false);
        let is_new = !self.topology.contains(tc.originator);
        match self
            .topology
            .process(ctx.now, &tc, source, first_hand, &ctx.config.limits)
        {
            Outcome::Processed => {
                ctx.counters.tcs_received += 1;
                if is_new {
                    self.note_predecessor(ctx, tc.originator);
                }
                self.topology.note_confirmed(ctx.speakers, tc.originator);
            }
            Outcome::Stale => ctx.counters.stale += 1,
            Outcome::Disbelieved => ctx.counters.disbelieved += 1,
            Outcome::OverLimit => ctx.counters.over_limit += 1,
        }
    }

    /// Records over whom a new router was reached as a host until now. Whoever was not believed until now is not
    /// believed because of the router's first TC either, which may be an old one.
    fn note_predecessor(&mut self, ctx: &Context, originator: IpAddr) {
        let route = self.routes.get(&Prefix::host(originator));
        if let Some(route) = route {
            let predecessor = Predecessor {
                originator: route.originator,
                had_card: ctx.speakers.is_trusted(originator),
            };
            self.topology.set_predecessor(originator, predecessor);
        }
    }

    /// Makes space for a TC. Returns whether its originator may be in the topology.
    fn admits(&mut self, ctx: &Context, tc: &Tc) -> bool {
        let (nhdp, routes) = (&self.nhdp, &self.routes);
        let standing = |originator: IpAddr| match routes.get(&Prefix::host(originator)) {
            _ if nhdp.is_trusted(originator) => Standing::Trusted(originator),
            Some(route) => Standing::Via(route.next_originator),
            None => Standing::Orphan,
        };
        let limits = &ctx.config.limits;
        self.gate
            .admit(ctx.now, tc, &mut self.topology, limits, standing)
    }
}

/// Returns whether a HELLO cannot have been kept and sent again. Between routers that sign, its sender proves that it
/// has heard this one lately.
fn is_fresh(ctx: &Context, own: &BTreeSet<IpAddr>, info: &HelloInfo) -> bool {
    let floor = ctx.own_floor;
    !ctx.signing || !info.is_signed() || floor.is_some_and(|floor| info.has_heard(own, floor))
}
