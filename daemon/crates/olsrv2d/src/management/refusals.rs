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
    let claim = |claim: &olsrv2::RefusalClaim| {
        json!({
            "originator": claim.originator,
            "interface": name(names, claim.source.interface),
            "address": claim.source.address,
            "count": claim.source.count,
        })
    };
    let refusal = |refusal: &olsrv2::Refusal| {
        json!({
            "counter": counter(refusal.kind),
            "count": refusal.count,
            "seconds_ago": now.saturating_sub(refusal.last).as_secs(),
            "sources": refusal.sources.iter().map(source).collect::<Value>(),
            "further_sources": refusal.further_sources,
            "claims": refusal.claims.iter().map(claim).collect::<Value>(),
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

#[cfg(test)]
mod tests {
    use olsrv2::{InterfaceId, Refusal, RefusalClaim, RefusalSource};

    use super::*;

    #[test]
    fn a_refusal_says_by_whom_it_came_and_in_whose_name() {
        let source = RefusalSource {
            interface: InterfaceId(3),
            address: "fe80::9".parse().unwrap(),
            count: 7,
        };
        let claim = RefusalClaim {
            originator: "fd00::7".parse().unwrap(),
            source: RefusalSource { count: 4, ..source },
        };
        let refusal = Refusal {
            kind: RefusalKind::NotSigned,
            count: 7,
            last: Time::from_secs(10),
            sources: vec![source],
            further_sources: 0,
            claims: vec![claim],
        };
        let names = BTreeMap::from([(3, "mesh0".to_owned())]);
        let written = refusals(&[refusal], Time::from_secs(12), &names);
        let sources = json!([{"interface": "mesh0", "address": "fe80::9", "count": 7}]);
        let claims = json!([
            {"originator": "fd00::7", "interface": "mesh0", "address": "fe80::9", "count": 4}
        ]);
        let expected = json!([{
            "counter": "not_signed", "count": 7, "seconds_ago": 2,
            "sources": sources, "further_sources": 0, "claims": claims,
        }]);
        assert_eq!(written, expected);
    }
}
