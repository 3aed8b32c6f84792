//! The control socket: JSON lines; who the node is and how it stands, then what happens. A line `status` asks for how
//! it stands now.
//!
//! The form is `docs/schema/overlayd-control-1.json`.

use std::io;

use daemonkit::{named, Readers, Time};
use overlay_node::{Event, Link, Node, PeerView, PingResult, SessionView};
use serde_json::{json, Map, Value};

use crate::config;
use crate::io::tun::Tun;
use crate::neighbours::link_address;
use crate::port::Port;
use crate::tokens::{Reactor, Token};

/// The version of the form; it grows when a reader of the old one would misread the new one.
const SCHEMA: u32 = 1;
/// What a reader says to be told how the node stands.
const STATUS: &[u8] = b"status";

/// The socket with its readers.
pub struct Control {
    readers: Readers<Token>,
}

impl Control {
    /// Listens; `None` when there is to be none.
    ///
    /// # Errors
    /// The path cannot be made, another process listens there, or the group is unknown.
    pub fn listen(settings: &config::Control, reactor: &Reactor) -> io::Result<Option<Self>> {
        let Some(path) = &settings.socket else {
            return Ok(None);
        };
        let group = settings.group.as_deref();
        let readers = Readers::listen(path, group, reactor, Token::Listener, Token::Reader)
            .map_err(|error| named(&format!("control.socket {}", path.display()), &error))?;
        Ok(Some(Self { readers }))
    }

    /// Takes one waiting reader.
    ///
    /// # Errors
    /// The reader went meanwhile, or there are too many.
    pub fn accept(&mut self, reactor: &Reactor, status: &Value) -> io::Result<()> {
        let greeting = [line(&hello()), line(status)].concat();
        self.readers.accept(reactor, |_| greeting)
    }

    /// Serves a reader that is ready; whether it wants to be told how the node stands.
    pub fn wants_status(&mut self, number: u32, reactor: &Reactor) -> bool {
        let said = self.readers.serve(number, reactor);
        said.iter().any(|line| line == STATUS)
    }

    /// Tells one reader.
    pub fn answer(&mut self, number: u32, reactor: &Reactor, status: &Value) {
        self.readers.answer(number, &line(status), reactor);
    }

    /// Tells all readers of an event.
    pub fn tell(&mut self, reactor: &Reactor, now: Time, event: &Event, ports: &[Port]) {
        let mut told = Map::new();
        told.insert("type".into(), "event".into());
        told.insert("time_us".into(), micros(now));
        if let Value::Object(fields) = describe(event, ports) {
            told.extend(fields);
        }
        self.readers.send(reactor, &line(&Value::from(told)));
    }
}

/// How the node stands.
pub fn status(now: Time, node: &Node, ports: &[Port], tun: Option<&Tun>) -> Value {
    let counters = node.counters();
    let dropped = counters.iter().filter(|(_, count)| *count > 0);
    json!({
        "type": "status",
        "time_us": micros(now),
        "address": node.address().to_string(),
        "key": node.key().to_string(),
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

fn device(tun: &Tun) -> Value {
    json!({
        "name": tun.name(),
        "packets_in": tun.counters.packets_in,
        "pieces_in": tun.counters.pieces_in,
        "packets_out": tun.counters.packets_out,
        "pieces_out": tun.counters.pieces_out,
        "malformed": tun.counters.malformed,
        "refused": tun.counters.refused,
    })
}

fn interface(port: &Port) -> Value {
    let counters = port.counters();
    json!({
        "name": port.name,
        "blocked": port.is_blocked,
        "frames_in": counters.frames_in,
        "calls_in": counters.calls_in,
        "frames_out": counters.frames_out,
        "calls_out": counters.calls_out,
        "stalls": counters.stalls,
        "malformed": counters.malformed,
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
        Event::Pinged { result, .. } => json!({
            "name": "pinged",
            "answered_us": match result {
                PingResult::Answered { time, .. } => micros(*time),
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
