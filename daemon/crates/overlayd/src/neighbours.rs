//! Neighbours to connect to and users that may connect, with what the node itself does not keep: logins, and how a
//! connection was configured.

use std::net::SocketAddrV6;

use cryptoauth::{Address, DuplicateUser, PublicKey, UserId};
use daemonkit::Time;
use overlay_node::{ConnectError, Connection, LinkAddress, Node};

/// Users and connections.
#[derive(Default)]
pub struct Neighbours {
    users: Vec<(UserId, Vec<u8>)>,
    connections: Vec<Connection>,
    by_device: Vec<ByDevice>,
}

/// A neighbour whose address is valid only on the link of a device. The device may appear and disappear.
struct ByDevice {
    connection: Connection,
    address: SocketAddrV6,
    device: String,
    /// Index of the device when it was last present.
    index: Option<u32>,
}

impl Neighbours {
    /// Allows a user to connect.
    ///
    /// # Errors
    /// Another user has this login or this password.
    pub fn add_user(
        &mut self,
        node: &mut Node,
        login: Option<&[u8]>,
        password: &[u8],
        only: Option<Address>,
    ) -> Result<(), DuplicateUser> {
        let id = node.add_user(login, password, only)?;
        self.users.push((id, login.unwrap_or_default().to_vec()));
        Ok(())
    }

    /// Removes the users with a login. Returns how many there were.
    pub fn remove_user(&mut self, now: Time, node: &mut Node, login: &[u8]) -> usize {
        let before = self.users.len();
        self.users.retain(|(id, name)| {
            let goes = name == login;
            if goes {
                node.remove_user(now, *id);
            }
            !goes
        });
        before - self.users.len()
    }

    /// Returns the logins of all users; that of a user without one is empty.
    pub fn logins(&self) -> impl Iterator<Item = &[u8]> {
        self.users.iter().map(|(_, login)| login.as_slice())
    }

    /// Returns the login of a user.
    pub fn login_of(&self, user: UserId) -> Option<&[u8]> {
        let mut users = self.users.iter();
        users.find_map(|(id, login)| (*id == user).then_some(login.as_slice()))
    }

    /// Connects to a node.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub fn connect(
        &mut self,
        now: Time,
        node: &mut Node,
        connection: Connection,
    ) -> Result<(), ConnectError> {
        node.connect(now, connection.clone())?;
        self.connections.retain(|known| known.key != connection.key);
        self.connections.push(connection);
        Ok(())
    }

    /// Connects to a node at an address on the link of a device, as soon as the device is present: see
    /// [`Neighbours::follow_devices`].
    pub fn connect_by(&mut self, connection: Connection, address: SocketAddrV6, device: &str) {
        self.by_device.push(ByDevice {
            connection,
            address,
            device: device.to_owned(),
            index: None,
        });
    }

    /// Connects to the neighbours whose device has appeared or was replaced by another of the same name.
    ///
    /// # Errors
    /// The first [`ConnectError`], with the node's key.
    pub fn follow_devices(
        &mut self,
        now: Time,
        node: &mut Node,
        index_of: impl Fn(&str) -> Option<u32>,
    ) -> Result<(), (PublicKey, ConnectError)> {
        let mut found = Vec::new();
        for one in &mut self.by_device {
            let index = index_of(&one.device);
            if let Some(index) = index.filter(|_| index != one.index) {
                one.index = Some(index);
                let mut address = one.address;
                address.set_scope_id(index);
                found.push(Connection {
                    to: LinkAddress::Udp(address.into()),
                    ..one.connection.clone()
                });
            }
        }
        let mut result = Ok(());
        for connection in found {
            let key = connection.key;
            let connected = self.connect(now, node, connection);
            result = result.and(connected.map_err(|error| (key, error)));
        }
        result
    }

    /// Disconnects from a neighbour. Returns whether there was one.
    pub fn disconnect(&mut self, now: Time, node: &mut Node, key: &PublicKey) -> bool {
        self.connections.retain(|known| known.key != *key);
        self.by_device.retain(|known| known.connection.key != *key);
        node.disconnect(now, key)
    }

    /// Repeats the handshake with the neighbours that have a key, or with all. Incoming neighbours connect again by
    /// themselves.
    pub fn reset(&mut self, now: Time, node: &mut Node, key: Option<PublicKey>) {
        let all: Vec<_> = node.peers(now).map(|peer| peer.key).collect();
        for key in all
            .iter()
            .filter(|&&peer| key.is_none_or(|key| key == peer))
        {
            node.disconnect(now, key);
        }
        for known in &self.connections {
            if all.contains(&known.key) && key.is_none_or(|key| key == known.key) {
                if let Err(error) = node.connect(now, known.clone()) {
                    log::warn!("peer {}: {}", known.key, reason(error));
                }
            }
        }
    }
}

/// Returns why a neighbour cannot be connected to, as text for people.
pub fn reason(error: ConnectError) -> &'static str {
    match error {
        ConnectError::Interface => "there is no such interface",
        ConnectError::Key => "the key is this node's own, or cannot be a node's",
        ConnectError::Address => "another peer has this address",
        ConnectError::Full => "there are too many peers",
    }
}

/// Returns the address of a neighbour, as text for people.
pub fn link_address(address: &LinkAddress) -> String {
    match address {
        LinkAddress::Udp(address) => address.to_string(),
        LinkAddress::Ethernet(mac) => mac.map(|octet| format!("{octet:02x}")).join(":"),
    }
}
