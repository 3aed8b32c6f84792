//! Management: interfaces, users, configured neighbours, and what the caller can see.

use alloc::vec::Vec;
use core::fmt;

use cryptoauth::{Address, Credential, DuplicateUser, PublicKey, Session, UserId};
use overlay::{Contact, Query, Store};
use rand_core::CryptoRng;

use super::Node;
use crate::config::Admission;
use crate::counters::Counters;
use crate::interface::{Beacons, InterfaceId, LinkAddress, Schedule};
use crate::limiter::Gate;
use crate::peer::{Endpoint, Origin, Peer};
use crate::view::{PeerView, SessionView};
use crate::Time;

/// A configured neighbour.
#[derive(Clone)]
pub struct Connection {
    /// The interface on which it is reached.
    pub interface: InterfaceId,
    /// Its address on that interface.
    pub to: LinkAddress,
    /// Its public key.
    pub key: PublicKey,
    /// The credential to show to it.
    pub credential: Option<Credential>,
}

/// Why a neighbour cannot be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectError {
    /// There is no such interface.
    Interface,
    /// The key is this node's own, or its address is not in fc00::/8.
    Key,
    /// Another neighbour is configured with this address.
    Address,
    /// There is no space for another neighbour.
    Full,
}

impl Node {
    /// Adds an interface.
    pub fn add_interface<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        beacons: Beacons,
    ) -> InterfaceId {
        let number = self.interfaces.iter().position(Option::is_none);
        let number = number.unwrap_or(self.interfaces.len());
        if number == self.interfaces.len() {
            self.interfaces.push(None);
            self.rates.gates.push(Gate::new(&mut self.random));
        }
        self.interfaces[number] = Some(Schedule::new(Beacons::Off, now));
        let id = InterfaceId(number as u16);
        self.set_beacons(now, rng, id, beacons);
        id
    }

    /// Removes an interface, and all neighbours that are reached on it.
    pub fn remove_interface(&mut self, now: Time, interface: InterfaceId) {
        if let Some(slot) = self.interfaces.get_mut(usize::from(interface.0)) {
            *slot = None;
        }
        self.remove_peers(now, |peer| peer.endpoint.interface == interface);
    }

    /// Admits everybody who knows `password` as a neighbour. With `only`, its key must also have that address.
    ///
    /// # Errors
    ///
    /// [`DuplicateUser`] if another user has the login or the password.
    pub fn add_user(
        &mut self,
        login: Option<&[u8]>,
        password: &[u8],
        only: Option<Address>,
    ) -> Result<UserId, DuplicateUser> {
        self.local.users.add(login, password, only)
    }

    /// Removes a user, and disconnects the neighbours that used it. Returns whether there was such a user.
    pub fn remove_user(&mut self, now: Time, user: UserId) -> bool {
        self.remove_peers(now, |peer| peer.is_incoming() && peer.user == Some(user));
        self.local.users.remove(user)
    }

    /// Configures a node as a neighbour, whether it can be reached now or not.
    ///
    /// # Errors
    ///
    /// Any [`ConnectError`].
    pub fn connect(&mut self, now: Time, connection: Connection) -> Result<(), ConnectError> {
        let Connection {
            interface,
            to,
            key,
            credential,
        } = connection;
        let endpoint = Endpoint {
            interface,
            address: to,
        };
        self.interfaces
            .get(usize::from(interface.0))
            .ok_or(ConnectError::Interface)?;
        let session = Session::new(&self.local, key, credential.clone(), false, now);
        let session = session.map_err(|_| ConnectError::Key)?;
        key.node_address().map_err(|_| ConnectError::Key)?;
        let origin = Origin::Configured(endpoint, credential);
        let same = self.peers.with_key(&key);
        if let Some(peer) = same
            .and_then(|number| self.peers.get_mut(number))
            .filter(|peer| peer.up)
        {
            // If it disappears from its present address, it is searched for at the configured one.
            peer.want(origin);
            return Ok(());
        }
        let there = self.peers.at(&endpoint);
        let there = there.and_then(|number| self.peers.get(number));
        if there.is_some_and(|peer| peer.key != key && (peer.is_configured() || peer.up)) {
            return Err(ConnectError::Address);
        }
        self.remove_peers(now, |peer| peer.key == key || peer.endpoint == endpoint);
        if !self.make_room() {
            return Err(ConnectError::Full);
        }
        self.peers.insert(Peer::new(session, endpoint, origin, now));
        self.wake_at(now);
        Ok(())
    }

    /// Disconnects a neighbour. Returns whether there was one. It can connect again if it knows a password.
    pub fn disconnect(&mut self, now: Time, key: &PublicKey) -> bool {
        self.remove_peers(now, |peer| peer.key == *key)
    }

    /// Changes with which nodes user data is exchanged. Waiting packets of other nodes are dropped at once.
    pub fn admit(&mut self, admission: Admission) {
        self.admission = admission;
        self.waiting
            .retain(|address, _| self.admission.permits(*address));
        self.kept.hasten();
        self.wake_at(Time::ZERO);
    }

    /// Returns with which nodes user data is exchanged.
    #[must_use]
    pub const fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Returns this node's own answer to a query. Labels start here; the lowest or the nearest node is first.
    #[must_use]
    pub fn consult(&self, query: Query) -> Vec<Contact> {
        self.finder.consult(query)
    }

    /// Returns the neighbours, in no particular order.
    pub fn peers(&self, now: Time) -> impl Iterator<Item = PeerView> + '_ {
        self.peers.iter().map(move |(_, peer)| peer.view(now))
    }

    /// Returns the inner sessions, ordered by this node's handles.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> + '_ {
        self.sessions.iter().map(|state| SessionView {
            way: self.finder.way(state.address).map(|way| way.path),
            state,
        })
    }

    /// Returns the nodes to which paths are known, and the paths.
    #[must_use]
    pub const fn store(&self) -> &Store {
        self.finder.store()
    }

    /// Returns the numbers of dropped and passed frames and packets.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Removes the neighbours that satisfy `which`. Returns whether there were any.
    fn remove_peers(&mut self, now: Time, which: impl Fn(&Peer) -> bool) -> bool {
        let numbers: Vec<_> = self
            .peers
            .iter()
            .filter(|(_, peer)| which(peer))
            .map(|(number, _)| number)
            .collect();
        for number in &numbers {
            self.take_down(now, *number);
            self.peers.remove(*number);
        }
        !numbers.is_empty()
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Interface => "there is no such interface",
            Self::Key => "the key is this node's own, or not a node's",
            Self::Address => "another neighbour has this address",
            Self::Full => "there is no space for another neighbour",
        })
    }
}

impl core::error::Error for ConnectError {}
