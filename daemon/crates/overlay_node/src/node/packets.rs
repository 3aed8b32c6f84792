//! User data: packets from and for this machine, and how they use the finder.

use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use cryptoauth::Address;
use overlay::{
    ipv6_header, remove_ipv6_header, Contact, Content, Dropped, Event as Finding, FrameError,
    MessageError, IPV6_HEADER, SESSION_HEAD_ROOM, WANTED_FOR,
};
use rand_core::CryptoRng;
use switch::Interface;

use super::originate::Outgoing;
use super::{Node, Verdict};
use crate::counters::Cause;
use crate::event::{Event, PingResult, Report};
use crate::Time;

/// Largest number of nodes that packets are sent to at a time, the same as in the finder.
const MAX_FLOWS: usize = 1024;
/// Interval at which the finder learns that packets are sent to a node.
const WANT_INTERVAL: Duration = Duration::from_secs(1);
/// Silence of a node, after a packet was sent to it, after which its path is probed.
pub(super) const FLOW_PATIENCE: Duration = Duration::from_millis(500);
/// Largest length in octets of a packet that waits. Longer ones are dropped.
const MAX_WAITING_LENGTH: usize = 2048;

/// A node that packets are sent to.
pub(super) struct Flow {
    wanted: Time,
    /// When the first packet was sent since the last one arrived.
    pub(super) unheard: Option<Time>,
}

/// A packet that waits for its session.
pub(super) struct Waiting {
    packet: Vec<u8>,
    pub(super) since: Time,
    is_queued: bool,
}

impl Waiting {
    const fn new(since: Time) -> Self {
        Self {
            packet: Vec::new(),
            since,
            is_queued: false,
        }
    }
}

impl Node {
    /// Seals an IPv6 packet of this machine, including its header. It is a part of `buffer`, with
    /// [`HEAD_ROOM`](crate::HEAD_ROOM) before and [`TAIL_ROOM`](crate::TAIL_ROOM) after it.
    ///
    /// If there is no path or no session yet, the packet is copied, and [`Node::poll_transmit`] returns it as soon as
    /// it can be sent. It replaces an earlier one to the same node.
    pub fn send_packet<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        buffer: &mut [u8],
        packet: Range<usize>,
    ) -> Verdict {
        let fits =
            packet.start >= crate::HEAD_ROOM && packet.end + crate::TAIL_ROOM <= buffer.len();
        let Some(octets) = buffer.get(packet.clone()).filter(|_| fits) else {
            return self.refuse(Cause::Room);
        };
        let (to, content) = match remove_ipv6_header(octets, self.address) {
            Ok((to, content, _)) => (to, content),
            Err(FrameError::Source(_) | FrameError::Destination(_)) => {
                return self.refuse(Cause::PacketAddress);
            }
            Err(_) => return self.refuse(Cause::PacketMalformed),
        };
        if !self.admission.permits(to) {
            return self.refuse(Cause::NotPermitted);
        }
        self.note_flow(now, to);
        let way = self
            .finder
            .way(to)
            .filter(|way| self.sessions.is_ready(&way.key));
        let Some(way) = way else {
            self.park(now, to, &buffer[packet]);
            return Verdict::Nothing;
        };
        self.counters.sent += 1;
        let payload = packet.start + IPV6_HEADER..packet.end;
        self.seal(now, rng, way, content, buffer, payload)
    }

    /// Seals a payload for another node's router, and forwards it from this node's router.
    pub(super) fn seal<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        to: Contact,
        content: Content,
        buffer: &mut [u8],
        payload: Range<usize>,
    ) -> Verdict {
        let ends = (to.key, to.path);
        let sealed = self
            .sessions
            .seal(&self.local, now, rng, ends, content, buffer, payload);
        match sealed {
            Ok(frame) => self.route(now, rng, Interface::ROUTER, buffer, frame),
            Err(overlay::InnerSealError::Full) => self.refuse(Cause::InnerFull),
            Err(overlay::InnerSealError::Room) => self.refuse(Cause::Room),
            Err(_) => self.refuse(Cause::InnerHandshake),
        }
    }

    /// Records that packets are sent to a node: it needs a path, and should answer.
    fn note_flow(&mut self, now: Time, to: Address) {
        let is_new = !self.flows.contains_key(&to);
        if is_new && self.flows.len() >= MAX_FLOWS {
            self.finder.want(now, to);
            return self.draw_finder(now);
        }
        let flow = self.flows.entry(to).or_insert(Flow {
            wanted: now,
            unheard: None,
        });
        let is_first = flow.unheard.is_none();
        flow.unheard.get_or_insert(now);
        let is_due = is_new || now.saturating_sub(flow.wanted) >= WANT_INTERVAL;
        if is_due {
            flow.wanted = now;
            self.finder.want(now, to);
            self.draw_finder(now);
        }
        if is_first {
            self.wake_at(now + FLOW_PATIENCE);
        }
    }

    /// Records that an authentic frame arrived from a node.
    pub(super) fn hear_flow(&mut self, from: Address) {
        if let Some(flow) = self.flows.get_mut(&from) {
            flow.unheard = None;
        }
        self.release(from);
    }

    /// Probes the paths to silent nodes, and removes nodes to which nothing is sent any more. Returns when to call it
    /// next.
    pub(super) fn check_flows(&mut self, now: Time) -> Time {
        self.flows
            .retain(|_, flow| now.saturating_sub(flow.wanted) < WANTED_FOR);
        let mut next = Time::MAX;
        for (address, flow) in &mut self.flows {
            let Some(since) = flow.unheard else {
                continue;
            };
            if now.saturating_sub(since) >= FLOW_PATIENCE {
                self.finder.suspect(now, *address);
                flow.unheard = None;
            } else {
                next = next.min(since + FLOW_PATIENCE);
            }
        }
        next
    }

    /// Stores a packet until its session is established.
    fn park(&mut self, now: Time, to: Address, packet: &[u8]) {
        let is_new = !self.waiting.contains_key(&to);
        let is_full = is_new && self.waiting.len() >= self.limits.waiting_packets;
        if is_full || packet.len() > MAX_WAITING_LENGTH {
            return self.counters.drop(Cause::PacketReplaced);
        }
        let waiting = self.waiting.entry(to).or_insert_with(|| Waiting::new(now));
        waiting.since = now;
        // Reuse the memory of an earlier packet.
        waiting.packet.clear();
        waiting.packet.extend_from_slice(packet);
        if !is_new {
            return self.counters.drop(Cause::PacketReplaced);
        }
        self.wake_at(now + super::clock::WAITING_PATIENCE);
        // There is a path, but no session: a DHT message starts one.
        self.finder.suspect(now, to);
        self.draw_finder(now);
    }

    /// Sends the packet that waits for a node, if there are a path and a session.
    pub(super) fn release(&mut self, to: Address) {
        if self.waiting.is_empty() {
            return;
        }
        let is_ready = self
            .finder
            .way(to)
            .is_some_and(|way| self.sessions.is_ready(&way.key));
        let waiting = self
            .waiting
            .get_mut(&to)
            .filter(|waiting| !waiting.is_queued);
        if let Some(waiting) = waiting.filter(|_| is_ready) {
            waiting.is_queued = true;
            self.say(Outgoing::Packet(to));
        }
    }

    /// Writes a packet that waited into `out`, sealed.
    pub(super) fn send_waiting<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        to: Address,
        out: &mut [u8],
    ) -> Verdict {
        let Some(Waiting { packet, .. }) = self.waiting.remove(&to) else {
            return Verdict::Nothing;
        };
        let range = crate::HEAD_ROOM..crate::HEAD_ROOM + packet.len();
        match out.get_mut(range.clone()) {
            Some(space) => {
                space.copy_from_slice(&packet);
                self.send_packet(now, rng, out, range)
            }
            None => self.refuse(Cause::Room),
        }
    }

    /// Restores the header of a packet, and delivers it to this machine.
    pub(super) fn deliver_packet(
        &mut self,
        buffer: &mut [u8],
        next_header: u8,
        from: Address,
        payload: Range<usize>,
    ) -> Verdict {
        if !self.admission.permits(from) {
            return self.refuse(Cause::NotPermitted);
        }
        let header = ipv6_header(next_header, payload.len(), from, self.address);
        let start = payload.start.checked_sub(IPV6_HEADER);
        let (Some(header), Some(start)) = (header, start) else {
            return self.refuse(Cause::InnerMalformed);
        };
        buffer[start..payload.start].copy_from_slice(&header);
        self.counters.delivered += 1;
        Verdict::Deliver {
            packet: start..payload.end,
        }
    }
}

/// The finder.
impl Node {
    /// Handles a DHT message.
    pub(super) fn hear_dht(&mut self, now: Time, from: Contact, payload: &[u8]) {
        if !self.rates.dht_messages.take(now, self.limits.dht_messages) {
            return self.counters.drop(Cause::DhtFlood);
        }
        if let Err(dropped) = self.finder.handle_message(now, from, payload) {
            self.counters.drop(match dropped {
                Dropped::Malformed(MessageError::Bencode(error)) if error.is_bomb() => {
                    Cause::DhtBomb
                }
                Dropped::Malformed(_) => Cause::DhtMalformed,
                Dropped::Incompatible(_) => Cause::DhtVersion,
                Dropped::Unexpected | Dropped::Useless => Cause::DhtUnexpected,
            });
        }
        self.draw_finder(now);
    }

    /// Writes a DHT message of the finder into `out`, sealed.
    pub(super) fn send_dht<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        message: &overlay::Transmit,
        out: &mut [u8],
    ) -> Verdict {
        const START: usize = SESSION_HEAD_ROOM + cryptoauth::HEAD_ROOM;
        let range = START..START + message.payload.len();
        match out.get_mut(range.clone()) {
            Some(space) => {
                space.copy_from_slice(&message.payload);
                self.seal(now, rng, message.to, Content::Dht, out, range)
            }
            None => self.refuse(Cause::Room),
        }
    }

    /// Processes the events and messages of the finder.
    pub(super) fn draw_finder(&mut self, now: Time) {
        while let Some(finding) = self.finder.poll_event() {
            self.kept.touch();
            match finding {
                Finding::Way(contact) => {
                    let address = contact.key.address();
                    self.report(Event::WayFound {
                        address,
                        label: contact.path,
                    });
                    self.release(address);
                }
                Finding::Lost(address) => self.report(Event::WayLost(address)),
                Finding::NotFound(address) => self.report(Event::NotFound(address)),
                Finding::Missed(contact) => {
                    let silence = super::clock::LOST_SESSION_SILENCE;
                    self.sessions.renew(now, &contact.key, silence);
                }
                Finding::Answered(token, contact, time) => {
                    let (version, report) = (contact.version, Report::Key(contact.key));
                    let answer = PingResult::Answered {
                        version,
                        report,
                        time,
                    };
                    self.end_ping(token, answer);
                }
                Finding::Replied(token, reply) => {
                    self.end_ping(token, PingResult::Replied(reply));
                }
                Finding::Unanswered(token) => {
                    self.end_ping(token, PingResult::TimedOut);
                }
            }
        }
    }
}
