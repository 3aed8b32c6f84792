//! Writes the recent refusals of the router for the change stream and the text interface.

use olsrv2::{RefusalKind, Time};
use serde_json::{json, Value};

use crate::manet::name;
use std::collections::BTreeMap;

/// Returns the refusals of the last one to two minutes with the names of their counters.
pub fn refusals(refusals: &[olsrv2::Refusal], now: Time, names: &BTreeMap<u32, String>) -> Value {
    let source = |source: &olsrv2::RefusalSource| {
        json!({
            "interface": name(names, source.interface),
            "address": source.address,
            "count": source.count,
        })
    };
    let refusal = |refusal: &olsrv2::Refusal| {
        json!({
            "counter": counter(refusal.kind),
            "count": refusal.count,
            "seconds_ago": now.saturating_sub(refusal.last).as_secs(),
            "sources": refusal.sources.iter().map(source).collect::<Value>(),
            "further_sources": refusal.further_sources,
        })
    };
    refusals.iter().map(refusal).collect()
}

fn counter(kind: RefusalKind) -> &'static str {
    match kind {
        RefusalKind::OverLimit => "over_limit",
        RefusalKind::RateLimited => "rate_limited",
        RefusalKind::Malformed => "malformed",
        RefusalKind::Spoofed => "spoofed",
        RefusalKind::Disbelieved => "disbelieved",
        RefusalKind::Forged => "forged",
        RefusalKind::NotSigned => "not_signed",
        RefusalKind::Replayed => "replayed",
    }
}
