//! The change stream: JSON lines over a UNIX socket. A reader gets a snapshot and then every change.
//!
//! The format is specified in `docs/reference/schema/olsrv2d-changes-1.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use daemonkit::Readers;
use olsrv2::{Counters, Time, TrustedKey};
use serde::Deserialize;
use serde_json::{json, Map, Value};

use super::avoided::{checked, Avoided};
use super::change_lines::{
    counters, describe, hello, line, micros, snapshot, DaemonCounters, Names, Object,
};
use super::portions::{Portion, Portions};
use super::state::State;
use super::trusted_keys::NamedKey;
use crate::attachments::Named;
use crate::reactor::{Reactor, Token};

/// The listening socket and its readers.
pub struct Changes {
    readers: Readers<Token>,
    sequence: u64,
    /// Trusted addresses and keys of commands of which not all portions have arrived.
    trusted: Portions<()>,
    keys: Portions<TrustedKey>,
}

/// A request of a reader.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Trust these addresses and no others.
    Trust(BTreeSet<IpAddr>),
    /// Believe what these keys have signed under their addresses, and nothing else under these.
    Keys(BTreeMap<IpAddr, TrustedKey>),
    /// Send the recent refusals.
    Refusals,
    /// Send the counters.
    Counters,
    /// Announce these networks too.
    Attach(Vec<Named>),
    /// Announce these prefixes no longer.
    Withdraw(Vec<String>),
    /// Avoid these neighbours as relays for so long, and no others.
    Avoid(BTreeMap<IpAddr, Duration>),
}

/// A line that a reader sent.
#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    Trust {
        addresses: BTreeSet<IpAddr>,
        portion: Option<u64>,
        #[serde(default)]
        more: bool,
    },
    Keys {
        keys: Vec<NamedKey>,
        portion: Option<u64>,
        #[serde(default)]
        more: bool,
    },
    Refusals,
    Counters,
    Attach {
        networks: Vec<Named>,
    },
    Withdraw {
        prefixes: Vec<String>,
    },
    Avoid {
        neighbours: Vec<Avoided>,
    },
}

impl Command {
    /// Returns the right that a reader needs for the command; `None` if every reader may send it.
    fn right(&self) -> Option<&'static str> {
        match self {
            Self::Trust { .. } | Self::Keys { .. } => {
                Some("only root and olsrv2d's own user may say whom to trust")
            }
            Self::Attach { .. } | Self::Withdraw { .. } => {
                Some("only root and olsrv2d's own user may attach and withdraw networks")
            }
            Self::Avoid { .. } => {
                Some("avoid: only root and olsrv2d's own user may say which relays to avoid")
            }
            Self::Refusals | Self::Counters => None,
        }
    }
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
            trusted: Portions::new("trust"),
            keys: Portions::new("keys"),
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
        self.keys.clear();
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
                Err(reason) => self.refuse(reactor, number, &reason),
            }
        }
        if self.readers.connection(number).is_none() {
            self.trusted.forget(number);
            self.keys.forget(number);
        }
        requests
    }

    fn read(&mut self, number: u32, said: &[u8]) -> Result<Option<Request>, String> {
        let command: Command = serde_json::from_slice(said).map_err(|error| {
            self.trusted.break_off(number);
            self.keys.break_off(number);
            error.to_string()
        })?;
        if let Some(right) = command.right().filter(|_| !self.may_command(number)) {
            return Err(right.into());
        }
        match command {
            Command::Refusals => Ok(Some(Request::Refusals)),
            Command::Counters => Ok(Some(Request::Counters)),
            Command::Attach { networks } => Ok(Some(Request::Attach(networks))),
            Command::Withdraw { prefixes } => Ok(Some(Request::Withdraw(prefixes))),
            Command::Avoid { neighbours } => Ok(Some(Request::Avoid(checked(&neighbours)?))),
            Command::Keys {
                keys,
                portion,
                more,
            } => {
                let named = keys.iter();
                let named = named.map(|named| Ok((named.address, named.trusted()?)));
                let all = self
                    .keys
                    .add(number, Portion { portion, more }, named.collect());
                Ok(all?.map(Request::Keys))
            }
            Command::Trust {
                addresses,
                portion,
                more,
            } => {
                let named = addresses.into_iter().map(|address| Ok((address, ())));
                let all = self
                    .trusted
                    .add(number, Portion { portion, more }, named.collect());
                Ok(all?.map(|all| Request::Trust(all.into_keys().collect())))
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

    /// Answers one reader that its command is not carried out.
    pub fn refuse(&mut self, reactor: &Reactor, number: u32, reason: &str) {
        let refused = json!({"type": "refused", "reason": reason});
        self.readers.answer(number, &line(&refused), reactor);
    }

    /// Sends the recent refusals to one reader.
    pub fn publish_refusals(&mut self, reactor: &Reactor, number: u32, now: Time, refusals: Value) {
        let reported = json!({"type": "refusals", "time_us": micros(now), "refusals": refusals});
        self.readers.answer(number, &line(&reported), reactor);
    }

    /// Sends the counters to one reader.
    pub fn publish_counters(
        &mut self,
        reactor: &Reactor,
        number: u32,
        now: Time,
        router: &Counters,
        daemon: DaemonCounters,
    ) {
        let counted = counters(router, daemon, self.readers.dropped());
        let reported = json!({"type": "counters", "time_us": micros(now), "counters": counted});
        self.readers.answer(number, &line(&reported), reactor);
    }

    /// Sends a change that was decided at `now` to all readers.
    pub fn publish(
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
