//! The change stream: JSON lines over a UNIX socket, a snapshot and then every change.
//!
//! The form is `docs/schema/olsrv2d-changes-1.json`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{chown, DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use olsrv2::{
    AttachedView, Counters, EdgeView, LinkView, NeighbourView, NodeView, Prefix, RouteView, Time,
};
use serde_json::{json, Map, Value};

use super::session::{Session, Standing};
use super::state::{name, State};
use crate::reactor::{Reactor, Token};

/// The version of the form; it grows when a reader of the old one would misread the new one.
const SCHEMA: u32 = 1;
/// Readers at a time.
const READERS_MAX: usize = 16;
/// What a reader may leave unread beyond its snapshot, in octets, before it is disconnected.
const BACKLOG_MAX: usize = 1 << 20;
/// Owner and group may connect.
const SOCKET_MODE: u32 = 0o660;
/// The socket's directory: others may look, only the owner may put something there.
const DIRECTORY_MODE: u32 = 0o755;

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
    listener: UnixListener,
    path: PathBuf,
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
        let directory = path.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(directory)?;
        remove_stale(path)?;
        let listener = bind_private(path)?;
        admit(path, group)?;
        listener.set_nonblocking(true)?;
        reactor.add(&listener, Token::ChangesListener)?;
        Ok(Self {
            listener,
            path: path.into(),
            readers: BTreeMap::new(),
            next: 0,
            sequence: 0,
            dropped: 0,
        })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
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
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(true)?;
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

impl Drop for Changes {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            log::debug!("{}: {error}", self.path.display());
        }
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

/// Removes the socket of a dead predecessor; a living one is left alone.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "something other than a socket is there",
        )),
        Ok(_) if UnixStream::connect(path).is_ok() => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens there",
        )),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Binds with no rights for others from the first moment.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    listener
}

/// Lets the owner and a group connect; the process's own group when none is named.
pub fn admit(path: &Path, group: Option<&str>) -> io::Result<()> {
    let group = group.map_or(Ok(rustix::process::getegid().as_raw()), group_id)?;
    chown(path, None, Some(group))?;
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))
}

/// The number of a group, from `/etc/group` (group(5)).
fn group_id(group: &str) -> io::Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string("/etc/group")?;
    let number = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group))
            .then(|| fields.nth(1).and_then(|number| number.parse().ok()))
            .flatten()
    });
    number.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("no group {group:?} in /etc/group"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
        let directory = std::env::temp_dir().join(format!("olsrv2d-test-{}", std::process::id()));
        let path = directory.join("run/changes.sock");
        let reactor = Reactor::new().unwrap();
        let first = Changes::listen(&path, None, &reactor).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            SOCKET_MODE
        );
        let refused = Changes::listen(&path, None, &reactor).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        drop(UnixListener::bind(&path).unwrap());
        assert!(Changes::listen(&path, None, &reactor).is_ok());
        fs::write(&path, "").unwrap();
        assert!(Changes::listen(&path, None, &reactor).is_err());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn an_unknown_group_is_refused() {
        assert_eq!(group_id("root").unwrap(), 0);
        assert_eq!(group_id("1234").unwrap(), 1234);
        assert!(group_id("no such group").is_err());
    }
}
