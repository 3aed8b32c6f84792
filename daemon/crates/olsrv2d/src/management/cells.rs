//! Values as olsrd2's text interface shows them.

use std::net::IpAddr;
use std::time::Duration;

use olsrv2::{Family, Metric, Prefix, RouteView};
use serde_json::{json, Value};

/// Name of the metric. Every link has the configured constant until it is measured.
pub const METRIC_NAME: &str = "constant_metric";

/// The named fields of a row.
pub type Row = Vec<(&'static str, Value)>;

/// Returns a domain's number and the name of its metric.
pub fn domain(number: Value) -> Row {
    vec![("domain", number), ("domain_metric", json!(METRIC_NAME))]
}

/// Returns the metric of the incoming direction, as text and as a number.
pub fn metric_in(metric: Option<Metric>) -> Row {
    let raw = raw_metric(metric);
    vec![
        ("domain_metric_in", json!(raw.to_string())),
        ("domain_metric_in_raw", json!(raw)),
    ]
}

/// Returns the metric of the outgoing direction, as text and as a number.
pub fn metric_out(metric: Option<Metric>) -> Row {
    let raw = raw_metric(metric);
    vec![
        ("domain_metric_out", json!(raw.to_string())),
        ("domain_metric_out_raw", json!(raw)),
    ]
}

/// Returns a metric as a number: UNKNOWN_METRIC (RFC 7181, section 8.1) as the infinite metric of olsrd2.
pub fn raw_metric(metric: Option<Metric>) -> u32 {
    metric.map_or(0x00ff_ffff, Metric::get)
}

/// Returns the cost of a path as text for people.
pub fn path_text(route: &RouteView) -> String {
    format!("{} ({} hops)", route.metric, route.hops)
}

/// Returns a prefix as text; that of a single address without its length.
pub fn address_or_prefix(prefix: Prefix) -> String {
    if prefix.is_host() {
        prefix.addr.to_string()
    } else {
        prefix.to_string()
    }
}

/// Returns the source prefix of a route that is not source-specific.
pub fn any_source(prefix: Prefix) -> &'static str {
    match Family::of(prefix.addr) {
        Family::V4 => "0.0.0.0/0",
        Family::V6 => "::/0",
    }
}

/// Returns an address, or a dash where there is none.
pub fn or_dash(address: Option<IpAddr>) -> Value {
    address.map_or(json!("-"), |address| json!(address))
}

/// Returns a number, or a dash where there is none.
pub fn number_or_dash(number: Option<u64>) -> Value {
    number.map_or(json!("-"), |number| json!(number))
}

/// Returns a truth value as text.
pub fn text_bool(value: bool) -> Value {
    json!(value.to_string())
}

/// Returns seconds with three decimals, or a whole number if there are none.
pub fn seconds(duration: Duration) -> Value {
    let millis = duration.as_millis() as u64;
    if millis % 1000 == 0 {
        json!(millis / 1000)
    } else {
        json!(millis as f64 / 1000.0)
    }
}

/// Returns a hardware address as text.
pub fn mac(octets: Option<[u8; 6]>) -> String {
    let Some(octets) = octets else {
        return "-".into();
    };
    let pairs: Vec<String> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    pairs.join(":")
}
