//! The neighbours of a node, by address, by key, and by the switch's interface that leads to them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use cryptoauth::PublicKey;
use switch::Interface;

use crate::peer::{Endpoint, Peer};

/// Interfaces that the shortest directors can name, without the router's.
const SHORT: [u16; 7] = [0, 2, 3, 4, 5, 6, 7];

/// The neighbours. Their numbers are reused.
pub(crate) struct Peers {
    peers: Vec<Option<Peer>>,
    places: BTreeMap<Endpoint, usize>,
    ports: [Option<u16>; Interface::COUNT as usize],
}

impl Peers {
    pub(crate) const fn new() -> Self {
        Self {
            peers: Vec::new(),
            places: BTreeMap::new(),
            ports: [None; Interface::COUNT as usize],
        }
    }

    pub(crate) fn get(&self, number: usize) -> Option<&Peer> {
        self.peers.get(number)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut Peer> {
        self.peers.get_mut(number)?.as_mut()
    }

    /// Returns the neighbour at an address.
    pub(crate) fn at(&self, endpoint: &Endpoint) -> Option<usize> {
        self.places.get(endpoint).copied()
    }

    /// Returns the neighbour behind an interface of the switch.
    pub(crate) fn behind(&self, port: Interface) -> Option<usize> {
        self.ports
            .get(usize::from(port.number()))
            .copied()?
            .map(usize::from)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Peer)> {
        let numbered = self.peers.iter().enumerate();
        numbered.filter_map(|(number, peer)| Some((number, peer.as_ref()?)))
    }

    /// Returns the neighbour with a key. During handshakes there may be several; then one that is up.
    pub(crate) fn with_key(&self, key: &PublicKey) -> Option<usize> {
        let same = self.iter().filter(|(_, peer)| peer.key == *key);
        let best = same.max_by_key(|(_, peer)| (peer.up, peer.port.is_some()));
        best.map(|(number, _)| number)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Adds a neighbour at an address without one.
    pub(crate) fn insert(&mut self, peer: Peer) -> usize {
        let free = self.peers.iter().position(Option::is_none);
        let number = free.unwrap_or(self.peers.len());
        self.places.insert(peer.endpoint, number);
        match free {
            Some(number) => self.peers[number] = Some(peer),
            None => self.peers.push(Some(peer)),
        }
        number
    }

    pub(crate) fn remove(&mut self, number: usize) -> Option<Peer> {
        let peer = self.peers.get_mut(number)?.take()?;
        self.places.remove(&peer.endpoint);
        if let Some(port) = peer.port {
            self.ports[usize::from(port.number())] = None;
        }
        Some(peer)
    }

    /// Moves a neighbour to another address, which must have none.
    pub(crate) fn relocate(&mut self, number: usize, endpoint: Endpoint) {
        if let Some(peer) = self.peers.get_mut(number).and_then(Option::as_mut) {
            self.places.remove(&peer.endpoint);
            peer.endpoint = endpoint;
            self.places.insert(endpoint, number);
        }
    }

    /// Assigns an interface of the switch to a neighbour, if it has none. The key of the neighbour chooses among the
    /// short ones, so that paths through this node usually stay the same when it restarts. Returns `None` if all are in
    /// use.
    pub(crate) fn give_port(&mut self, number: usize) -> Option<Interface> {
        let peer = self.peers.get_mut(number)?.as_mut()?;
        if peer.port.is_some() {
            return peer.port;
        }
        let preferred = SHORT[usize::from(peer.key.octets()[0]) % SHORT.len()];
        let all = core::iter::once(preferred).chain(0..Interface::COUNT);
        let mut all = all.filter(|port| *port != Interface::ROUTER.number());
        let port = all.find(|port| self.ports[usize::from(*port)].is_none())?;
        self.ports[usize::from(port)] = u16::try_from(number).ok();
        peer.port = Interface::new(port);
        peer.port
    }

    /// Moves the interface of one neighbour to another that has none.
    pub(crate) fn hand_over(&mut self, from: usize, to: usize) {
        let port = self.get_mut(from).and_then(|peer| peer.port.take());
        let Some(port) = port else {
            return;
        };
        self.ports[usize::from(port.number())] = u16::try_from(to).ok();
        if let Some(peer) = self.get_mut(to) {
            peer.port = Some(port);
        }
    }
}
