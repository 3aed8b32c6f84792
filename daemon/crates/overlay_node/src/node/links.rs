//! Handles frames of links: who sent them, and whether the sender may be a neighbour.

use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use cryptoauth::noise::{addressee, Addressee, Request, Timestamp, MESSAGE_ROOM};
use cryptoauth::{Event as LinkEvent, Opened, PublicKey, Refused, Session};
use rand_core::CryptoRng;
use switch::{is_compatible, Control, PROTOCOL_VERSION};

use super::originate::Outgoing;
use super::{Node, Verdict};
use crate::beacon::Beacon;
use crate::counters::Cause;
use crate::event::Event;
use crate::interface::{Beacons, InterfaceId, LinkAddress};
use crate::peer::{is_handshake, Endpoint, Origin, Peer};
use crate::Time;

/// Octets of an address and a port, from which a cookie is calculated.
const SOURCE_LENGTH: usize = 19;

/// Number of interfaces of a switch, without the router's.
const MAX_PEERS: usize = 256;

/// Silence after which another link to the same node replaces a link.
const MERGE_PATIENCE: Duration = Duration::from_secs(1);

/// First octets of a Noise INIT, REPLY or COOKIE. No frame of CryptoAuth starts with them.
const NOISE_CONTROL: [u8; 4] = [0xff; 4];

/// What is known about the source of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// Its address, which may be forged.
    Address,
    /// It has received what was sent to that address.
    Proved,
}

impl Node {
    /// Opens a datagram that arrived from `from`. It is a part of `buffer`, with [`HEAD_ROOM`](crate::HEAD_ROOM) before
    /// and [`TAIL_ROOM`](crate::TAIL_ROOM) after it.
    ///
    /// Call [`Node::poll_transmit`] afterwards. It often has a message, unless the datagram was data.
    pub fn receive<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        interface: InterfaceId,
        from: &LinkAddress,
        buffer: &mut [u8],
        frame: Range<usize>,
    ) -> Verdict {
        let endpoint = Endpoint {
            interface,
            address: *from,
        };
        let Some(octets) = buffer.get_mut(frame.clone()) else {
            self.counters.drop(Cause::Room);
            return Verdict::Nothing;
        };
        match self.open(now, rng, endpoint, octets) {
            Ok((number, content)) => {
                let content = frame.start + content.start..frame.start + content.end;
                let verdict = self.pass(now, rng, number, buffer, content);
                self.owe(number);
                verdict
            }
            Err(Some(cause)) => {
                self.counters.drop(cause);
                Verdict::Nothing
            }
            Err(None) => Verdict::Nothing,
        }
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

    /// Handles a changed beacon of a known neighbour. One that is reached at another address stays there.
    fn meet_again(&mut self, now: Time, number: usize, endpoint: Endpoint, beacon: &Beacon) {
        let Some(peer) = self.peers.get(number) else {
            return;
        };
        if peer.endpoint != endpoint {
            if !peer.is_stale(now) || self.peers.at(&endpoint).is_some() {
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
        self.wake_at(now);
    }

    /// Opens a frame in place. Returns the neighbour and where the content is. `Err(None)`: the frame is fully handled.
    fn open<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        endpoint: Endpoint,
        frame: &mut [u8],
    ) -> Result<(usize, Range<usize>), Option<Cause>> {
        if frame.starts_with(&NOISE_CONTROL) {
            return self.open_noise(now, rng, endpoint, frame);
        }
        let Some(number) = self.peers.at(&endpoint) else {
            return self.open_strange(now, endpoint, frame);
        };
        if self.is_noise(number, frame) {
            return self.open_noise(now, rng, endpoint, frame);
        }
        let peer = self
            .peers
            .get_mut(number)
            .ok_or(Some(Cause::LinkStranger))?;
        match peer.open(&self.local, now, frame) {
            None => Err(Some(Cause::LinkFlood)),
            Some(Ok(opened)) => {
                if matches!(opened.event, LinkEvent::Key | LinkEvent::Established) {
                    let key = peer.key;
                    self.suspect_session(now, &key);
                }
                self.take(now, number, opened)
            }
            // Another node has this address now.
            Some(Err(Refused::WrongKey(_))) if !peer.up && !peer.is_configured() => {
                self.open_strange(now, endpoint, frame)
            }
            Some(Err(refused)) => Err(Some(cause_of(refused))),
        }
    }

    /// Handles new keys of a neighbour's link. It may have restarted, and so have lost its inner session.
    pub(super) fn suspect_session(&mut self, now: Time, key: &PublicKey) {
        let silence = super::clock::LOST_SESSION_SILENCE;
        if self.sessions.renew(now, key, silence) {
            self.finder.suspect(now, key.address());
            self.draw_finder(now);
        }
    }

    /// Processes a frame that was opened.
    fn take(
        &mut self,
        now: Time,
        number: usize,
        opened: Opened,
    ) -> Result<(usize, Range<usize>), Option<Cause>> {
        if opened.event == LinkEvent::Data {
            return Ok((number, opened.content));
        }
        let number = match opened.event {
            LinkEvent::Hello => number,
            _ => self.merge(now, number).ok_or(Some(Cause::LinkFull))?,
        };
        if let Some(peer) = self.peers.get_mut(number) {
            peer.owed = true;
        }
        self.settle_peer(now, number);
        Ok((number, opened.content))
    }

    /// Opens a frame from an address without a neighbour. Its sender may become one, or be one that has moved.
    fn open_strange(
        &mut self,
        now: Time,
        endpoint: Endpoint,
        frame: &mut [u8],
    ) -> Result<(usize, Range<usize>), Option<Cause>> {
        if !is_handshake(frame) {
            return self.open_moved(now, endpoint, frame);
        }
        Session::examine(&self.local, true, frame).map_err(|refused| Some(cause_of(refused)))?;
        self.admit_handshake(now, endpoint, Claim::Address)?;
        let answered = Session::answer(&self.local, true, now, frame);
        let (session, opened) = answered.map_err(|refused| Some(cause_of(refused)))?;
        let number = self.insert_stranger(now, endpoint, session)?;
        self.take(now, number, opened)
    }

    /// Checks that the rate limits allow another handshake of a stranger.
    fn admit_handshake(
        &mut self,
        now: Time,
        endpoint: Endpoint,
        claim: Claim,
    ) -> Result<(), Option<Cause>> {
        let number = usize::from(endpoint.interface.number());
        let slot = self.interfaces.get(number).copied().flatten();
        let gate = match claim {
            Claim::Proved => Some(&mut self.rates.proved),
            Claim::Address => self.rates.gates.get_mut(number),
        };
        let gate = gate.filter(|_| slot.is_some());
        let gate = gate.ok_or(Some(Cause::LinkStranger))?;
        let passes = gate.take(now, &endpoint.address, &self.limits);
        passes.then_some(()).ok_or(Some(Cause::LinkFlood))
    }

    fn insert_stranger(
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
    fn merge(&mut self, now: Time, number: usize) -> Option<usize> {
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
        self.tell(Event::PeerMoved {
            key,
            interface,
            address,
        });
        self.wake_at(now);
    }

    /// Sends a PING to a neighbour that waits for a frame and got no answer.
    fn owe(&mut self, number: usize) {
        let owed = self.peers.get(number).is_some_and(|peer| peer.owed);
        if let Some(ticket) = self.ticket(number).filter(|_| owed) {
            self.say(Outgoing::Answer(ticket));
        }
    }

    /// Returns a reference to a neighbour for later, when its number may be reused.
    pub(super) fn ticket(&self, number: usize) -> Option<(usize, PublicKey)> {
        Some((number, self.peers.get(number)?.key))
    }
}

/// The Noise handshake.
impl Node {
    /// Returns whether a frame has an index of that neighbour's Noise link.
    fn is_noise(&self, number: usize, frame: &[u8]) -> bool {
        let index = self.peers.get(number).and_then(Peer::noise_index);
        index.is_some_and(|index| addressee(frame) == Ok(Addressee::Link(index)))
    }

    fn open_noise<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        endpoint: Endpoint,
        frame: &mut [u8],
    ) -> Result<(usize, Range<usize>), Option<Cause>> {
        match addressee(frame).map_err(|refused| Some(cause_of(refused)))? {
            Addressee::Node => self.answer_noise(now, rng, endpoint, frame),
            Addressee::Link(index) => self.open_link(now, endpoint, index, frame),
        }
    }

    /// Opens a Noise frame of a neighbour that may have moved. A CryptoAuth frame from an unknown address is refused.
    fn open_moved(
        &mut self,
        now: Time,
        endpoint: Endpoint,
        frame: &mut [u8],
    ) -> Result<(usize, Range<usize>), Option<Cause>> {
        match addressee(frame) {
            Ok(Addressee::Link(index)) => self.open_link(now, endpoint, index, frame),
            _ => Err(Some(Cause::LinkStranger)),
        }
    }

    fn open_link(
        &mut self,
        now: Time,
        endpoint: Endpoint,
        index: u32,
        frame: &mut [u8],
    ) -> Result<(usize, Range<usize>), Option<Cause>> {
        let is_it = |(_, peer): &(usize, &Peer)| peer.noise_index() == Some(index);
        let number = self.peers.iter().find(is_it).map(|(number, _)| number);
        let number = number.ok_or(Some(Cause::LinkStranger))?;
        let peer = self
            .peers
            .get_mut(number)
            .ok_or(Some(Cause::LinkStranger))?;
        let opened = peer.open_noise(&self.local, now, frame);
        let opened = opened.map_err(|refused| Some(cause_of(refused)))?;
        let is_cookie = opened.event == LinkEvent::Hello;
        if is_cookie {
            self.say(Outgoing::Initiate(self.ticket(number).ok_or(None)?));
            return Err(None);
        }
        self.follow(number, endpoint);
        self.take(now, number, opened)
    }

    /// Records the address of a neighbour's last frame as its address.
    fn follow(&mut self, number: usize, endpoint: Endpoint) {
        let peer = self.peers.get(number);
        let Some(peer) = peer.filter(|peer| peer.endpoint != endpoint) else {
            return;
        };
        let key = peer.key;
        if self.peers.at(&endpoint).is_none() {
            self.peers.relocate(number, endpoint);
            let Endpoint { interface, address } = endpoint;
            self.tell(Event::PeerMoved {
                key,
                interface,
                address,
            });
        }
    }

    /// Answers an INIT: of a neighbour on its link, of a stranger on a new one.
    fn answer_noise<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        endpoint: Endpoint,
        frame: &mut [u8],
    ) -> Result<(usize, Range<usize>), Option<Cause>> {
        let claim = self.examine_init(now, rng, endpoint, frame)?;
        self.admit_handshake(now, endpoint, claim)?;
        let there = self.peers.at(&endpoint);
        let there = there.and_then(|number| self.peers.get(number));
        let is_expected = there.is_some_and(|peer| !peer.is_incoming());
        let request = Request::open(&self.local, !is_expected, frame);
        let request = request.map_err(|refused| Some(cause_of(refused)))?;
        let number = self.holder_of_init(now, endpoint, request.peer())?;
        self.link_of(number);
        let peer = self.peers.get_mut(number).ok_or(None)?;
        peer.user = request.user().or(peer.user);
        peer.version = request.version().or(peer.version);
        let mut out = [0; MESSAGE_ROOM];
        let link = peer.noise().ok_or(None)?;
        let length = link.answer(request, now, rng, &mut out);
        let length = length.map_err(|refused| Some(cause_of(refused)))?;
        self.say(Outgoing::Raw(endpoint, out[..length].into()));
        Err(None)
    }

    /// Returns the neighbour at an INIT's address, or a new stranger. Fails if another node is expected there.
    fn holder_of_init(
        &mut self,
        now: Time,
        endpoint: Endpoint,
        key: &PublicKey,
    ) -> Result<usize, Option<Cause>> {
        let number = self.peers.at(&endpoint);
        let there = number.and_then(|number| self.peers.get(number));
        match there {
            Some(peer) if peer.key == *key => number.ok_or(None),
            Some(peer) if peer.up || !peer.is_incoming() => Err(Some(Cause::LinkHandshake)),
            _ => {
                let session = Session::new(&self.local, *key, None, true, now);
                let session = session.map_err(|refused| Some(cause_of(refused)))?;
                self.insert_stranger(now, endpoint, session)
            }
        }
    }

    /// Returns whether an INIT proves its address. Under load, one that does not is refused with a cookie.
    fn examine_init<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        endpoint: Endpoint,
        frame: &[u8],
    ) -> Result<Claim, Option<Cause>> {
        let source = source_octets(&endpoint.address);
        match self.cookies.check(&self.local, now, &source, frame) {
            Ok(()) => return Ok(Claim::Proved),
            Err(Refused::CookieRequired) => {}
            Err(refused) => return Err(Some(cause_of(refused))),
        }
        let gate = self
            .rates
            .gates
            .get(usize::from(endpoint.interface.number()));
        if !gate.is_some_and(|gate| gate.is_busy(now)) {
            return Ok(Claim::Address);
        }
        let mut out = [0; MESSAGE_ROOM];
        let given = self
            .cookies
            .give(&self.local, now, rng, &source, frame, &mut out);
        if let Ok(length) = given {
            self.say(Outgoing::Raw(endpoint, out[..length].into()));
        }
        Err(Some(Cause::LinkFlood))
    }

    /// Makes sure that a neighbour has a Noise link with a unique index.
    pub(super) fn link_of(&mut self, number: usize) {
        let used: Vec<_> = self
            .peers
            .iter()
            .filter_map(|(_, peer)| peer.noise_index())
            .collect();
        let index = loop {
            let index = self.random.u32(1..0x00ff_ffff);
            if !used.contains(&index) {
                break index;
            }
        };
        if let Some(peer) = self
            .peers
            .get_mut(number)
            .filter(|peer| peer.noise_index().is_none())
        {
            peer.add_noise(index);
        }
    }

    /// Returns the timestamp of an INIT sent now.
    pub(super) fn timestamp(&self, now: Time) -> Timestamp {
        Timestamp::from_unix(self.unix_at_zero + now)
    }
}

/// Neighbours appear and disappear.
impl Node {
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
        self.tell(Event::PeerUp {
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
        self.tell(Event::PeerDown { key, label });
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

/// Returns the octets of an address that a cookie proves.
fn source_octets(source: &LinkAddress) -> [u8; SOURCE_LENGTH] {
    let mut octets = [0; SOURCE_LENGTH];
    match source {
        LinkAddress::Udp(address) => {
            let ip = match address.ip() {
                core::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                core::net::IpAddr::V6(ip) => ip,
            };
            octets[..16].copy_from_slice(&ip.octets());
            octets[16..18].copy_from_slice(&address.port().to_be_bytes());
        }
        LinkAddress::Ethernet(address) => {
            octets[..6].copy_from_slice(address);
            octets[18] = 1;
        }
    }
    octets
}

/// Returns the cause under which a refusal is counted.
fn cause_of(refused: Refused) -> Cause {
    match refused {
        Refused::Runt(_) | Refused::Length(_) | Refused::MessageType(_) => Cause::LinkRunt,
        Refused::NoSession(_) => Cause::LinkNoSession,
        Refused::UnknownUser(_) | Refused::AuthRequired | Refused::WrongAddress(_) => {
            Cause::LinkAuthentication
        }
        Refused::Forged => Cause::LinkForged,
        Refused::Replayed(_) => Cause::LinkReplayed,
        _ => Cause::LinkHandshake,
    }
}
