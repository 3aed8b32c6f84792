//! The messages that the node itself sends.

use alloc::vec::Vec;
use core::ops::Range;

use cryptoauth::noise::MESSAGE_ROOM;
use cryptoauth::{Address, PublicKey};
use overlay::Contact;
use rand_core::CryptoRng;
use switch::{control_frame, Control, Handle, Header, Interface, Label, PROTOCOL_VERSION};

use super::{Node, Transmission, Verdict};
use crate::counters::Cause;
use crate::interface::{Destination, InterfaceId};
use crate::peer::Endpoint;
use crate::Time;

/// The label of a frame from a neighbour's router to this one, as it is on the link.
pub(super) const NEIGHBOUR: Label = Label(1 << 63 | 1);

/// Largest length in octets of a control frame that is answered. Those of other nodes are much shorter.
pub(super) const MAX_CONTROL: usize = 512;

/// The opaque octets of PINGs to neighbours, shorter than those of [`Node::ping_switch`].
const NEIGHBOUR_OPAQUE: [u8; 4] = [0; 4];

/// A neighbour: its number, valid while it has this key.
type Ticket = (usize, PublicKey);

/// A message that waits to be sent.
pub(super) enum Outgoing {
    /// Octets to an address, unchanged.
    Raw(Endpoint, Vec<u8>),
    /// A PING to a neighbour.
    Ping(Ticket),
    /// The same, if it still waits for a frame.
    Answer(Ticket),
    /// A control frame to a neighbour, in a handshake if necessary.
    Neighbour(Ticket, Vec<u8>),
    /// A frame to a neighbour's switch, only under keys.
    Link(Ticket, Vec<u8>),
    /// A Noise INIT.
    Initiate(Ticket),
    /// A frame that starts at this node's router.
    Switch(Vec<u8>),
    /// A DHT message to a node that waits for one, unless it was already sent one.
    AskBack(Contact),
    /// The packet that waits for this node.
    Packet(Address),
    /// A beacon.
    Beacon(InterfaceId),
}

impl Node {
    /// Writes the next message of the node itself into `out`. Returns `None` if there is none. `out` must have
    /// [`TRANSMIT_ROOM`](crate::TRANSMIT_ROOM) octets, or more for longer packets that waited.
    pub fn poll_transmit<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        out: &mut [u8],
    ) -> Option<Transmission> {
        loop {
            let said = if let Some(outgoing) = self.queue.pop_front() {
                self.put(now, rng, outgoing, out)
            } else {
                let message = self.finder.poll_transmit()?;
                transmission(self.send_dht(now, rng, &message, out))
            };
            if said.is_some() {
                return said;
            }
        }
    }

    fn put<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        outgoing: Outgoing,
        out: &mut [u8],
    ) -> Option<Transmission> {
        match outgoing {
            Outgoing::Raw(to, octets) => {
                let frame = self.copy(&octets, 0, out)?;
                Some(to_neighbour(to, frame))
            }
            Outgoing::Ping(ticket) => self.put_ping(now, rng, ticket, out),
            Outgoing::Answer(ticket) => {
                let peer = self.holder(ticket)?;
                let is_owed = self.peers.get(peer).is_some_and(|peer| peer.owed);
                is_owed.then(|| self.put_ping(now, rng, ticket, out))?
            }
            Outgoing::Neighbour(ticket, frame) => self.put_control(now, rng, ticket, &frame, out),
            Outgoing::Link(ticket, frame) => {
                let number = self.holder(ticket)?;
                let port = self.peers.get(number)?.port?;
                let frame = self.copy(&frame, crate::HEAD_ROOM, out)?;
                transmission(self.leave(now, port, out, frame))
            }
            Outgoing::Initiate(ticket) => self.put_init(now, rng, ticket, out),
            Outgoing::Switch(frame) => {
                let frame = self.copy(&frame, crate::HEAD_ROOM, out)?;
                transmission(self.route(now, rng, Interface::ROUTER, out, frame))
            }
            Outgoing::AskBack(from) => {
                if self.sessions.answer_due(&from.key) {
                    self.finder.ask_back(now, from);
                }
                None
            }
            Outgoing::Packet(to) => transmission(self.send_waiting(now, rng, to, out)),
            Outgoing::Beacon(interface) => {
                let beacon = self.beacon?.encode();
                let frame = self.copy(&beacon, 0, out)?;
                let to = Destination::Broadcast;
                Some(Transmission {
                    interface,
                    to,
                    frame,
                })
            }
        }
    }

    /// Returns the number of a neighbour, if it is still the same node.
    fn holder(&self, (number, key): Ticket) -> Option<usize> {
        let peer = self.peers.get(number)?;
        (peer.key == key).then_some(number)
    }

    fn copy(&mut self, octets: &[u8], start: usize, out: &mut [u8]) -> Option<Range<usize>> {
        let range = start..start + octets.len();
        let Some(space) = out.get_mut(range.clone()) else {
            self.counters.drop(Cause::Room);
            return None;
        };
        space.copy_from_slice(octets);
        Some(range)
    }

    fn put_ping<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        ticket: Ticket,
        out: &mut [u8],
    ) -> Option<Transmission> {
        let ping = Control::Ping {
            version: PROTOCOL_VERSION,
            opaque: &NEIGHBOUR_OPAQUE,
        };
        let frame = encode(&ping, NEIGHBOUR)?;
        self.put_control(now, rng, ticket, &frame, out)
    }

    fn put_control<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        ticket: Ticket,
        frame: &[u8],
        out: &mut [u8],
    ) -> Option<Transmission> {
        let number = self.holder(ticket)?;
        let frame = self.copy(frame, crate::HEAD_ROOM, out)?;
        let peer = self.peers.get_mut(number)?;
        let endpoint = peer.endpoint;
        match peer.seal_control(&self.local, now, rng, out, frame) {
            Ok((frame, is_first)) => {
                if is_first {
                    self.wake_at(now + self.timing.suspect_after);
                }
                Some(to_neighbour(endpoint, frame))
            }
            Err(_) => {
                self.counters.drop(Cause::LinkNotReady);
                None
            }
        }
    }

    fn put_init<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        ticket: Ticket,
        out: &mut [u8],
    ) -> Option<Transmission> {
        let number = self.holder(ticket)?;
        self.link_of(number);
        let timestamp = self.timestamp(now);
        let peer = self.peers.get_mut(number)?;
        let endpoint = peer.endpoint;
        let out = out.get_mut(..MESSAGE_ROOM)?;
        let length = peer.initiate(&self.local, now, rng, timestamp, out).ok()?;
        Some(to_neighbour(endpoint, 0..length))
    }
}

fn to_neighbour(to: Endpoint, frame: Range<usize>) -> Transmission {
    Transmission {
        interface: to.interface,
        to: Destination::Unicast(to.address),
        frame,
    }
}

/// Returns the message to send. A frame to this node itself ends here.
fn transmission(verdict: Verdict) -> Option<Transmission> {
    match verdict {
        Verdict::Transmit {
            interface,
            to,
            frame,
        } => Some(Transmission {
            interface,
            to: Destination::Unicast(to),
            frame,
        }),
        Verdict::Deliver { .. } | Verdict::Nothing => None,
    }
}

/// Returns a whole control frame, or `None` if it is longer than any that is answered.
pub(super) fn encode(control: &Control, label: Label) -> Option<Vec<u8>> {
    let mut out = [0; MAX_CONTROL + Header::LEN + Handle::LEN];
    let length = control_frame(control, label, &mut out).ok()?;
    Some(out[..length].into())
}
