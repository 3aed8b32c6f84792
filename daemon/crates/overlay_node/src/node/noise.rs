//! The Noise handshake of links.

use alloc::vec::Vec;
use core::ops::Range;

use cryptoauth::noise::{addressee, Addressee, Request, Timestamp, MESSAGE_ROOM};
use cryptoauth::{Event as LinkEvent, PublicKey, Refused, Session};
use rand_core::CryptoRng;

use super::links::{cause_of, Claim};
use super::originate::Outgoing;
use super::Node;
use crate::counters::Cause;
use crate::event::Event;
use crate::interface::LinkAddress;
use crate::peer::{Endpoint, Peer};
use crate::Time;

/// Octets of an address and a port, from which a cookie is calculated.
const SOURCE_LENGTH: usize = 19;

impl Node {
    /// Returns whether a frame has an index of that neighbour's Noise link.
    pub(super) fn is_noise(&self, number: usize, frame: &[u8]) -> bool {
        let index = self.peers.get(number).and_then(Peer::noise_index);
        index.is_some_and(|index| addressee(frame) == Ok(Addressee::Link(index)))
    }

    pub(super) fn open_noise<R: CryptoRng + ?Sized>(
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
    pub(super) fn open_moved(
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
            self.report(Event::PeerMoved {
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
