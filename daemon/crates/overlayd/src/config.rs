//! Reads the configuration file `overlayd.toml`: the key of this node, its neighbours, and the interfaces to them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{SocketAddr, SocketAddrV6};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cryptoauth::{Address, PublicKey};
use daemonkit::config::{
    is_interface_name, quoted, ConfigError, Fault, INTERFACE_NAME_MAX, SOCKET_PATH_MAX,
};
use overlay_node::{Admission, Beacons};
use serde::Deserialize;
use toml::Spanned;
use zeroize::Zeroizing;

use crate::node_address::{self, NODE_ADDRESS};

/// Range of the MTU in bytes. IPv6 needs the smallest; with the largest, a frame still fits into a buffer.
const MTU: std::ops::RangeInclusive<i64> = 1280..=1400;
/// Default MTU, as in cjdns. Such a packet is shorter than 1500 bytes with all headers around it.
const MTU_DEFAULT: u16 = 1304;
/// Largest number of interfaces. Bounds sockets and buffers.
const INTERFACES_MAX: usize = 32;
/// Largest number of configured neighbours, as many as a label can name.
const PEERS_MAX: usize = 256;
/// Password that `cjdroute --genconf` writes for the admin API.
const NO_PASSWORD: &str = "NONE";
const KEY_DEFAULT: &str = "/var/lib/meshsec/node.key";
/// Name of the key among the credentials of a service manager.
const KEY_CREDENTIAL: &str = "node.key";
const SOCKET_DEFAULT: &str = "/run/overlayd/control.sock";
const TUN_DEFAULT: &str = "overlay0";
/// Default port of beacons, as in cjdns.
const BEACON_PORT_DEFAULT: u16 = 64512;

/// A checked configuration.
#[derive(Debug)]
pub struct Config {
    /// Path of this node's key, which is the one of meshsec: Ed25519, PKCS#8 in PEM.
    pub key: PathBuf,
    /// Whether to use the Noise handshake with neighbours that support it.
    pub noise: bool,
    /// Nodes with which user data is exchanged.
    pub admission: Admission,
    /// Whether the control socket sets `admission`. Until it does, no user data is exchanged.
    pub is_told: bool,
    /// The TUN device of this machine.
    pub tun: TunSettings,
    /// The control socket.
    pub control: Control,
    /// The admin API of cjdns; `None` if it is off.
    pub admin: Option<Admin>,
    /// Users that may connect.
    pub users: Vec<User>,
    /// The interfaces to other nodes.
    pub interfaces: Vec<Interface>,
}

/// The TUN device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunSettings {
    /// Its name; `None` if there is no device and the node only relays.
    pub name: Option<String>,
    /// Its MTU, in octets.
    pub mtu: u16,
    /// Whether it gets the node's address and with it the route to all nodes. If not, another program sets the routes.
    pub address: bool,
}

/// The control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its path; `None` if there is no socket.
    pub socket: Option<PathBuf>,
    /// Group whose members may connect.
    pub group: Option<String>,
}

/// The admin API.
#[derive(Debug)]
pub struct Admin {
    /// Address on which it listens.
    pub bind: SocketAddr,
    /// Password of the callers. Without one they get only what needs no authentication.
    pub password: Option<Secret>,
}

/// A user that may connect.
#[derive(Debug)]
pub struct User {
    /// The login.
    pub name: Option<String>,
    /// The password.
    pub password: Secret,
    /// Address of the only key that the user may have; `None` if any.
    pub only: Option<Address>,
}

/// An interface to other nodes.
#[derive(Debug)]
pub struct Interface {
    /// What carries its frames.
    pub medium: Medium,
    /// Whether it sends and accepts beacons.
    pub beacons: Beacons,
    /// The configured neighbours.
    pub peers: Vec<Peer>,
}

/// What carries the frames of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// UDP.
    Udp {
        /// The address of the socket.
        bind: SocketAddr,
        /// UDP port of beacons.
        beacon_port: u16,
        /// Devices that send and receive beacons; `all` means every device.
        beacon_devices: Vec<String>,
    },
    /// Ethernet over this device.
    Ethernet(String),
}

/// A configured neighbour.
#[derive(Debug)]
pub struct Peer {
    /// Its address.
    pub address: PeerAddress,
    /// Its key.
    pub key: PublicKey,
    /// Password to send to it, with an optional login.
    pub password: Option<(Option<String>, Secret)>,
    /// Name for people.
    pub name: Option<String>,
}

/// The address of a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// UDP.
    Udp(SocketAddr),
    /// UDP on the link of this device (RFC 4007, section 11).
    UdpBy(SocketAddrV6, String),
    /// Ethernet.
    Ethernet([u8; 6]),
}

/// A password. It is never formatted, and is overwritten when it is dropped.
#[derive(Deserialize)]
#[serde(from = "String")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Returns its bytes.
    pub fn octets(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, has passwords and is readable by others, is not TOML, has an unknown key, or has a
    /// value that is not allowed.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let config = daemonkit::config::load(path, Self::parse)?;
        if config.has_secrets() {
            refuse_readable(path).map_err(|message| ConfigError::of_file(path, message))?;
        }
        Ok(config)
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        daemonkit::config::decode::<RawConfig>(text)?.check()
    }

    fn has_secrets(&self) -> bool {
        let admin = self
            .admin
            .as_ref()
            .is_some_and(|admin| admin.password.is_some());
        let mut peers = self
            .interfaces
            .iter()
            .flat_map(|interface| &interface.peers);
        admin || !self.users.is_empty() || peers.any(|peer| peer.password.is_some())
    }
}

/// Refuses a file with secrets that others than its owner may read. The error says what is allowed.
///
/// A credential of a service manager may be readable by a group to which only this process belongs.
pub fn refuse_readable(path: &Path) -> Result<(), String> {
    let mode = std::fs::metadata(path)
        .map_err(|error| error.to_string())?
        .mode()
        & 0o777;
    let is_credential = credentials().is_some_and(|directory| path.parent() == Some(&*directory));
    let forbidden = if is_credential { 0o007 } else { 0o077 };
    if mode & forbidden == 0 {
        return Ok(());
    }
    Err(format!(
        "it has mode {mode:04o}, so others may read its secrets; allowed: 0600 (chmod 600 {})",
        path.display()
    ))
}

/// Returns the directory of the credentials from the service manager (systemd.exec(5)).
fn credentials() -> Option<PathBuf> {
    std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from)
}

/// Returns the path of the key: a credential of the service manager, else the key of meshsec.
fn default_key() -> PathBuf {
    let given = credentials().map(|directory| directory.join(KEY_CREDENTIAL));
    given
        .filter(|path| path.exists())
        .unwrap_or_else(|| KEY_DEFAULT.into())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    key: Option<Spanned<String>>,
    #[serde(default)]
    noise: bool,
    permit: Option<Spanned<RawPermit>>,
    #[serde(default)]
    tun: RawTun,
    #[serde(default)]
    control: RawControl,
    admin: Option<RawAdmin>,
    #[serde(default)]
    user: Vec<RawUser>,
    #[serde(default)]
    udp: Vec<RawUdp>,
    #[serde(default)]
    ethernet: Vec<RawEthernet>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "\"anybody\", \"control\" or a list of addresses"
)]
enum RawPermit {
    Word(String),
    Addresses(Vec<String>),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTun {
    name: Option<Spanned<String>>,
    mtu: Option<Spanned<i64>>,
    address: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawControl {
    socket: Option<Spanned<String>>,
    group: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAdmin {
    bind: Spanned<String>,
    password: Option<Spanned<Secret>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUser {
    name: Option<String>,
    password: Secret,
    address: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUdp {
    bind: Spanned<String>,
    beacon: Option<Spanned<String>>,
    beacon_port: Option<Spanned<i64>>,
    #[serde(default)]
    beacon_devices: Vec<Spanned<String>>,
    #[serde(default)]
    peer: Vec<RawPeer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEthernet {
    device: Spanned<String>,
    beacon: Option<Spanned<String>>,
    #[serde(default)]
    peer: Vec<RawPeer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPeer {
    address: Spanned<String>,
    key: Spanned<String>,
    password: Option<Secret>,
    login: Option<String>,
    name: Option<String>,
}

impl RawConfig {
    fn check(self) -> Result<Config, Fault> {
        let key = match &self.key {
            Some(path) => absolute("key", path)?,
            None => default_key(),
        };
        let mut interfaces = Vec::new();
        for udp in self.udp {
            interfaces.push(udp.check()?);
        }
        for ethernet in self.ethernet {
            interfaces.push(ethernet.check()?);
        }
        if interfaces.len() > INTERFACES_MAX {
            return Err(Fault::whole(format!(
                "{} tables [[udp]] and [[ethernet]]; allowed: {INTERFACES_MAX}",
                interfaces.len()
            )));
        }
        let peers: usize = interfaces
            .iter()
            .map(|interface| interface.peers.len())
            .sum();
        if peers > PEERS_MAX {
            return Err(Fault::whole(format!("{peers} peers; allowed: {PEERS_MAX}")));
        }
        Ok(Config {
            key,
            noise: self.noise,
            admission: self.permit.as_ref().map_or_else(nobody, admission)?,
            is_told: matches!(self.permit.as_ref().map(Spanned::as_ref), Some(RawPermit::Word(word)) if word == CONTROL),
            tun: self.tun.check()?,
            control: self.control.check()?,
            admin: self.admin.map(RawAdmin::check).transpose()?,
            users: self
                .user
                .into_iter()
                .map(RawUser::check)
                .collect::<Result<_, _>>()?,
            interfaces,
        })
    }
}

impl RawTun {
    fn check(&self) -> Result<TunSettings, Fault> {
        let mtu = match &self.mtu {
            None => MTU_DEFAULT,
            Some(mtu) if MTU.contains(mtu.as_ref()) => *mtu.as_ref() as u16,
            Some(mtu) => {
                let allowed = format!("{} to {} octets", MTU.start(), MTU.end());
                return Err(Fault::value("tun.mtu", mtu, mtu.as_ref(), allowed));
            }
        };
        let name = match self
            .name
            .as_ref()
            .map(|name| (name, name.as_ref().as_str()))
        {
            None => Some(TUN_DEFAULT.to_owned()),
            Some((_, "off")) => None,
            Some((name, _)) => Some(device("tun.name", name)?),
        };
        let address = self.address.unwrap_or(true);
        Ok(TunSettings { name, mtu, address })
    }
}

impl RawControl {
    fn check(&self) -> Result<Control, Fault> {
        let socket = match &self.socket {
            None => Some(SOCKET_DEFAULT.into()),
            Some(path) if path.as_ref() == "off" => None,
            Some(path) if path.as_ref().len() <= SOCKET_PATH_MAX => {
                Some(absolute("control.socket", path)?)
            }
            Some(path) => {
                let allowed = format!("at most {SOCKET_PATH_MAX} octets");
                return Err(Fault::value("control.socket", path, quoted(path), allowed));
            }
        };
        Ok(Control {
            socket,
            group: self.group.clone(),
        })
    }
}

impl RawAdmin {
    fn check(self) -> Result<Admin, Fault> {
        let bind = socket_address("admin.bind", &self.bind)?;
        if !bind.ip().is_loopback() {
            // Each request is authenticated, but anybody on the way can read it.
            let allowed =
                "an address of the loopback interface and a port, such as 127.0.0.1:11234";
            let shown = quoted(&self.bind);
            return Err(Fault::value("admin.bind", &self.bind, shown, allowed));
        }
        if let Some(password) = &self.password {
            if [NO_PASSWORD, ""].contains(&password.as_ref().0.as_str()) {
                // In cjdns, this password admits everybody who can reach the socket.
                let allowed = "another password, or none: then nothing that needs one is answered";
                let shown = format!("{:?}", password.as_ref().0.as_str());
                return Err(Fault::value("admin.password", password, shown, allowed));
            }
        }
        Ok(Admin {
            bind,
            password: self.password.map(Spanned::into_inner),
        })
    }
}

impl RawUser {
    fn check(self) -> Result<User, Fault> {
        let only = self.address.as_ref().map(|text| {
            node_address::read(text.as_ref())
                .ok_or_else(|| Fault::value("user.address", text, quoted(text), NODE_ADDRESS))
        });
        Ok(User {
            name: self.name,
            password: self.password,
            only: only.transpose()?,
        })
    }
}

impl RawUdp {
    fn check(self) -> Result<Interface, Fault> {
        let bind = socket_address("udp.bind", &self.bind)?;
        let address = |text: &Spanned<String>| {
            let address = match scoped_address(text.as_ref()) {
                Some((address, device)) if bind.is_ipv6() && address.port() != 0 => {
                    return Ok(PeerAddress::UdpBy(address, device));
                }
                Some((address, _)) => address.into(),
                None => socket_address("udp.peer.address", text)?,
            };
            let is_whole = !is_link_local(&address) && address.port() != 0;
            if address.is_ipv4() == bind.is_ipv4() && is_whole {
                return Ok(PeerAddress::Udp(address));
            }
            let allowed = "an address of the same family as udp.bind, and a port; one in fe80::/10 with its device, \
                           such as [fe80::1%mesh0]:33808";
            Err(Fault::value(
                "udp.peer.address",
                text,
                quoted(text),
                allowed,
            ))
        };
        let beacon_port = match &self.beacon_port {
            None => BEACON_PORT_DEFAULT,
            Some(port) => u16::try_from(*port.as_ref())
                .ok()
                .filter(|&port| port > 0)
                .ok_or_else(|| {
                    Fault::value("udp.beacon_port", port, port.as_ref(), "1 to 65535")
                })?,
        };
        let beacons = beacons("udp.beacon", self.beacon.as_ref())?;
        if let Some(raw) = self.beacon.filter(|_| beacons != Beacons::Off) {
            if self.beacon_devices.is_empty() || bind.is_ipv6() {
                let allowed =
                    "\"off\" without beacon_devices, and with an IPv6 address as udp.bind";
                return Err(Fault::value("udp.beacon", &raw, quoted(&raw), allowed));
            }
        }
        let devices = self.beacon_devices.iter();
        let devices = devices.map(|name| device("udp.beacon_devices", name));
        Ok(Interface {
            beacons,
            peers: peers("udp.peer.key", self.peer, address)?,
            medium: Medium::Udp {
                bind,
                beacon_port,
                beacon_devices: devices.collect::<Result<_, _>>()?,
            },
        })
    }
}

impl RawEthernet {
    fn check(self) -> Result<Interface, Fault> {
        let address = |text: &Spanned<String>| {
            mac(text.as_ref())
                .map(PeerAddress::Ethernet)
                .ok_or_else(|| {
                    let allowed = "an address of one device, such as 02:00:5e:10:00:01";
                    Fault::value("ethernet.peer.address", text, quoted(text), allowed)
                })
        };
        Ok(Interface {
            medium: Medium::Ethernet(device("ethernet.device", &self.device)?),
            beacons: beacons("ethernet.beacon", self.beacon.as_ref())?,
            peers: peers("ethernet.peer.key", self.peer, address)?,
        })
    }
}

/// Value of `permit` with which the control socket says who is permitted.
const CONTROL: &str = "control";

/// Default of `permit`: no user data with any node.
fn nobody() -> Result<Admission, Fault> {
    Ok(Admission::Only(BTreeSet::new()))
}

fn admission(raw: &Spanned<RawPermit>) -> Result<Admission, Fault> {
    let refuse = |shown: &String| {
        let allowed = "\"anybody\", \"control\", or a list of addresses in fc00::/8";
        Fault::value("permit", raw, format!("{shown:?}"), allowed)
    };
    match raw.as_ref() {
        RawPermit::Word(word) if word == "anybody" => Ok(Admission::Anybody),
        RawPermit::Word(word) if word == CONTROL => nobody(),
        RawPermit::Word(word) => Err(refuse(word)),
        RawPermit::Addresses(texts) => {
            let addresses = texts
                .iter()
                .map(|text| node_address::read(text).ok_or_else(|| refuse(text)));
            Ok(Admission::Only(addresses.collect::<Result<_, _>>()?))
        }
    }
}

fn peers(
    key_name: &str,
    raw: Vec<RawPeer>,
    address: impl Fn(&Spanned<String>) -> Result<PeerAddress, Fault>,
) -> Result<Vec<Peer>, Fault> {
    let check = |peer: RawPeer| {
        let key = public_key(key_name, &peer.key)?;
        let password = peer.password.map(|password| (peer.login, password));
        Ok(Peer {
            address: address(&peer.address)?,
            key,
            password,
            name: peer.name,
        })
    };
    raw.into_iter().map(check).collect()
}

fn public_key(name: &str, raw: &Spanned<String>) -> Result<PublicKey, Fault> {
    let checked = raw.as_ref().parse::<PublicKey>();
    checked
        .and_then(|key| key.node_address().map(|_| key))
        .map_err(|error| {
            let allowed = format!("a public key, 52 characters and .k ({error})");
            Fault::value(name, raw, quoted(raw), allowed)
        })
}

fn beacons(name: &str, raw: Option<&Spanned<String>>) -> Result<Beacons, Fault> {
    let Some(raw) = raw else {
        return Ok(Beacons::Off);
    };
    match raw.as_ref().as_str() {
        "off" => Ok(Beacons::Off),
        "accept" => Ok(Beacons::Accept),
        "send" => Ok(Beacons::Send),
        _ => {
            let allowed = "\"off\", \"accept\", \"send\"";
            Err(Fault::value(name, raw, quoted(raw), allowed))
        }
    }
}

fn device(key: &str, raw: &Spanned<String>) -> Result<String, Fault> {
    if is_interface_name(raw.as_ref()) {
        return Ok(raw.as_ref().clone());
    }
    let allowed = format!(
        "the name of a device, 1 to {INTERFACE_NAME_MAX} octets without space, slash or colon; not lo"
    );
    Err(Fault::value(key, raw, quoted(raw), allowed))
}

fn absolute(key: &str, raw: &Spanned<String>) -> Result<PathBuf, Fault> {
    let path = PathBuf::from(raw.as_ref());
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Fault::value(key, raw, quoted(raw), "an absolute path"))
}

fn socket_address(key: &str, raw: &Spanned<String>) -> Result<SocketAddr, Fault> {
    raw.as_ref().parse().map_err(|_| {
        let allowed = "an address and a port, such as 192.0.2.1:33808 or [2001:db8::1]:33808";
        Fault::value(key, raw, quoted(raw), allowed)
    })
}

/// Parses a link-local address and the device that leads to it.
fn scoped_address(text: &str) -> Option<(SocketAddrV6, String)> {
    let (before, rest) = text.split_once('%')?;
    let (device, after) = rest.split_once(']')?;
    let address: SocketAddrV6 = format!("{before}]{after}").parse().ok()?;
    let is_sound = is_interface_name(device) && is_link_local(&address.into());
    is_sound.then(|| (address, device.to_owned()))
}

fn is_link_local(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(address) if address.ip().is_unicast_link_local())
}

/// Parses the address of one device: six hexadecimal bytes joined by colons, not a group address.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    (parts.next().is_none() && mac[0] & 1 == 0 && !text.contains('+')).then_some(mac)
}

#[cfg(test)]
mod tests;
