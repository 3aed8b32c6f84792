//! Reads the configuration file `overlayd.toml`: the key of this node, its neighbours, and the interfaces to them.

mod raw;
mod values;

use std::fmt;
use std::net::{SocketAddr, SocketAddrV6};
use std::path::{Path, PathBuf};

use cryptoauth::{Address, PublicKey};
use daemonkit::config::{ConfigError, Fault};
use daemonkit::secrecy::{credentials, refuse_readable};
use overlay_node::{Admission, Beacons};
use serde::Deserialize;
use zeroize::Zeroizing;

use raw::RawConfig;

const KEY_DEFAULT: &str = "/var/lib/meshsec/node.key";
/// Name of the key among the credentials of a service manager.
const KEY_CREDENTIAL: &str = "node.key";

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
    pub permits_by_control: bool,
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

/// Returns the path of the key: a credential of the service manager, else the key of meshsec.
fn default_key() -> PathBuf {
    let given = credentials().map(|directory| directory.join(KEY_CREDENTIAL));
    given
        .filter(|path| path.exists())
        .unwrap_or_else(|| KEY_DEFAULT.into())
}

#[cfg(test)]
mod tests;
