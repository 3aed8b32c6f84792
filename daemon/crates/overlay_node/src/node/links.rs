//! Handles frames of links: who sent them, and whether the sender may be a neighbour.

use core::ops::Range;

use cryptoauth::{Event as LinkEvent, Opened, PublicKey, Refused, Session};
use rand_core::CryptoRng;

use super::{Node, Verdict};
use crate::counters::Cause;
use crate::interface::{InterfaceId, LinkAddress};
use crate::peer::{is_handshake, Endpoint};
use crate::Time;

/// First octets of a Noise INIT, REPLY or COOKIE. No frame of CryptoAuth starts with them.
const NOISE_CONTROL: [u8; 4] = [0xff; 4];

/// What is known about the source of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
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

    /// Opens a frame in place. Returns the neighbour and where the content is. `Err(None)`: the frame is fully handled.
    pub(super) fn open<R: CryptoRng + ?Sized>(
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
    pub(super) fn take(
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
    pub(super) fn admit_handshake(
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
}

/// Returns the cause under which a refusal is counted.
pub(super) fn cause_of(refused: Refused) -> Cause {
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
