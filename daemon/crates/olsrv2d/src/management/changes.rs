//! The change stream: JSON lines over a UNIX socket, a snapshot and then every change.
//!
//! The form is `docs/schema/olsrv2d-changes-1.json`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use daemonkit::Readers;
use olsrv2::{
    AttachedView, Counters, EdgeView, LinkView, NeighbourView, NodeView, Prefix, RouteView, Time,
};
use serde_json::{json, Map, Value};

use super::state::{name, State};
use crate::reactor::{Reactor, Token};

/// The version of the form; it grows when a reader of the old one would misread the new one.
const SCHEMA: u32 = 1;

type Names = BTreeMap<u32, String>;

/// What a change is about.
pub enum Object<'a> {
    /// A route and whether the kernel has it.
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
    /// An attached network.
    Attached(&'a AttachedView),
}

/// What the daemon itself counted, beside the router's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaemonCounters {
    /// Routes that had to be put back.
    pub routes_repaired: u64,
    /// Wanted routes that the kernel refuses now.
    pub routes_failed: u64,
    /// Packets that an interface did not take.
    pub send_errors: u64,
}

/// The listener with its readers.
pub struct Changes {
    readers: Readers<Token>,
    sequence: u64,
}

impl Changes {
    /// Makes the socket, its directory too, and listens.
    ///
    /// # Errors
    /// The path cannot be made, another process listens there, or the group is unknown.
    pub fn listen(path: &Path, group: Option<&str>, reactor: &Reactor) -> io::Result<Self> {
        Ok(Self {
            readers: Readers::listen(path, group, reactor, Token::ChangesListener, Token::Changes)?,
            sequence: 0,
        })
    }

    /// Lets another group connect.
    ///
    /// # Errors
    /// The group is unknown.
    pub fn admit(&self, group: Option<&str>) -> io::Result<()> {
        self.readers.admit(group)
    }

    /// Disconnects all readers: what their first lines said holds no more.
    pub fn restart(&mut self) {
        self.readers.restart();
    }

    /// Takes one waiting reader and gives it the snapshot.
    ///
    /// # Errors
    /// The reader went meanwhile, or there are too many.
    pub fn accept(
        &mut self,
        reactor: &Reactor,
        state: &State,
        counted: DaemonCounters,
    ) -> io::Result<()> {
        let sequence = self.sequence;
        self.readers.accept(reactor, |readers| {
            let snapshot = snapshot(state, counted, sequence, readers.dropped());
            [line(&hello(state)), line(&snapshot)].concat()
        })
    }

    /// Serves a reader that is ready; what it says is thrown away.
    pub fn serve(&mut self, number: u32, reactor: &Reactor) {
        self.readers.serve(number, reactor);
    }

    /// Tells all readers of a change decided at `now`.
    pub fn tell(
        &mut self,
        reactor: &Reactor,
        now: Time,
        object: &Object,
        is_set: bool,
        names: &Names,
    ) {
        self.sequence += 1;
        let (kind, fields) = describe(object, names);
        let mut change = Map::new();
        change.insert("type".into(), "change".into());
        change.insert("seq".into(), self.sequence.into());
        change.insert("time_us".into(), micros(now));
        change.insert("object".into(), kind.into());
        change.insert("op".into(), if is_set { "set" } else { "del" }.into());
        change.extend(fields);
        self.readers.send(reactor, &line(&Value::from(change)));
    }

    /// Tells all readers of something that is no change of state.
    pub fn event(&mut self, reactor: &Reactor, now: Time, name: &str, fields: Map<String, Value>) {
        let mut event = Map::new();
        event.insert("type".into(), "event".into());
        event.insert("time_us".into(), micros(now));
        event.insert("name".into(), name.into());
        event.extend(fields);
        self.readers.send(reactor, &line(&Value::from(event)));
    }
}

fn snapshot(state: &State, counted: DaemonCounters, sequence: u64, readers_dropped: u64) -> Value {
    let names = &state.names;
    let route = |route: &RouteView| {
        Object::Route(route, state.installed.contains(&route.destination)).fields(names)
    };
    json!({
        "type": "snapshot",
        "seq": sequence,
        "time_us": micros(state.now),
        "neighbours": state.neighbours.iter().map(|view| Object::Neighbour(view).fields(names)).collect::<Value>(),
        "links": state.links.iter().map(|view| Object::Link(view).fields(names)).collect::<Value>(),
        "nodes": state.nodes.iter().map(|view| Object::Node(view).fields(names)).collect::<Value>(),
        "edges": state.edges.iter().map(|view| Object::Edge(view).fields(names)).collect::<Value>(),
        "attached": state.attached.iter().map(|view| Object::Attached(view).fields(names)).collect::<Value>(),
        "routes": state.routes.iter().map(route).collect::<Value>(),
        "counters": counters(&state.counters, counted, readers_dropped),
    })
}

fn counters(router: &Counters, daemon: DaemonCounters, readers_dropped: u64) -> Value {
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

fn hello(state: &State) -> Value {
    json!({
        "type": "hello",
        "schema": SCHEMA,
        "software": "olsrv2d",
        "version": env!("CARGO_PKG_VERSION"),
        "originators": state.originators.iter().map(|(address, _)| json!(address)).collect::<Value>(),
        "pid": std::process::id(),
    })
}

/// The kind of an object and its fields.
fn describe(object: &Object, names: &Names) -> (&'static str, Map<String, Value>) {
    let (kind, value) = match object {
        Object::Route(view, installed) => ("route", route(view, *installed, names)),
        Object::NoRoute(destination) => ("route", json!({"destination": destination.to_string()})),
        Object::Neighbour(view) => ("neighbour", neighbour(view)),
        Object::Link(view) => ("link", link(view, names)),
        Object::Node(view) => (
            "node",
            json!({"originator": view.originator, "ansn": view.ansn}),
        ),
        Object::Edge(view) => (
            "edge",
            json!({"from": view.from, "to": view.to, "metric": view.metric.get()}),
        ),
        Object::Attached(view) => ("attached", attached(view)),
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
        "installed": installed,
    })
}

fn neighbour(view: &NeighbourView) -> Value {
    json!({
        "originator": view.originator,
        "symmetric": view.symmetric,
        "mpr_of_us": view.is_routing_selector,
        "our_mpr": view.is_routing_mpr,
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

fn line(value: &Value) -> Vec<u8> {
    let mut octets = value.to_string().into_bytes();
    octets.push(b'\n');
    octets
}

fn micros(time: Time) -> Value {
    (time.as_micros() as u64).into()
}
