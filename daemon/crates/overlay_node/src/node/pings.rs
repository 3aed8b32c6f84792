//! Pings and queries of the caller.

use cryptoauth::Address;
use overlay::{Contact, Query};
use switch::Label;

use super::{clock, Node};
use crate::event::{Event, PingId, PingResult, Question};
use crate::Time;

/// Largest number of the caller's pings that wait for answers.
const MAX_PINGS: usize = 256;

/// A ping of the caller.
#[derive(Clone, Copy)]
pub(super) struct Ping {
    pub(super) id: PingId,
    /// The label over which a switch was pinged. A node's answer is identified by the finder.
    pub(super) label: Option<Label>,
    pub(super) sent: Time,
    pub(super) until: Time,
}

impl Node {
    /// Sends a query to the switch at the end of a label, or to this node's own for [`Label::SELF`]. [`Event::Pinged`]
    /// reports the result. Returns `None` if too many pings wait for answers.
    pub fn ping_switch(&mut self, now: Time, label: Label, question: Question) -> Option<PingId> {
        let token = self.random.u64(..);
        let id = self.add_ping(now, token, Some(label))?;
        self.say_switch_ping(label, token, question);
        Some(id)
    }

    /// Pings a node in its inner session, over `label` or the best path. [`Event::Pinged`] reports the result. Returns
    /// `None` if the node is unknown, or too many pings wait.
    pub fn ping_node(
        &mut self,
        now: Time,
        address: Address,
        label: Option<Label>,
    ) -> Option<PingId> {
        if self.pings.len() >= MAX_PINGS {
            return None;
        }
        let token = self.finder.ping(now, address, label)?;
        self.add_ping(now, token, None)
    }

    /// Sends a DHT query to a node in its inner session, over `to.path`. [`Event::Pinged`] reports the result. Returns
    /// `None` if the path is unusable, or too many queries wait.
    pub fn ask_node(&mut self, now: Time, to: Contact, query: Query) -> Option<PingId> {
        if self.pings.len() >= MAX_PINGS {
            return None;
        }
        let token = self.finder.query(now, to, query)?;
        self.add_ping(now, token, None)
    }

    fn add_ping(&mut self, now: Time, token: u64, label: Option<Label>) -> Option<PingId> {
        if self.pings.len() >= MAX_PINGS {
            return None;
        }
        let id = PingId(token);
        let until = now + clock::PING_PATIENCE;
        self.pings.insert(
            token,
            Ping {
                id,
                label,
                sent: now,
                until,
            },
        );
        self.wake_at(until);
        Some(id)
    }

    pub(super) fn end_ping(&mut self, token: u64, result: PingResult) -> bool {
        let ended = self.pings.remove(&token);
        if let Some(ping) = ended {
            self.report(Event::Pinged {
                id: ping.id,
                result,
            });
        }
        ended.is_some()
    }
}
