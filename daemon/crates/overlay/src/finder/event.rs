//! What a finder returns to its caller.

use alloc::vec::Vec;
use core::time::Duration;

use cryptoauth::Address;
use switch::Scheme;

use crate::message::{Contact, MessageError};

/// A DHT message to be sent in an inner session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The receiver and the path.
    pub to: Contact,
    /// The payload of a data frame with content type 256.
    pub payload: Vec<u8>,
}

/// A change for a wanted node, or the result of a query of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This is the best path from now on.
    Way(Contact),
    /// There is no proved path any more. A search has started.
    Lost(Address),
    /// A search did not find the node.
    NotFound(Address),
    /// A query over this path got no answer in time. If there is a session with the node, it may have lost its keys.
    Missed(Contact),
    /// The node answered the [`Finder::ping`](super::Finder::ping) with this number, after this time.
    Answered(u64, Contact, Duration),
    /// The node answered the [`Finder::query`](super::Finder::query) with this number.
    Replied(u64, Reply),
    /// The [`Finder::ping`](super::Finder::ping) or [`Finder::query`](super::Finder::query) with this number got no
    /// answer.
    Unanswered(u64),
}

/// An answer to a query of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The node that answered, and the path to it.
    pub from: Contact,
    /// Its encoding scheme.
    pub scheme: Scheme,
    /// The nodes in the answer. Their labels are relative to the answering node.
    pub contacts: Vec<Contact>,
    /// The time from the query to the answer.
    pub time: Duration,
}

/// Counters of what was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that could not be decoded.
    pub malformed: u64,
    /// Messages from nodes with an incompatible protocol version.
    pub incompatible: u64,
    /// Answers without a query, or after its time.
    pub unexpected: u64,
    /// Unusable nodes in answers.
    pub useless: u64,
    /// Calls of [`Finder::want`](super::Finder::want) for which there was no space.
    pub overflow: u64,
}

/// Why a message had no effect. It is already counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It could not be decoded.
    Malformed(MessageError),
    /// Its sender has this incompatible protocol version.
    Incompatible(u32),
    /// Its sender was not asked for it, or it arrived too late.
    Unexpected,
    /// Its sender, or the path back to it, is unusable.
    Useless,
}
