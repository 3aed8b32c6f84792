//! Neighbours appear, move, are merged and disappear.

use core::time::Duration;

use cryptoauth::{PublicKey, Session};
use switch::{is_compatible, Control, PROTOCOL_VERSION};

use super::originate::Outgoing;
use super::Node;
use crate::counters::Cause;
use crate::event::Event;
use crate::peer::{Endpoint, Origin, Peer};
use crate::Time;

/// Number of interfaces of a switch, without the router's.
const MAX_PEERS: usize = 256;

/// Silence after which another link to the same node replaces a link.
const MERGE_PATIENCE: Duration = Duration::from_millis(300);

impl Node {
    pub(super) fn insert_stranger(
        &mut self,
        now: Time,
        endpoint: Endpoint,
        session: Session,
    ) -> Result<usize, Option<Cause>> {
        let is_node = session.peer().node_address().is_ok();
        is_node.then_some(()).ok_or(Some(Cause::LinkHandshake))?;
        if let Some(number) = self.peers.at(&endpoint) {
            self.peers.remove(number);
        }
        if !self.make_room() {
            return Err(Some(Cause::LinkFull));
        }
        let number = self
            .peers
            .insert(Peer::new(session, endpoint, Origin::Incoming, now));
        self.wake_at(now + crate::peer::SET_UP_PATIENCE);
        Ok(number)
    }

    /// Makes space for another neighbour. Removes the oldest unconfirmed one if there are too many of them, and one
    /// that is gone if there are too many in all. Returns `false` if there is no space.
    pub(super) fn make_room(&mut self) -> bool {
        let unconfirmed = || self.peers.iter().filter(|(_, peer)| peer.is_unconfirmed());
        let is_full = self.peers.len() >= self.limits.peers.min(MAX_PEERS);
        if !is_full && unconfirmed().count() < self.limits.unconfirmed_peers {
            return true;
        }
        let unconfirmed = unconfirmed();
        let oldest = unconfirmed.min_by_key(|(_, peer)| peer.heard);
        let gone = self
            .peers
            .iter()
            .filter(|(_, peer)| !peer.up && !peer.is_configured());
        let oldest = oldest.or_else(|| gone.min_by_key(|(_, peer)| peer.heard));
        let number = oldest.map(|(number, _)| number);
        number
            .and_then(|number| self.peers.remove(number))
            .is_some()
    }

    /// Merges two entries of a neighbour after `number` has proved that it holds its key. Returns the remaining number.
    ///
    /// Both ends must decide alike. A link that the node with the lower key started is not replaced by one that the
    /// other node started, unless it is silent. Otherwise the newer one remains.
    pub(super) fn merge(&mut self, now: Time, number: usize) -> Option<usize> {
        let newcomer = self.peers.get(number)?;
        let same = |(other, peer): &(usize, &Peer)| {
            *other != number && peer.key == newcomer.key && peer.port.is_some()
        };
        let known = self.peers.iter().find(same);
        let Some((other, known)) = known.filter(|_| newcomer.port.is_none()) else {
            return Some(number);
        };
        let we_are_lower = *self.local.public() < newcomer.key;
        let lower_began = |peer: &Peer| peer.begun_here == we_are_lower;
        let is_heard = known.up && now.saturating_sub(known.heard) < MERGE_PATIENCE;
        if is_heard && lower_began(known) && !lower_began(newcomer) {
            let newcomer = self.peers.remove(number)?;
            self.peers.get_mut(other)?.take_origin(newcomer.origin);
            return Some(other);
        }
        self.replace_peer(now, other, number);
        Some(number)
    }

    /// Replaces one entry by another of the same node at another address.
    fn replace_peer(&mut self, now: Time, old: usize, new: usize) {
        self.peers.hand_over(old, new);
        let Some(old) = self.peers.remove(old) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(new) else {
            return;
        };
        peer.up = old.up;
        peer.version = peer.version.or(old.version);
        peer.take_origin(old.origin);
        let key = peer.key;
        let Endpoint { interface, address } = peer.endpoint;
        self.report(Event::PeerMoved {
            key,
            interface,
            address,
        });
        self.wake_at(now);
    }

    /// Sends a PING to a neighbour that waits for a frame and got no answer.
    pub(super) fn owe(&mut self, number: usize) {
        let owed = self.peers.get(number).is_some_and(|peer| peer.owed);
        if let Some(ticket) = self.ticket(number).filter(|_| owed) {
            self.say(Outgoing::Answer(ticket));
        }
    }

    /// Returns a reference to a neighbour for later, when its number may be reused.
    pub(super) fn ticket(&self, number: usize) -> Option<(usize, PublicKey)> {
        Some((number, self.peers.get(number)?.key))
    }

    /// Takes a neighbour up if its link is complete.
    pub(super) fn settle_peer(&mut self, now: Time, number: usize) {
        let Some(peer) = self.peers.get(number).filter(|peer| peer.is_complete(now)) else {
            return;
        };
        let is_new = !peer.up;
        let Some(port) = self.peers.give_port(number) else {
            return self.counters.drop(Cause::LinkFull);
        };
        let Some(peer) = self.peers.get_mut(number).filter(|_| is_new) else {
            return;
        };
        peer.up = true;
        self.ports.insert(port);
        let (key, path) = (peer.key, switch::peer_label(port));
        let Endpoint { interface, address } = peer.endpoint;
        let version = peer.version.unwrap_or(PROTOCOL_VERSION);
        self.wake_at(now);
        self.report(Event::PeerUp {
            key,
            label: path,
            interface,
            address,
        });
        self.finder
            .peer_up(now, overlay::Contact { key, path, version });
        self.draw_finder(now);
    }

    /// Takes a neighbour down.
    pub(super) fn take_down(&mut self, now: Time, number: usize) {
        let Some(peer) = self.peers.get_mut(number).filter(|peer| peer.up) else {
            return;
        };
        peer.note_death(now);
        let (key, Some(port)) = (peer.key, peer.port) else {
            return;
        };
        let label = switch::peer_label(port);
        if let Origin::Configured(home, _) = peer.origin {
            if peer.endpoint != home && self.peers.at(&home).is_none() {
                self.peers.relocate(number, home);
                if let Some(peer) = self.peers.get_mut(number) {
                    peer.note_return(now);
                }
            }
        }
        self.ports.remove(port);
        self.finder.peer_down(now, label);
        self.report(Event::PeerDown { key, label });
        self.draw_finder(now);
    }

    /// Handles the protocol version that a neighbour announced in a control frame.
    pub(super) fn hear_version(&mut self, now: Time, number: usize, control: &Control) {
        let version = match *control {
            Control::Ping { version, .. }
            | Control::Pong { version, .. }
            | Control::KeyPing { version, .. }
            | Control::KeyPong { version, .. } => version,
            _ => return,
        };
        if let Some(peer) = self.peers.get_mut(number) {
            peer.version = Some(version);
        }
        if !is_compatible(version) {
            self.counters.drop(Cause::LinkVersion);
        }
        self.settle_peer(now, number);
    }
}
