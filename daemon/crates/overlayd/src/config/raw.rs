//! The tables of the configuration file, and how each is checked.

use daemonkit::config::{quoted, Fault, SOCKET_PATH_MAX};
use overlay_node::{Admission, Beacons};
use serde::Deserialize;
use std::ops::RangeInclusive;
use toml::Spanned;

use super::values::{
    absolute, beacons, device, is_link_local, mac, nobody, public_key, scoped_address,
    socket_address,
};
use super::{
    default_key, Admin, Config, Control, Interface, Medium, Peer, PeerAddress, Secret, TunSettings,
    User,
};
use crate::node_address::{self, NODE_ADDRESS};

/// Range of the MTU in bytes. IPv6 needs the smallest; with the largest, a frame still fits into a buffer.
const MTU: RangeInclusive<i64> = 1280..=1400;
/// Default MTU, as in cjdns. Such a packet is shorter than 1500 bytes with all headers around it.
const MTU_DEFAULT: u16 = 1304;
/// Largest number of interfaces. Bounds sockets and buffers.
const INTERFACES_MAX: usize = 32;
/// Largest number of configured neighbours, as many as a label can name.
const PEERS_MAX: usize = 256;
/// Password that `cjdroute --genconf` writes for the admin API.
const NO_PASSWORD: &str = "NONE";
const SOCKET_DEFAULT: &str = "/run/overlayd/control.sock";
pub(super) const TUN_DEFAULT: &str = "overlay0";
/// Default port of beacons, as in cjdns.
const BEACON_PORT_DEFAULT: u16 = 64512;
/// Value of `permit` with which the control socket says who is permitted.
const CONTROL: &str = "control";

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
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
    /// Checks all values.
    pub(super) fn check(self) -> Result<Config, Fault> {
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
            permits_by_control: matches!(self.permit.as_ref().map(Spanned::as_ref), Some(RawPermit::Word(word)) if word == CONTROL),
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
