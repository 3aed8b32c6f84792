//! The change stream: JSON lines over a UNIX socket. A reader gets a snapshot and then every change.
//!
//! The format is specified in `docs/reference/schema/olsrv2d-changes-1.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::Path;

use daemonkit::Readers;
use olsrv2::{
    AttachedView, Counters, EdgeView, LinkView, NeighbourView, NodeView, Prefix, RouteView, Time,
};
use serde::Deserialize;
use serde_json::{json, Map, Value};

use super::state::{name, State};
use crate::reactor::{Reactor, Token};

/// Version of the format. It increases when a reader of the old one would misread the new one.
const SCHEMA: u32 = 1;

/// Largest number of addresses that a reader may name as trusted: three for each of ten thousand routers.
const TRUSTED_MAX: usize = 32_768;

type Names = BTreeMap<u32, String>;

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
    /// An attached network.
    Attached(&'a AttachedView),
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

/// The listening socket and its readers.
pub struct Changes {
    readers: Readers<Token>,
    sequence: u64,
    /// Trusted addresses of commands of which not all portions have arrived, by reader.
    trusted: BTreeMap<u32, BTreeSet<IpAddr>>,
}

/// A request of a reader.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Trust these addresses and no others.
    Trust(BTreeSet<IpAddr>),
    /// Send the recent refusals.
    Refusals,
}

/// A line that a reader sent.
#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    Trust {
        addresses: BTreeSet<IpAddr>,
        #[serde(default)]
        more: bool,
    },
    Refusals,
}

impl Changes {
    /// Creates the socket and its directory, and listens.
    ///
    /// # Errors
    /// The path cannot be created, another process listens there, or the group is unknown.
    pub fn listen(path: &Path, group: Option<&str>, reactor: &Reactor) -> io::Result<Self> {
        Ok(Self {
            readers: Readers::listen(path, group, reactor, Token::ChangesListener, Token::Changes)?,
            sequence: 0,
            trusted: BTreeMap::new(),
        })
    }

    /// Changes the group that may connect.
    ///
    /// # Errors
    /// The group is unknown.
    pub fn admit(&self, group: Option<&str>) -> io::Result<()> {
        self.readers.admit(group)
    }

    /// Disconnects all readers, because the first line that they got is no longer true.
    pub fn restart(&mut self) {
        self.readers.restart();
        self.trusted.clear();
    }

    /// Accepts one waiting reader and sends it the snapshot.
    ///
    /// # Errors
    /// The reader has disconnected, or there are too many readers.
    pub fn accept(
        &mut self,
        reactor: &Reactor,
        state: &State,
        counted: DaemonCounters,
    ) -> io::Result<()> {
        let sequence = self.sequence;
        self.readers.accept(reactor, |readers| {
            let snapshot = snapshot(state, counted, sequence, readers.dropped());
            [line(&hello(state)), snapshot].concat()
        })
    }

    /// Serves a reader that is ready, and returns its requests. An invalid line is answered with `refused`.
    pub fn serve(&mut self, number: u32, reactor: &Reactor) -> Vec<Request> {
        let mut requests = Vec::new();
        for said in self.readers.serve(number, reactor) {
            match self.read(number, &said) {
                Ok(request) => requests.extend(request),
                Err(reason) => {
                    let refused = json!({"type": "refused", "reason": reason});
                    self.readers.answer(number, &line(&refused), reactor);
                }
            }
        }
        if self.readers.connection(number).is_none() {
            self.trusted.remove(&number);
        }
        requests
    }

    fn read(&mut self, number: u32, said: &[u8]) -> Result<Option<Request>, String> {
        match serde_json::from_slice(said).map_err(|error| error.to_string())? {
            Command::Refusals => Ok(Some(Request::Refusals)),
            Command::Trust { addresses, more } => {
                if !self.may_command(number) {
                    return Err(
                        "trust: only root and olsrv2d's own user may say whom to trust".into(),
                    );
                }
                let mut trusted = self.trusted.remove(&number).unwrap_or_default();
                trusted.extend(addresses);
                if trusted.len() > TRUSTED_MAX {
                    return Err(format!("trust: at most {TRUSTED_MAX} addresses"));
                }
                if more {
                    self.trusted.insert(number, trusted);
                    return Ok(None);
                }
                Ok(Some(Request::Trust(trusted)))
            }
        }
    }

    /// Returns whether a reader may send commands. The kernel says whose process it is (unix(7), SO_PEERCRED).
    fn may_command(&self, number: u32) -> bool {
        let connection = self.readers.connection(number);
        let peer = connection.and_then(|peer| rustix::net::sockopt::socket_peercred(peer).ok());
        let own = rustix::process::geteuid();
        peer.is_some_and(|peer| peer.uid.is_root() || peer.uid == own)
    }

    /// Sends the recent refusals to one reader.
    pub fn tell_refusals(&mut self, reactor: &Reactor, number: u32, now: Time, refusals: Value) {
        let told = json!({"type": "refusals", "time_us": micros(now), "refusals": refusals});
        self.readers.answer(number, &line(&told), reactor);
    }

    /// Sends a change that was decided at `now` to all readers.
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

    /// Sends an event that is not a change of state to all readers.
    pub fn event(&mut self, reactor: &Reactor, now: Time, name: &str, fields: Map<String, Value>) {
        let mut event = Map::new();
        event.insert("type".into(), "event".into());
        event.insert("time_us".into(), micros(now));
        event.insert("name".into(), name.into());
        event.extend(fields);
        self.readers.send(reactor, &line(&Value::from(event)));
    }
}

/// Returns the snapshot's line, written element by element so that a large mesh takes no more memory than its text.
fn snapshot(
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
        "spoofed": router.spoofed,
        "disbelieved": router.disbelieved,
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

/// Returns the kind of an object and its fields.
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
