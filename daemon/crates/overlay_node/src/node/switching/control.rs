//! Control frames: questions, answers and errors of switches.

use cryptoauth::PublicKey;
use overlay::Contact;
use switch::{Answerer, Control, ErrorCode, Handle, Header, Label, Snode, PROTOCOL_VERSION};

use super::super::originate::{encode, Outgoing, MAX_CONTROL, NEIGHBOUR};
use super::super::Node;
use crate::counters::Cause;
use crate::event::{PingResult, Question, Report};
use crate::interface::LinkAddress;
use crate::Time;

/// Control frames.
impl Node {
    /// Handles a control frame from a neighbour's router.
    pub(super) fn hear_neighbour(&mut self, now: Time, number: usize, frame: &[u8]) {
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
                if !self.take_report(now, &control) {
                    if let Some(peer) = self.peers.get_mut(number) {
                        peer.note_pong(now);
                    }
                }
                self.hear_version(now, number, &control);
            }
            Control::Error { .. } => self.hear_error(now, label, &control),
            Control::SnodeReply(_) | Control::RpathReply { .. } | Control::LinkReply { .. } => {
                if !self.take_report(now, &control) {
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

    pub(super) fn answer_neighbour(&mut self, number: usize, key: PublicKey, answer: &Control) {
        if let Some(frame) = encode(answer, NEIGHBOUR) {
            self.say(Outgoing::Neighbour((number, key), frame));
        }
    }

    /// Handles a control frame from a distant node. `path` is the path back.
    pub(super) fn hear_control(&mut self, now: Time, path: Label, octets: &[u8]) {
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
                if !self.take_report(now, &control) {
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

    pub(super) fn decode_control<'a>(&mut self, octets: &'a [u8]) -> Option<Control<'a>> {
        let short = octets.get(..octets.len().min(MAX_CONTROL))?;
        let control = Control::decode(octets)
            .ok()
            .filter(|_| short.len() == octets.len());
        if control.is_none() {
            self.counters.drop(Cause::ControlMalformed);
        }
        control
    }

    pub(super) fn answerer(&self, neighbour: Option<LinkAddress>) -> Answerer {
        Answerer {
            key: *self.local.public().octets(),
            neighbour: neighbour.map(as_reported),
        }
    }

    /// Returns the address of the neighbour at the end of a label of one hop.
    pub(super) fn neighbour_at(&self, path: Label) -> Option<LinkAddress> {
        let mut peers = self.peers.iter();
        let (_, peer) = peers.find(|(_, peer)| peer.up && peer.label() == Some(path))?;
        Some(peer.endpoint.address)
    }

    /// Handles an answer to [`Node::ping_switch`]. Returns whether the control frame is one.
    pub(super) fn take_report(&mut self, now: Time, control: &Control) -> bool {
        let Some((version, opaque, report)) = report_in(control) else {
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
            report,
            time,
        };
        self.end_ping(token, answer)
    }

    /// Handles an ERROR for a frame sent over `label`. Anybody can forge one.
    pub(super) fn hear_error(&mut self, now: Time, label: Label, control: &Control) {
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
    pub(super) fn end_way(&mut self, now: Time, label: Label, code: ErrorCode) {
        let by_it = |(_, ping): &(&u64, &super::super::Ping)| ping.label == Some(label);
        let token = self.pings.iter().find(by_it).map(|(token, _)| *token);
        if let Some(token) = token {
            self.end_ping(token, PingResult::Refused(code));
        }
        self.finder.handle_error(now, label);
        self.draw_finder(now);
    }

    /// Sends the query of [`Node::ping_switch`].
    pub(in crate::node) fn say_switch_ping(
        &mut self,
        label: Label,
        token: u64,
        question: Question,
    ) {
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
fn report_in<'a>(control: &Control<'a>) -> Option<(u32, &'a [u8], Report)> {
    Some(match *control {
        Control::Pong { version, opaque } => (version, opaque, Report::Presence),
        Control::KeyPong {
            version,
            key,
            opaque,
        } => (version, opaque, Report::Key(PublicKey::from_octets(key))),
        Control::SnodeReply(snode) => (snode.version, snode.opaque, supernode_report(&snode)),
        Control::RpathReply {
            version,
            path,
            opaque,
        } => (version, opaque, Report::WayBack(path)),
        Control::LinkReply {
            version,
            address,
            opaque,
        } => (version, opaque, Report::Link(address)),
        _ => return None,
    })
}

fn supernode_report(snode: &Snode) -> Report {
    let key = PublicKey::from_octets(snode.key);
    let is_known = snode.path != Label(0) && key.node_address().is_ok();
    Report::Supernode(is_known.then_some(Contact {
        key,
        path: snode.path,
        version: snode.snode_version,
    }))
}

/// Returns an address in the form in which neighbours send each other their addresses.
fn as_reported(address: LinkAddress) -> switch::LinkAddress {
    match address {
        LinkAddress::Udp(core::net::SocketAddr::V4(address)) => switch::LinkAddress::Udp4(address),
        LinkAddress::Udp(core::net::SocketAddr::V6(address)) => switch::LinkAddress::Udp6(address),
        LinkAddress::Ethernet(_) => switch::LinkAddress::Other([0; 30]),
    }
}
