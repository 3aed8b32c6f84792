//! The lines of the change stream.

use std::collections::BTreeMap;

use olsrv2::{
    Attached, AttachedView, Counters, EdgeView, LinkView, NeighbourView, NodeView, Prefix,
    RouteView, Time,
};
use serde_json::{json, Map, Value};

use super::state::State;
use crate::manet::name;

/// Version of the format. It increases when a reader of the old one would misread the new one.
const SCHEMA: u32 = 1;

/// The names of the interfaces.
pub type Names = BTreeMap<u32, String>;

/// The object of a change.
pub enum Object<'a> {
    /// A route, and whether the kernel has it.
    Route(&'a RouteView, bool),
    /// The destination of a route that is gone.
    NoRoute(Prefix),
    /// A neighbour.
    Neighbour(&'a NeighbourView),
    /// A link.
    Link(&'a LinkView),
    /// A remote router.
    Node(&'a NodeView),
    /// An edge.
    Edge(&'a EdgeView),
    /// An attached network of another router.
    Attached(&'a AttachedView),
    /// A network that this router announces, and whether its configuration file says so.
    LocalAttached(&'a Attached, bool),
}

/// Counters of the daemon, in addition to those of the router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaemonCounters {
    /// Routes that had to be restored.
    pub routes_repaired: u64,
    /// Wanted routes that the kernel refuses now.
    pub routes_failed: u64,
    /// Packets that an interface refused.
    pub send_errors: u64,
}

/// Returns the snapshot's line, written element by element so that a large mesh takes no more memory than its text.
pub fn snapshot(
    state: &State,
    counted: DaemonCounters,
    sequence: u64,
    readers_dropped: u64,
) -> Vec<u8> {
    let mut text = format!(
        r#"{{"type":"snapshot","seq":{sequence},"time_us":{}"#,
        micros(state.now)
    );
    let route = |route| Object::Route(route, state.installed.contains(&route.destination));
    let local = |one| Object::LocalAttached(one, state.config.attached.contains(one));
    let names = &state.names;
    list(
        &mut text,
        "neighbours",
        names,
        state.neighbours.iter().map(Object::Neighbour),
    );
    list(
        &mut text,
        "links",
        names,
        state.links.iter().map(Object::Link),
    );
    list(
        &mut text,
        "nodes",
        names,
        state.nodes.iter().map(Object::Node),
    );
    list(
        &mut text,
        "edges",
        names,
        state.edges.iter().map(Object::Edge),
    );
    list(
        &mut text,
        "attached",
        names,
        state.attached.iter().map(Object::Attached),
    );
    list(
        &mut text,
        "local_attached",
        names,
        state.local_attached.iter().map(local),
    );
    list(&mut text, "routes", names, state.routes.iter().map(route));
    let counters = counters(&state.counters, counted, readers_dropped);
    text.push_str(&format!(",\"counters\":{counters}}}\n"));
    text.into_bytes()
}

fn list<'a>(
    text: &mut String,
    key: &str,
    names: &Names,
    objects: impl Iterator<Item = Object<'a>>,
) {
    text.push_str(&format!(",\"{key}\":["));
    for (index, object) in objects.enumerate() {
        let separator = if index == 0 { "" } else { "," };
        text.push_str(separator);
        text.push_str(&object.fields(names).to_string());
    }
    text.push(']');
}

/// Returns what was counted since the daemon's start.
pub fn counters(router: &Counters, daemon: DaemonCounters, readers_dropped: u64) -> Value {
    json!({
        "packets_received": router.packets_received,
        "packets_sent": router.packets_sent,
        "octets_sent": router.octets_sent,
        "hellos_received": router.hellos_received,
        "hellos_sent": router.hellos_sent,
        "tcs_received": router.tcs_received,
        "tcs_sent": router.tcs_sent,
        "forwarded": router.forwarded,
        "malformed": router.malformed,
        "invalid": router.invalid,
        "duplicates": router.duplicates,
        "stale": router.stale,
        "spoofed": router.spoofed,
        "disbelieved": router.disbelieved,
        "verified": router.verified,
        "forged": router.forged,
        "not_signed": router.not_signed,
        "replayed": router.replayed,
        "rate_limited": router.rate_limited,
        "over_limit": router.over_limit,
        "route_calculations": router.route_calculations,
        "routes_repaired": daemon.routes_repaired,
        "routes_failed": daemon.routes_failed,
        "send_errors": daemon.send_errors,
        "readers_dropped": readers_dropped,
    })
}

impl Object<'_> {
    fn fields(&self, names: &Names) -> Value {
        describe(self, names).1.into()
    }
}

/// Returns the first line that a reader gets.
pub fn hello(state: &State) -> Value {
    json!({
        "type": "hello",
        "schema": SCHEMA,
        "software": "olsrv2d",
        "version": env!("CARGO_PKG_VERSION"),
        "originators": state.originators.iter().map(|(address, _)| json!(address)).collect::<Value>(),
        "pid": std::process::id(),
    })
}

/// Returns the kind of an object and its fields.
pub fn describe(object: &Object, names: &Names) -> (&'static str, Map<String, Value>) {
    let (kind, value) = match object {
        Object::Route(view, installed) => ("route", route(view, *installed, names)),
        Object::NoRoute(destination) => ("route", json!({"destination": destination.to_string()})),
        Object::Neighbour(view) => ("neighbour", neighbour(view)),
        Object::Link(view) => ("link", link(view, names)),
        Object::Node(view) => (
            "node",
            json!({"originator": view.originator, "ansn": view.ansn, "signs": view.signs}),
        ),
        Object::Edge(view) => (
            "edge",
            json!({"from": view.from, "to": view.to, "metric": view.metric.get(), "confirmed": view.confirmed}),
        ),
        Object::Attached(view) => ("attached", attached(view)),
        Object::LocalAttached(network, configured) => {
            ("local_attached", local_attached(network, *configured))
        }
    };
    match value {
        Value::Object(fields) => (kind, fields),
        _ => (kind, Map::new()),
    }
}

fn route(view: &RouteView, installed: bool, names: &Names) -> Value {
    json!({
        "destination": view.destination.to_string(),
        "next_hop": view.next_hop,
        "interface": name(names, view.interface),
        "source": view.source,
        "metric": view.metric,
        "hops": view.hops,
        "originator": view.originator,
        "next_originator": view.next_originator,
        "last_originator": view.last_originator,
        "confirmed": view.confirmed,
        "installed": installed,
    })
}

fn neighbour(view: &NeighbourView) -> Value {
    json!({
        "originator": view.originator,
        "symmetric": view.symmetric,
        "mpr_of_us": view.is_routing_selector,
        "our_mpr": view.is_routing_mpr,
        "signs": view.signs,
        "metric_in": view.metric_in.map(olsrv2::Metric::get),
        "metric_out": view.metric_out.map(olsrv2::Metric::get),
        "addresses": view.addresses,
    })
}

fn link(view: &LinkView, names: &Names) -> Value {
    json!({
        "interface": name(names, view.interface),
        "address": view.address,
        "status": view.status.to_string(),
        "originator": view.originator,
        "metric_in": view.metric_in.map(olsrv2::Metric::get),
        "metric_out": view.metric_out.map(olsrv2::Metric::get),
    })
}

fn attached(view: &AttachedView) -> Value {
    json!({
        "prefix": view.prefix.to_string(),
        "originator": view.originator,
        "distance": view.distance,
        "metric": view.metric.get(),
    })
}

fn local_attached(network: &Attached, configured: bool) -> Value {
    json!({
        "prefix": network.prefix.to_string(),
        "distance": network.distance,
        "metric": network.metric.get(),
        "configured": configured,
    })
}

/// Returns a value as one line of text.
pub fn line(value: &Value) -> Vec<u8> {
    let mut octets = value.to_string().into_bytes();
    octets.push(b'\n');
    octets
}

/// Returns a time in microseconds of CLOCK_MONOTONIC.
pub fn micros(time: Time) -> Value {
    (time.as_micros() as u64).into()
}
