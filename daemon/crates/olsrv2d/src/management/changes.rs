//! The change stream: JSON lines over a UNIX socket, a snapshot and then every change.
//!
//! The form is `docs/schema/olsrv2d-changes-1.json`.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use daemonkit::control_socket::ControlSocket;
use daemonkit::session::{Session, Standing};
use olsrv2::{
    AttachedView, Counters, EdgeView, LinkView, NeighbourView, NodeView, Prefix, RouteView, Time,
};
use serde_json::{json, Map, Value};

use super::state::{name, State};
use crate::reactor::{Reactor, Token};

/// The version of the form; it grows when a reader of the old one would misread the new one.
const SCHEMA: u32 = 1;
/// Readers at a time.
const READERS_MAX: usize = 16;
/// What a reader may leave unread beyond its snapshot, in octets, before it is disconnected.
const BACKLOG_MAX: usize = 1 << 20;

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
    listener: ControlSocket,
    readers: BTreeMap<u32, Reader>,
    next: u32,
    sequence: u64,
    dropped: u64,
}

struct Reader {
    session: Session<UnixStream>,
    /// Octets that may be unread: the snapshot's and [`BACKLOG_MAX`].
    allowed: usize,
    /// Whether the reactor was told that there is something to send.
    waits: bool,
}

impl Changes {
    /// Makes the socket, its directory too, and listens.
    ///
    /// # Errors
    /// The path cannot be made, another process listens there, or the group is unknown.
    pub fn listen(path: &Path, group: Option<&str>, reactor: &Reactor) -> io::Result<Self> {
        let listener = ControlSocket::listen(path, group)?;
        reactor.add(&listener, Token::ChangesListener)?;
        Ok(Self {
            listener,
            readers: BTreeMap::new(),
            next: 0,
            sequence: 0,
            dropped: 0,
        })
    }

    /// Lets another group connect.
    ///
    /// # Errors
    /// The group is unknown.
    pub fn admit(&self, group: Option<&str>) -> io::Result<()> {
        self.listener.admit(group)
    }

    /// Disconnects all readers: what their first lines said holds no more.
    pub fn restart(&mut self) {
        self.readers.clear();
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
        let stream = self.listener.accept()?;
        if self.readers.len() >= READERS_MAX {
            self.dropped += 1;
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("more than {READERS_MAX} readers"),
            ));
        }
        self.next = self.next.wrapping_add(1);
        reactor.add(&stream, Token::Changes(self.next))?;
        let mut session = Session::new(stream);
        session.push(&line(&hello(state)));
        session.push(&line(&self.snapshot(state, counted)));
        let allowed = session.backlog() + BACKLOG_MAX;
        self.readers.insert(
            self.next,
            Reader {
                session,
                allowed,
                waits: false,
            },
        );
        self.flush(reactor, self.next);
        Ok(())
    }

    /// Serves a reader that is ready; what it says is thrown away.
    pub fn serve(&mut self, number: u32, reactor: &Reactor) {
        let Some(reader) = self.readers.get_mut(&number) else {
            return;
        };
        if !reader.session.receive() {
            self.readers.remove(&number);
            return;
        }
        reader.session.discard();
        self.flush(reactor, number);
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
        self.send(reactor, &Value::from(change));
    }

    /// Tells all readers of something that is no change of state.
    pub fn event(&mut self, reactor: &Reactor, now: Time, name: &str, fields: Map<String, Value>) {
        let mut event = Map::new();
        event.insert("type".into(), "event".into());
        event.insert("time_us".into(), micros(now));
        event.insert("name".into(), name.into());
        event.extend(fields);
        self.send(reactor, &Value::from(event));
    }

    fn send(&mut self, reactor: &Reactor, value: &Value) {
        let octets = line(value);
        let numbers: Vec<u32> = self.readers.keys().copied().collect();
        for number in numbers {
            if let Some(reader) = self.readers.get_mut(&number) {
                reader.session.push(&octets);
            }
            self.flush(reactor, number);
        }
    }

    fn flush(&mut self, reactor: &Reactor, number: u32) {
        let Some(reader) = self.readers.get_mut(&number) else {
            return;
        };
        let standing = reader.session.flush();
        let waits = standing == Standing::Writing;
        let slow = reader.session.backlog() > reader.allowed;
        let told = waits == reader.waits
            || reactor
                .want_write(&reader.session, Token::Changes(number), waits)
                .is_ok();
        reader.waits = waits;
        if slow {
            self.dropped += 1;
            log::warn!("a reader of the change stream is too slow: disconnected");
        }
        if slow || standing == Standing::Ended || !told {
            self.readers.remove(&number);
        }
    }

    fn snapshot(&self, state: &State, counted: DaemonCounters) -> Value {
        let names = &state.names;
        let route = |route: &RouteView| {
            Object::Route(route, state.installed.contains(&route.destination)).fields(names)
        };
        json!({
            "type": "snapshot",
            "seq": self.sequence,
            "time_us": micros(state.now),
            "neighbours": state.neighbours.iter().map(|view| Object::Neighbour(view).fields(names)).collect::<Value>(),
            "links": state.links.iter().map(|view| Object::Link(view).fields(names)).collect::<Value>(),
            "nodes": state.nodes.iter().map(|view| Object::Node(view).fields(names)).collect::<Value>(),
            "edges": state.edges.iter().map(|view| Object::Edge(view).fields(names)).collect::<Value>(),
            "attached": state.attached.iter().map(|view| Object::Attached(view).fields(names)).collect::<Value>(),
            "routes": state.routes.iter().map(route).collect::<Value>(),
            "counters": self.counters(&state.counters, counted),
        })
    }

    fn counters(&self, router: &Counters, daemon: DaemonCounters) -> Value {
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
            "readers_dropped": self.dropped,
        })
    }
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
