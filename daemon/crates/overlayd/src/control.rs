//! The control socket. A reader gets JSON lines: a greeting, the status, and then every event. A line `status` requests
//! the present status, and commands ([`crate::commands`]) change with whom the node exchanges data. Whoever may connect
//! may read, but only root and the user of this process may send commands.
//!
//! The format is specified in `docs/reference/schema/overlayd-control-1.json`.

use std::io;

use daemonkit::{named, Readers, Time};
use overlay_node::{Admission, Event, Link, Node, PeerView, PingResult, SessionView};
use serde_json::{json, Map, Value};

use crate::admin::Admin;
use crate::commands::{self, Said};
use crate::config;
use crate::io::peer_user;
use crate::io::tun::Tun;
use crate::neighbours::link_address;
use crate::port::Port;
use crate::tokens::{Reactor, Token};

/// Version of the format. It increases when a reader of the old one would misread the new one.
const SCHEMA: u32 = 1;
const ROOT: u32 = 0;

/// The socket and its readers.
pub struct Control {
    readers: Readers<Token>,
}

impl Control {
    /// Listens; `None` if no socket is configured.
    ///
    /// # Errors
    /// The path cannot be created, another process listens there, or the group is unknown.
    pub fn listen(settings: &config::Control, reactor: &Reactor) -> io::Result<Option<Self>> {
        let Some(path) = &settings.socket else {
            return Ok(None);
        };
        let group = settings.group.as_deref();
        let readers = Readers::listen(path, group, reactor, Token::Listener, Token::Reader)
            .map_err(|error| named(&format!("control.socket {}", path.display()), &error))?;
        Ok(Some(Self { readers }))
    }

    /// Accepts one waiting reader.
    ///
    /// # Errors
    /// The reader has disconnected, or there are too many readers.
    pub fn accept(&mut self, reactor: &Reactor, status: &Value) -> io::Result<()> {
        let greeting = [line(&hello()), line(status)].concat();
        self.readers.accept(reactor, |_| greeting)
    }

    /// Serves a reader that is ready. Returns its lines, or why a line is refused.
    pub fn serve(&mut self, number: u32, reactor: &Reactor) -> Vec<Result<Said, String>> {
        let said = self.readers.serve(number, reactor);
        said.iter().map(|line| commands::read(line)).collect()
    }

    /// Checks that a reader may send commands.
    ///
    /// # Errors
    /// The reader may not; the message says who may.
    pub fn may_command(&self, number: u32) -> Result<(), String> {
        let connection = self.readers.connection(number);
        let user = connection.and_then(|connection| peer_user(connection).ok());
        let own = rustix::process::geteuid().as_raw();
        match user {
            Some(user) if [ROOT, own].contains(&user) => Ok(()),
            Some(user) => Err(format!(
                "user {user} may read only; allowed: root and the user of this process"
            )),
            None => Err("the user of this connection is unknown; allowed: root and the user of this process".into()),
        }
    }

    /// Sends a line to one reader.
    pub fn answer(&mut self, number: u32, reactor: &Reactor, report: &Value) {
        self.readers.answer(number, &line(report), reactor);
    }

    /// Sends an event to all readers.
    pub fn publish(&mut self, reactor: &Reactor, now: Time, event: &Event, ports: &[Port]) {
        let mut report = Map::new();
        report.insert("type".into(), "event".into());
        report.insert("time_us".into(), micros(now));
        if let Value::Object(fields) = describe(event, ports) {
            report.extend(fields);
        }
        self.readers.send(reactor, &line(&Value::from(report)));
    }
}

/// Returns the answer to a command; a line that is not a command has no name.
pub fn answer(command: Option<&str>, result: &Result<usize, String>) -> Value {
    match result {
        Ok(count) => json!({"type": "done", "command": command, "count": count}),
        Err(reason) => json!({"type": "refused", "command": command, "reason": reason}),
    }
}

/// Returns the status of the node. `permits_by_control` says that the control socket sets who is permitted.
pub fn status(
    now: Time,
    node: &Node,
    permits_by_control: bool,
    ports: &[Port],
    tun: Option<&Tun>,
) -> Value {
    let counters = node.counters();
    let dropped = counters.iter().filter(|(_, count)| *count > 0);
    json!({
        "type": "status",
        "time_us": micros(now),
        "address": node.address().to_string(),
        "key": node.key().to_string(),
        "permit": permit(node.admission(), permits_by_control),
        "kept": node.kept().map(|(address, up)| json!({"address": address.to_string(), "up": up})).collect::<Value>(),
        "tun": tun.map(device),
        "interfaces": ports.iter().map(interface).collect::<Value>(),
        "peers": node.peers(now).map(|view| peer(&view, ports)).collect::<Value>(),
        "sessions": node.sessions().map(|view| session(&view)).collect::<Value>(),
        "forwarded": counters.forwarded,
        "delivered": counters.delivered,
        "sent": counters.sent,
        "dropped": dropped.map(|(cause, count)| (cause.name().to_owned(), count.into())).collect::<Map<_, _>>(),
    })
}

fn hello() -> Value {
    json!({
        "type": "hello",
        "schema": SCHEMA,
        "software": "overlayd",
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
    })
}

fn permit(admission: &Admission, permits_by_control: bool) -> Value {
    match admission {
        Admission::Anybody => "anybody".into(),
        Admission::Only(addresses) => json!({
            "by": if permits_by_control { "control" } else { "file" },
            "addresses": addresses.len(),
        }),
    }
}

fn device(tun: &Tun) -> Value {
    json!({
        "name": tun.name(),
        "index": tun.index(),
        "mtu": tun.mtu(),
        "packets_in": tun.counters.packets_in,
        "pieces_in": tun.counters.pieces_in,
        "packets_out": tun.counters.packets_out,
        "pieces_out": tun.counters.pieces_out,
        "malformed": tun.counters.malformed,
        "refused": tun.counters.refused,
    })
}

/// Returns the status of the admin API: its address, and the number of requests by their result.
pub fn api(admin: &Admin) -> Value {
    let counters = admin.counters().all();
    let counters = counters.map(|(name, count)| (name.to_owned(), count.into()));
    let mut report = Map::from_iter([("bind".to_owned(), admin.bound().to_string().into())]);
    report.extend(counters);
    report.into()
}

fn interface(port: &Port) -> Value {
    let counters = port.counters();
    json!({
        "name": port.name,
        "there": port.is_there(),
        "blocked": port.is_blocked,
        "frames_in": counters.frames_in,
        "calls_in": counters.calls_in,
        "frames_out": counters.frames_out,
        "calls_out": counters.calls_out,
        "stalls": counters.stalls,
        "malformed": counters.malformed,
        "oversize": counters.oversize,
        "refused": counters.refused,
        "overflow": counters.overflow,
    })
}

fn peer(view: &PeerView, ports: &[Port]) -> Value {
    json!({
        "key": view.key.to_string(),
        "address": view.address.to_string(),
        "interface": name_of(ports, view.interface.number()),
        "at": link_address(&view.link_address),
        "state": view.state.name().to_lowercase(),
        "label": view.label.map(|label| label.to_string()),
        "version": view.version,
        "incoming": view.incoming,
        "link": match view.link {
            Link::CryptoAuth => "cryptoauth",
            Link::Noise => "noise",
        },
        "heard_us": micros(view.heard),
        "latency_us": view.latency.map(micros),
        "octets_in": view.octets_in,
        "octets_out": view.octets_out,
        "kbps_in": view.kbps_in,
        "kbps_out": view.kbps_out,
        "frames_in": view.frames_in,
        "frames_out": view.frames_out,
    })
}

fn session(view: &SessionView) -> Value {
    json!({
        "key": view.state.key.to_string(),
        "address": view.state.address.to_string(),
        "ready": view.state.ready,
        "way": view.way.map(|label| label.to_string()),
        "used_us": micros(view.state.used),
        "packets_in": view.state.packets,
    })
}

fn describe(event: &Event, ports: &[Port]) -> Value {
    match event {
        Event::PeerUp {
            key,
            label,
            interface,
            address,
        } => json!({
            "name": "peer-up",
            "key": key.to_string(),
            "label": label.to_string(),
            "interface": name_of(ports, interface.number()),
            "at": link_address(address),
        }),
        Event::PeerDown { key, label } => json!({
            "name": "peer-down",
            "key": key.to_string(),
            "label": label.to_string(),
        }),
        Event::PeerMoved {
            key,
            interface,
            address,
        } => json!({
            "name": "peer-moved",
            "key": key.to_string(),
            "interface": name_of(ports, interface.number()),
            "at": link_address(address),
        }),
        Event::SessionUp(address) => {
            json!({"name": "session-up", "address": address.to_string()})
        }
        Event::WayFound { address, label } => json!({
            "name": "way-found",
            "address": address.to_string(),
            "label": label.to_string(),
        }),
        Event::WayLost(address) => json!({"name": "way-lost", "address": address.to_string()}),
        Event::NotFound(address) => json!({"name": "not-found", "address": address.to_string()}),
        Event::KeptUp(address) => json!({"name": "kept-up", "address": address.to_string()}),
        Event::KeptDown(address) => json!({"name": "kept-down", "address": address.to_string()}),
        Event::Pinged { result, .. } => json!({
            "name": "pinged",
            "answered_us": match result {
                PingResult::Answered { time, .. } => micros(*time),
                PingResult::Replied(reply) => micros(reply.time),
                PingResult::Refused(_) | PingResult::TimedOut => Value::Null,
            },
        }),
    }
}

fn name_of(ports: &[Port], number: u16) -> &str {
    let port = ports.get(usize::from(number));
    port.map_or("?", |port| port.name.as_str())
}

fn line(value: &Value) -> Vec<u8> {
    let mut octets = value.to_string().into_bytes();
    octets.push(b'\n');
    octets
}

fn micros(time: Time) -> Value {
    (time.as_micros() as u64).into()
}
