//! Opening what the configuration names.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use cryptoauth::{Credential, PrivateKey};
use daemonkit::{named, now, Time};
use overlay_node::{Connection, Limits, LinkAddress, Node, Timing};
use rand_core::{OsRng, UnwrapErr};

use super::ciphers;
use crate::config::{Config, Interface, Peer, PeerAddress, User};
use crate::io::links;
use crate::io::tun::Tun;
use crate::neighbours::{reason, Neighbours};
use crate::port::Port;
use crate::tokens::{Reactor, Token};

/// Returns the initial configuration of the node.
pub(super) fn settings(config: &Config, key: PrivateKey, now: Time) -> overlay_node::Config {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    overlay_node::Config {
        key,
        ciphers: ciphers(),
        unix_at_zero: unix.unwrap_or_default().saturating_sub(now),
        noise: config.noise,
        admission: config.admission.clone(),
        limits: Limits::default(),
        timing: Timing::default(),
    }
}

pub(super) fn open_ports(
    interfaces: &[Interface],
    node: &mut Node,
    rng: &mut UnwrapErr<OsRng>,
    reactor: &Reactor,
) -> io::Result<Vec<Port>> {
    let mut ports = Vec::new();
    for (number, interface) in (0..).zip(interfaces) {
        let id = node.add_interface(now(), rng, interface.beacons);
        let port = Port::open(id, interface)?;
        watch(reactor, number, &port, true, 0)?;
        ports.push(port);
    }
    Ok(ports)
}

/// Watches the socket of an interface if it is new, and its beacon sockets after the first `known`.
pub(super) fn watch(
    reactor: &Reactor,
    number: u16,
    port: &Port,
    is_new: bool,
    known: usize,
) -> io::Result<()> {
    if let Some(descriptor) = port.descriptor().filter(|_| is_new) {
        reactor.add(descriptor, Token::Port(number))?;
    }
    for beacons in port.beacons().iter().skip(known) {
        reactor.add(beacons, Token::Beacon(number))?;
    }
    Ok(())
}

pub(super) fn add_users(
    neighbours: &mut Neighbours,
    node: &mut Node,
    users: &[User],
) -> io::Result<()> {
    for user in users {
        let name = user.name.as_deref();
        let (login, password) = (name.map(str::as_bytes), user.password.octets());
        neighbours
            .add_user(node, login, password, user.only)
            .map_err(|error| invalid(&format!("user {:?}", name.unwrap_or_default()), error))?;
    }
    Ok(())
}

pub(super) fn connect(
    neighbours: &mut Neighbours,
    node: &mut Node,
    interfaces: &[Interface],
    ports: &[Port],
) -> io::Result<()> {
    for (interface, port) in interfaces.iter().zip(ports) {
        for peer in &interface.peers {
            let connection = Connection {
                interface: port.id,
                to: match peer.address {
                    PeerAddress::Udp(address) => LinkAddress::Udp(address),
                    PeerAddress::UdpBy(address, _) => LinkAddress::Udp(address.into()),
                    PeerAddress::Ethernet(mac) => LinkAddress::Ethernet(mac),
                },
                key: peer.key,
                credential: credential(peer),
            };
            if let PeerAddress::UdpBy(address, device) = &peer.address {
                neighbours.connect_by(connection, *address, device);
                continue;
            }
            let name = peer.name.as_deref().unwrap_or("without a name");
            let what = format!("{}: peer {name}, {}", port.name, peer.key);
            neighbours
                .connect(now(), node, connection)
                .map_err(|error| invalid(&what, reason(error)))?;
        }
    }
    let connected = neighbours.follow_devices(now(), node, device_index);
    connected.map_err(|(key, error)| invalid(&format!("peer {key}"), reason(error)))
}

pub(super) fn device_index(name: &str) -> Option<u32> {
    links::index_of(name).ok().flatten()
}

pub(super) fn credential(peer: &Peer) -> Option<Credential> {
    let (login, password) = peer.password.as_ref()?;
    Some(match login {
        Some(login) => Credential::login(login.as_bytes(), password.octets()),
        None => Credential::password(password.octets()),
    })
}

pub(super) fn open_tun(config: &Config, node: &Node, reactor: &Reactor) -> io::Result<Option<Tun>> {
    let Some(name) = &config.tun.name else {
        return Ok(None);
    };
    let mut tun = Tun::open(name).map_err(|error| named(&format!("tun {name}"), &error))?;
    let address = config.tun.address.then(|| node.address().into());
    tun.configure(address, config.tun.mtu)
        .map_err(|error| named(&format!("tun {name}"), &error))?;
    reactor.add(&tun, Token::Tun)?;
    Ok(Some(tun))
}

pub(super) fn invalid(what: &str, error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what}: {error}"))
}
