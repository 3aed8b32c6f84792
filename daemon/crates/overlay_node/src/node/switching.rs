//! The switch, and the control frames to this node.

use core::ops::Range;

use cryptoauth::PublicKey;
use overlay::{Contact, Content, Delivered, InnerError};
use rand_core::CryptoRng;
use switch::{
    error_frame, forward, refused_frame, Answerer, Control, ErrorCode, Handle, Header, Interface,
    Label, Refusal, Snode, MAX_ERROR_FRAME, PROTOCOL_VERSION,
};

use super::originate::{encode, Outgoing, MAX_CONTROL, NEIGHBOUR};
use super::{Node, Verdict};
use crate::counters::Cause;
use crate::event::{Event, PingResult, Question, Told};
use crate::interface::LinkAddress;
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
                self.tell_refusal(now, source, refusal, &buffer[frame]);
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
    fn tell_refusal(&mut self, now: Time, source: Interface, refusal: Refusal, frame: &[u8]) {
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
                    self.tell_unknown(now, &buffer[frame]);
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
            self.tell(Event::SessionUp(address));
            self.kept.touch();
            self.release(address);
        }
        verdict
    }

    /// Tells the sender of a frame that its handle is unknown. After a restart this node has lost its sessions.
    fn tell_unknown(&mut self, now: Time, frame: &[u8]) {
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

/// Control frames.
impl Node {
    /// Handles a control frame from a neighbour's router.
    fn hear_neighbour(&mut self, now: Time, number: usize, frame: &[u8]) {
        let Some(control) = self.decode_control(&frame[Header::LEN + Handle::LEN..]) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(number) else {
            return;
        };
        let (key, address) = (peer.key, peer.endpoint.address);
        let label = peer.label().unwrap_or(NEIGHBOUR);
        let is_up = peer.up;
        match control {
            Control::Pong { .. } | Control::KeyPong { .. } => {
                if !self.take_told(now, &control) {
                    if let Some(peer) = self.peers.get_mut(number) {
                        peer.note_pong(now);
                    }
                }
                self.hear_version(now, number, &control);
            }
            Control::Error { .. } => self.hear_error(now, label, &control),
            Control::SnodeReply(_) | Control::RpathReply { .. } | Control::LinkReply { .. } => {
                if !self.take_told(now, &control) {
                    self.counters.drop(Cause::ControlUnexpected);
                }
            }
            _ => {
                if !peer.may_ask(now) {
                    return self.counters.drop(Cause::ControlFlood);
                }
                self.hear_version(now, number, &control);
                let answer = self.answerer(Some(address)).answer(&control, label);
                let is_ping = matches!(control, Control::Ping { .. } | Control::KeyPing { .. });
                match answer.filter(|_| is_up || is_ping) {
                    Some(answer) => self.answer_neighbour(number, key, &answer),
                    None => self.counters.drop(Cause::ControlUnexpected),
                }
            }
        }
    }

    fn answer_neighbour(&mut self, number: usize, key: PublicKey, answer: &Control) {
        if let Some(frame) = encode(answer, NEIGHBOUR) {
            self.say(Outgoing::Neighbour((number, key), frame));
        }
    }

    /// Handles a control frame from a distant node. `path` is the path back.
    fn hear_control(&mut self, now: Time, path: Label, octets: &[u8]) {
        let Some(control) = self.decode_control(octets) else {
            return;
        };
        match control {
            Control::Error { .. } => self.hear_error(now, path, &control),
            Control::Pong { .. }
            | Control::KeyPong { .. }
            | Control::SnodeReply(_)
            | Control::RpathReply { .. }
            | Control::LinkReply { .. } => {
                if !self.take_told(now, &control) {
                    self.counters.drop(Cause::ControlUnexpected);
                }
            }
            _ if !self
                .rates
                .control_answers
                .take(now, self.limits.control_answers) =>
            {
                self.counters.drop(Cause::ControlFlood);
            }
            _ => {
                let neighbour = self.neighbour_at(path);
                let answer = self.answerer(neighbour).answer(&control, path);
                match answer.and_then(|answer| encode(&answer, path)) {
                    Some(frame) => self.say(Outgoing::Switch(frame)),
                    None => self.counters.drop(Cause::ControlUnexpected),
                }
            }
        }
    }

    fn decode_control<'a>(&mut self, octets: &'a [u8]) -> Option<Control<'a>> {
        let short = octets.get(..octets.len().min(MAX_CONTROL))?;
        let control = Control::decode(octets)
            .ok()
            .filter(|_| short.len() == octets.len());
        if control.is_none() {
            self.counters.drop(Cause::ControlMalformed);
        }
        control
    }

    fn answerer(&self, neighbour: Option<LinkAddress>) -> Answerer {
        Answerer {
            key: *self.local.public().octets(),
            neighbour: neighbour.map(as_told),
        }
    }

    /// Returns the address of the neighbour at the end of a label of one hop.
    fn neighbour_at(&self, path: Label) -> Option<LinkAddress> {
        let mut peers = self.peers.iter();
        let (_, peer) = peers.find(|(_, peer)| peer.up && peer.label() == Some(path))?;
        Some(peer.endpoint.address)
    }

    /// Handles an answer to [`Node::ping_switch`]. Returns whether the control frame is one.
    fn take_told(&mut self, now: Time, control: &Control) -> bool {
        let Some((version, opaque, told)) = told_by(control) else {
            return false;
        };
        let Some(token) = opaque.try_into().ok().map(u64::from_be_bytes) else {
            return false;
        };
        let Some(ping) = self
            .pings
            .get(&token)
            .copied()
            .filter(|ping| ping.label.is_some())
        else {
            return false;
        };
        let time = now.saturating_sub(ping.sent);
        let answer = PingResult::Answered {
            version,
            told,
            time,
        };
        self.end_ping(token, answer)
    }

    /// Handles an ERROR for a frame sent over `label`. Anybody can forge one.
    fn hear_error(&mut self, now: Time, label: Label, control: &Control) {
        let Control::Error { code, handle, .. } = *control else {
            return;
        };
        if !self
            .rates
            .control_answers
            .take(now, self.limits.control_answers)
        {
            return self.counters.drop(Cause::ControlFlood);
        }
        if code != ErrorCode::AUTHENTICATION {
            return self.end_way(now, label, code);
        }
        // The ERROR says that the other end does not know this session. If that is true, the other end is silent.
        if let Some(key) = self.sessions.by_their_handle(handle) {
            self.suspect_session(now, &key);
        }
    }

    /// Handles an ERROR that says that a path leads nowhere.
    fn end_way(&mut self, now: Time, label: Label, code: ErrorCode) {
        let by_it = |(_, ping): &(&u64, &super::Ping)| ping.label == Some(label);
        let token = self.pings.iter().find(by_it).map(|(token, _)| *token);
        if let Some(token) = token {
            self.end_ping(token, PingResult::Refused(code));
        }
        self.finder.handle_error(now, label);
        self.draw_finder(now);
    }

    /// Sends the query of [`Node::ping_switch`].
    pub(super) fn say_switch_ping(&mut self, label: Label, token: u64, question: Question) {
        let (version, opaque) = (PROTOCOL_VERSION, &token.to_be_bytes()[..]);
        let control = match question {
            Question::Presence => Control::Ping { version, opaque },
            Question::Key => Control::KeyPing {
                version,
                key: *self.local.public().octets(),
                opaque,
            },
            Question::Supernode => Control::SnodeQuery(Snode::none(opaque)),
            Question::WayBack => Control::RpathQuery {
                version,
                path: Label(0),
                opaque,
            },
            Question::Link => Control::LinkQuery { version, opaque },
        };
        if let Some(frame) = encode(&control, label) {
            self.say(Outgoing::Switch(frame));
        }
    }
}

/// Returns the sender's protocol version, the returned octets and the content of an answer.
fn told_by<'a>(control: &Control<'a>) -> Option<(u32, &'a [u8], Told)> {
    Some(match *control {
        Control::Pong { version, opaque } => (version, opaque, Told::Presence),
        Control::KeyPong {
            version,
            key,
            opaque,
        } => (version, opaque, Told::Key(PublicKey::from_octets(key))),
        Control::SnodeReply(snode) => (snode.version, snode.opaque, told_supernode(&snode)),
        Control::RpathReply {
            version,
            path,
            opaque,
        } => (version, opaque, Told::WayBack(path)),
        Control::LinkReply {
            version,
            address,
            opaque,
        } => (version, opaque, Told::Link(address)),
        _ => return None,
    })
}

fn told_supernode(snode: &Snode) -> Told {
    let key = PublicKey::from_octets(snode.key);
    let is_known = snode.path != Label(0) && key.node_address().is_ok();
    Told::Supernode(is_known.then_some(Contact {
        key,
        path: snode.path,
        version: snode.snode_version,
    }))
}

/// Returns whether a frame is a control frame from a neighbour's router to this one.
fn is_neighbours(frame: &[u8]) -> bool {
    let handle = frame.get(Header::LEN..Header::LEN + Handle::LEN);
    frame.starts_with(&NEIGHBOUR.0.to_be_bytes()) && handle == Some(&[0xff; Handle::LEN])
}

/// Returns an address in the form in which neighbours tell each other their addresses.
fn as_told(address: LinkAddress) -> switch::LinkAddress {
    match address {
        LinkAddress::Udp(core::net::SocketAddr::V4(address)) => switch::LinkAddress::Udp4(address),
        LinkAddress::Udp(core::net::SocketAddr::V6(address)) => switch::LinkAddress::Udp6(address),
        LinkAddress::Ethernet(_) => switch::LinkAddress::Other([0; 30]),
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
