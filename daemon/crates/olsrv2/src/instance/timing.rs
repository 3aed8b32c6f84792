//! Intervals and jitter of the messages.

use core::time::Duration;

use nhdp::{InterfaceId, Pace, Params};

use super::Context;
use crate::config::{Config, HelloTiming};

impl Context<'_> {
    /// The HELLO timing of an interface: its own, or the configured one.
    pub(super) fn hello_timing(&self, interface: InterfaceId) -> HelloTiming {
        let own = self.hello_timings.get(&interface).copied();
        own.unwrap_or_else(|| self.config.hello_timing())
    }

    /// The pace of an interface's HELLOs (RFC 6130, section 5.3).
    pub(super) fn hello_pace(&self, interface: InterfaceId) -> Pace {
        let interval = self.hello_timing(interface).interval;
        pace(self.config, interval, self.config.timing.hello_min_interval)
    }
}

/// The hold time and the bounds of the neighbourhood.
pub(super) fn params(config: &Config) -> Params {
    Params {
        hold_time: config.timing.hello_validity,
        max_links: config.limits.links,
        max_two_hops: config.limits.two_hops,
    }
}

/// The pace of TCs (RFC 7181, section 5.4.3).
pub(super) fn tc_pace(config: &Config) -> Pace {
    pace(
        config,
        config.timing.tc_interval,
        config.timing.tc_min_interval,
    )
}

fn pace(config: &Config, interval: Duration, min_interval: Duration) -> Pace {
    let timing = &config.timing;
    // RFC 6130, section 5.3.1, and RFC 7181, section 5.4.3: the minimum is not the longer one.
    let min_interval = min_interval.min(interval);
    let share = interval / timing.periodic_jitter_divisor.max(2);
    let periodic_jitter = if min_interval.is_zero() {
        share
    } else {
        share.min(min_interval / 2)
    };
    Pace {
        interval,
        min_interval,
        periodic_jitter,
        triggered_jitter: timing.triggered_jitter,
    }
}
