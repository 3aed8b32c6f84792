//! Opening the configured management interfaces.

use std::io;
use std::path::PathBuf;

use daemonkit::{named, now};

use super::changes::Changes;
use super::text::{Query, Telnet};
use crate::config::Management;
use crate::reactor::Reactor;

/// Opens the text interface on the configured port.
///
/// # Errors
/// Names the key, its value and why the system refuses it.
pub fn telnet(management: &Management, reactor: &Reactor) -> io::Result<Option<Telnet>> {
    let open = |address| {
        Telnet::port(address, reactor, now())
            .map_err(|error| named(&format!("management.telnet {address}"), &error))
    };
    management.telnet.map(open).transpose()
}

/// Opens the text interface on the configured UNIX socket.
///
/// # Errors
/// Names the key, its value and why the system refuses it.
pub fn query(management: &Management, reactor: &Reactor) -> io::Result<Option<Query>> {
    let group = management.socket_group.as_deref();
    let open = |path: &PathBuf| {
        Query::socket(path, group, reactor, now())
            .map_err(|error| named(&format!("management.query {}", path.display()), &error))
    };
    management.query.as_ref().map(open).transpose()
}

/// Opens the change stream on the configured UNIX socket.
///
/// # Errors
/// Names the key, its value and why the system refuses it.
pub fn changes(management: &Management, reactor: &Reactor) -> io::Result<Option<Changes>> {
    let group = management.socket_group.as_deref();
    let open = |path: &PathBuf| {
        Changes::listen(path, group, reactor)
            .map_err(|error| named(&format!("management.socket {}", path.display()), &error))
    };
    management.socket.as_ref().map(open).transpose()
}
