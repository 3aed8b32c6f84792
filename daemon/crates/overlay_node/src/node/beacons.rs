//! Sends beacons, and handles those of neighbours.

use cryptoauth::Session;
use rand_core::CryptoRng;
use switch::{is_compatible, PROTOCOL_VERSION};

use super::links::Claim;
use super::Node;
use crate::beacon::{Beacon, LOGIN, PASSWORD};
use crate::counters::Cause;
use crate::interface::{Beacons, InterfaceId, LinkAddress, Schedule};
use crate::peer::{Endpoint, Origin, Peer};
use crate::Time;

/// The characters of a beacon's password.
const DIGITS: &[u8; 32] = b"0123456789bcdfghjklmnpqrstuvwxyz";

impl Node {
    /// Changes how an interface uses beacons. Returns `false` if there is no such interface. The first beacon is sent
    /// at once, the next ones soon after it.
    pub fn set_beacons<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        interface: InterfaceId,
        beacons: Beacons,
    ) -> bool {
        let slot = self.interfaces.get_mut(usize::from(interface.0));
        let Some(slot) = slot.and_then(Option::as_mut) else {
            return false;
        };
        *slot = Schedule::new(beacons, now);
        if beacons == Beacons::Send {
            self.make_beacon(rng);
            self.wake_at(now);
        }
        true
    }

    /// Creates the password of this node's beacons, and admits everybody who knows it.
    fn make_beacon<R: CryptoRng + ?Sized>(&mut self, rng: &mut R) {
        if self.beacon.is_some() {
            return;
        }
        // 19 characters and a zero, as in other nodes.
        let mut password = [0; PASSWORD];
        rng.fill_bytes(&mut password[..PASSWORD - 1]);
        for octet in &mut password[..PASSWORD - 1] {
            *octet = DIGITS[usize::from(*octet & 31)];
        }
        let key = *self.local.public();
        // This fails only if a user has that name. Then nobody can connect because of a beacon.
        let _ = self.local.users.add(Some(LOGIN), &password, None);
        self.beacon = Some(Beacon {
            version: PROTOCOL_VERSION,
            key,
            password,
        });
    }

    /// Handles a beacon, without the framing that marked it as one.
    pub fn receive_beacon(
        &mut self,
        now: Time,
        interface: InterfaceId,
        from: &LinkAddress,
        beacon: &[u8],
    ) {
        let endpoint = Endpoint {
            interface,
            address: *from,
        };
        let beacon = Beacon::decode(beacon);
        match beacon.filter(|_| self.beacons_of(interface) != Beacons::Off) {
            Some(beacon) if beacon.key == *self.local.public() => {}
            Some(beacon) if !is_compatible(beacon.version) => {
                self.counters.drop(Cause::LinkVersion)
            }
            Some(beacon) => self.meet(now, endpoint, &beacon),
            None => self.counters.drop(Cause::Beacon),
        }
    }

    pub(super) fn beacons_of(&self, interface: InterfaceId) -> Beacons {
        let slot = self.interfaces.get(usize::from(interface.number()));
        slot.copied()
            .flatten()
            .map_or(Beacons::Off, |schedule| schedule.beacons)
    }

    /// Creates or updates the neighbour that sent a beacon. Anybody can send one under any key, so changed beacons,
    /// which cost arithmetic, are limited like handshakes of strangers.
    fn meet(&mut self, now: Time, endpoint: Endpoint, beacon: &Beacon) {
        let number = self.peers.with_key(&beacon.key);
        let known = number.and_then(|number| self.peers.get(number));
        let is_new = known.is_none_or(|peer| peer.beaconed != Some(*beacon));
        if known.is_some_and(Peer::is_configured) {
            return;
        }
        if let Some(Err(Some(cause))) =
            is_new.then(|| self.admit_handshake(now, endpoint, Claim::Address))
        {
            return self.counters.drop(cause);
        }
        match number {
            Some(number) => self.meet_again(now, number, endpoint, beacon),
            None => self.meet_stranger(now, endpoint, beacon),
        }
    }

    /// Begins a link at each other address from which a silent neighbour's beacon came. The first one that works takes
    /// its place.
    pub(super) fn try_elsewhere(&mut self, now: Time, number: usize) {
        let timing = self.timing;
        let peer = self.peers.get_mut(number);
        let Some((beacon, elsewhere)) = peer.and_then(|peer| peer.take_elsewhere(now, &timing))
        else {
            return;
        };
        for (endpoint, _) in elsewhere {
            if self.peers.at(&endpoint).is_none() {
                self.begin_link(now, endpoint, &beacon);
            }
        }
    }

    /// Handles a beacon of a known neighbour. One that is reached at another address stays there, unless it is silent.
    fn meet_again(&mut self, now: Time, number: usize, endpoint: Endpoint, beacon: &Beacon) {
        let Some(peer) = self.peers.get(number) else {
            return;
        };
        if peer.endpoint != endpoint {
            if !peer.is_stale(now) || self.peers.at(&endpoint).is_some() {
                if let Some(peer) = self.peers.get_mut(number) {
                    peer.note_elsewhere(now, endpoint, beacon);
                }
                return;
            }
            self.peers.relocate(number, endpoint);
        }
        if let Some(peer) = self.peers.get_mut(number) {
            peer.note_beacon(now, *beacon);
        }
        self.wake_at(now);
    }

    fn meet_stranger(&mut self, now: Time, endpoint: Endpoint, beacon: &Beacon) {
        let there = self.peers.at(&endpoint);
        let other = there.and_then(|number| self.peers.get(number));
        if other.is_some_and(|peer| peer.up || peer.is_configured()) {
            return self.counters.drop(Cause::LinkFull);
        }
        if let Some(number) = there {
            self.peers.remove(number);
        }
        self.begin_link(now, endpoint, beacon);
        self.wake_at(now);
    }

    /// Adds a neighbour at an address without one. A handshake with it is due at once.
    fn begin_link(&mut self, now: Time, endpoint: Endpoint, beacon: &Beacon) {
        let address = beacon.key.node_address().ok();
        let credential = Some(beacon.credential());
        let session = || Session::new(&self.local, beacon.key, credential, false, now).ok();
        let Some(session) = address.and_then(|_| session()) else {
            return self.counters.drop(Cause::Beacon);
        };
        if !self.make_room() {
            return self.counters.drop(Cause::LinkFull);
        }
        let mut peer = Peer::new(session, endpoint, Origin::Beacon(now), now);
        peer.beaconed = Some(*beacon);
        self.peers.insert(peer);
    }
}
