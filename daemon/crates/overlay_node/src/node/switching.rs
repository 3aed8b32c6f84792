//! The switch, and the control frames to this node.

mod control;

use core::ops::Range;

use overlay::{Contact, Content, Delivered, InnerError};
use rand_core::CryptoRng;
use switch::{
    error_frame, forward, refused_frame, ErrorCode, Handle, Header, Interface, Label, Refusal,
    MAX_ERROR_FRAME, PROTOCOL_VERSION,
};

use super::originate::{Outgoing, NEIGHBOUR};
use super::{Node, Verdict};
use crate::counters::Cause;
use crate::event::Event;
use crate::Time;

/// The nonces of the handshakes that start a session.
const HELLO: u32 = 0;
const REPEATED_HELLO: u32 = 1;

impl Node {
    /// Handles a switch frame that arrived on a link. It is a part of `buffer`.
    pub(super) fn pass<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        number: usize,
        buffer: &mut [u8],
        frame: Range<usize>,
    ) -> Verdict {
        if frame.is_empty() {
            return Verdict::Nothing; // a sign of life
        }
        if self.peers.get(number).is_some_and(|peer| !peer.up) {
            self.settle_peer(now, number);
        }
        let octets = &buffer[frame.clone()];
        if is_neighbours(octets) {
            self.hear_neighbour(now, number, octets);
            return Verdict::Nothing;
        }
        let peer = self.peers.get(number).filter(|peer| peer.up);
        match peer.and_then(|peer| peer.port) {
            Some(port) => self.route(now, rng, port, buffer, frame),
            // Anybody can repeat the content of a handshake.
            None => self.refuse(Cause::LinkUnconfirmed),
        }
    }

    pub(super) fn refuse(&mut self, cause: Cause) -> Verdict {
        self.counters.drop(cause);
        Verdict::Nothing
    }

    /// Forwards a frame that arrived on `source`.
    pub(super) fn route<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        source: Interface,
        buffer: &mut [u8],
        frame: Range<usize>,
    ) -> Verdict {
        match forward(&self.ports, source, &mut buffer[frame.clone()]) {
            Ok(Interface::ROUTER) => self.arrive(now, rng, buffer, frame),
            Ok(port) => {
                let verdict = self.leave(now, port, buffer, frame);
                let passed = source != Interface::ROUTER && verdict != Verdict::Nothing;
                self.counters.forwarded += u64::from(passed);
                verdict
            }
            Err(refusal) => {
                self.report_refusal(now, source, refusal, &buffer[frame]);
                self.refuse(match refusal {
                    Refusal::Runt => Cause::SwitchRunt,
                    Refusal::NoInterface => Cause::SwitchNoInterface,
                    Refusal::TooFar => Cause::SwitchTooFar,
                    Refusal::SourceTooLong | Refusal::NoReturnPath => Cause::SwitchNoReturn,
                })
            }
        }
    }

    /// Seals a frame for the neighbour behind an interface.
    pub(super) fn leave(
        &mut self,
        now: Time,
        port: Interface,
        buffer: &mut [u8],
        frame: Range<usize>,
    ) -> Verdict {
        let number = self.peers.behind(port);
        let Some(peer) = number.and_then(|number| self.peers.get_mut(number)) else {
            return self.refuse(Cause::LinkNotReady);
        };
        let (interface, to) = (peer.endpoint.interface, peer.endpoint.address);
        match peer.seal(now, buffer, frame) {
            Ok((frame, is_first)) => {
                if is_first {
                    self.wake_at(now + self.timing.suspect_after);
                }
                Verdict::Transmit {
                    interface,
                    to,
                    frame,
                }
            }
            Err(_) => self.refuse(Cause::LinkNotReady),
        }
    }

    /// Sends an ERROR back through the interface on which the frame arrived.
    fn report_refusal(&mut self, now: Time, source: Interface, refusal: Refusal, frame: &[u8]) {
        let mut out = [0; MAX_ERROR_FRAME];
        let Some(length) = error_frame(refusal, frame, &mut out) else {
            return;
        };
        if source == Interface::ROUTER {
            // The frame is our own, so its path no longer works.
            let label = Header::decode(&out).map(|(header, _)| header.label.reversed());
            let code = refusal.code().unwrap_or(ErrorCode::INTERNAL);
            return self.end_way(now, label.unwrap_or(Label::SELF), code);
        }
        if !self.rates.errors.take(now, self.limits.errors) {
            self.counters.drop(Cause::ErrorFlood);
            return;
        }
        let number = self.peers.behind(source);
        if let Some(ticket) = number.and_then(|number| self.ticket(number)) {
            self.say(Outgoing::Link(ticket, out[..length].into()));
        }
    }

    /// Handles a frame to this node's router.
    fn arrive<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        buffer: &mut [u8],
        frame: Range<usize>,
    ) -> Verdict {
        let octets = &mut buffer[frame.clone()];
        let handle = Header::decode(octets).and_then(|(header, content)| {
            let (handle, rest) = Handle::decode(content)?;
            Ok((header.label.reversed(), handle, rest))
        });
        match handle {
            Err(_) => return self.refuse(Cause::SwitchRunt),
            Ok((path, Handle::Control, rest)) => {
                self.hear_control(now, path, rest);
                return Verdict::Nothing;
            }
            // An answer to our HELLO costs no arithmetic unless it is authentic.
            Ok((_, Handle::Handshake(HELLO | REPEATED_HELLO), _)) => {
                if !self
                    .rates
                    .inner_handshakes
                    .take(now, self.limits.inner_handshakes)
                {
                    return self.refuse(Cause::InnerFlood);
                }
            }
            Ok(_) => {}
        }
        match self.sessions.open(&self.local, now, rng, octets) {
            Ok(delivered) => {
                let delivered = Delivered {
                    payload: frame.start + delivered.payload.start
                        ..frame.start + delivered.payload.end,
                    ..delivered
                };
                self.deliver(now, buffer, delivered)
            }
            Err(error) => {
                if let InnerError::UnknownHandle(_) = error {
                    self.report_unknown(now, &buffer[frame]);
                }
                self.refuse(cause_of(error))
            }
        }
    }

    /// Handles the content of an inner session.
    fn deliver(&mut self, now: Time, buffer: &mut [u8], delivered: Delivered) -> Verdict {
        let Delivered {
            key,
            path,
            content,
            address,
            ..
        } = delivered;
        self.hear_flow(address);
        let verdict = match content {
            Content::Dht => {
                let from = Contact {
                    key,
                    path,
                    version: PROTOCOL_VERSION,
                };
                self.hear_dht(now, from, &buffer[delivered.payload.clone()]);
                if self.sessions.answer_due(&key) {
                    // Skipped if an answer to it is already waiting.
                    self.say(Outgoing::AskBack(from));
                }
                Verdict::Nothing
            }
            Content::Ipv6(next_header) => {
                self.deliver_packet(buffer, next_header, address, delivered.payload)
            }
            Content::Tunnel | Content::Other(_) => self.refuse(Cause::InnerContent),
        };
        if delivered.established {
            self.report(Event::SessionUp(address));
            self.kept.touch();
            self.release(address);
        }
        verdict
    }

    /// Tells the sender of a frame that its handle is unknown. After a restart this node has lost its sessions.
    fn report_unknown(&mut self, now: Time, frame: &[u8]) {
        let mut out = [0; MAX_ERROR_FRAME];
        let Some(length) = refused_frame(ErrorCode::AUTHENTICATION, frame, &mut out) else {
            return;
        };
        if self.rates.errors.take(now, self.limits.errors) {
            self.say(Outgoing::Switch(out[..length].into()));
        } else {
            self.counters.drop(Cause::ErrorFlood);
        }
    }
}

/// Returns the cause under which an inner frame is counted.
fn cause_of(error: InnerError) -> Cause {
    use cryptoauth::Refused;
    match error {
        InnerError::Switch(_) | InnerError::Control | InnerError::Frame(_) => Cause::InnerMalformed,
        InnerError::UnknownHandle(_) => Cause::InnerUnknownHandle,
        InnerError::NoNode => Cause::InnerHandshake,
        InnerError::Full => Cause::InnerFull,
        InnerError::Refused(Refused::Forged) => Cause::InnerForged,
        InnerError::Refused(Refused::Replayed(_)) => Cause::InnerReplayed,
        InnerError::Refused(Refused::NoSession(_)) => Cause::InnerUnknownHandle,
        InnerError::Refused(_) => Cause::InnerHandshake,
        InnerError::Unprotected(_) => Cause::InnerUnprotected,
    }
}

/// Returns whether a frame is a control frame from a neighbour's router to this one.
fn is_neighbours(frame: &[u8]) -> bool {
    let handle = frame.get(Header::LEN..Header::LEN + Handle::LEN);
    frame.starts_with(&NEIGHBOUR.0.to_be_bytes()) && handle == Some(&[0xff; Handle::LEN])
}
