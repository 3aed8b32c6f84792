//! Subscriptions to the router's log.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use crate::answer::Answer;
use crate::arguments::Wrong;
use crate::now::Now;

/// Largest number of subscriptions, as in cjdns.
pub const MAX_SUBSCRIPTIONS: usize = 64;
/// Number of bytes of a message that are sent, so that a line fits into a datagram.
const MAX_MESSAGE: usize = 1024;

/// Level of a log line, with the names of cjdns, the least important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `KEYS`: more than is useful.
    Keys,
    /// `DEBUG`.
    Debug,
    /// `INFO`.
    Info,
    /// `WARN`.
    Warn,
    /// `ERROR`.
    Error,
    /// `CRITICAL`.
    Critical,
}

/// A line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// Its level.
    pub level: LogLevel,
    /// The source file that wrote it, without its folder.
    pub file: &'a str,
    /// Its line in that file.
    pub line: u32,
    /// What it says.
    pub message: &'a str,
}

/// Which lines a subscriber wants.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) level: LogLevel,
    /// Only lines of this file, if set.
    pub(crate) file: Option<Vec<u8>>,
    /// Only the line with this number, if set.
    pub(crate) line: Option<u32>,
}

struct Subscription {
    stream: u64,
    to: SocketAddr,
    txid: Option<Vec<u8>>,
    filter: Filter,
}

/// The subscriptions, in the order in which they were made.
#[derive(Default)]
pub(crate) struct Subscriptions {
    all: Vec<Subscription>,
    made: u64,
}

const LEVELS: [(&str, LogLevel); 6] = [
    ("KEYS", LogLevel::Keys),
    ("DEBUG", LogLevel::Debug),
    ("INFO", LogLevel::Info),
    ("WARN", LogLevel::Warn),
    ("ERROR", LogLevel::Error),
    ("CRITICAL", LogLevel::Critical),
];

impl LogLevel {
    /// Returns the level of that name.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        let found = LEVELS.iter().find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, level)| *level)
    }

    const fn name(self) -> &'static str {
        LEVELS[self as usize].0
    }
}

impl Filter {
    fn takes(&self, line: &LogLine<'_>) -> bool {
        line.level >= self.level
            && self.line.is_none_or(|wanted| wanted == line.line)
            && self
                .file
                .as_ref()
                .is_none_or(|wanted| wanted == line.file.as_bytes())
    }
}

impl Subscriptions {
    /// Adds a subscription and returns its stream's name.
    pub(crate) fn add(
        &mut self,
        to: SocketAddr,
        txid: Option<&[u8]>,
        filter: Filter,
    ) -> Result<String, Wrong> {
        if self.all.len() >= MAX_SUBSCRIPTIONS {
            return Err(format!(
                "there are {MAX_SUBSCRIPTIONS} subscriptions, which is the most: unsubscribe one"
            ));
        }
        self.made += 1;
        self.all.push(Subscription {
            stream: self.made,
            to,
            txid: txid.map(<[u8]>::to_vec),
            filter,
        });
        Ok(format!("{:016x}", self.made))
    }

    /// Removes a subscription of any caller.
    pub(crate) fn remove(&mut self, stream: u64) -> Result<(), Wrong> {
        let place = self.all.iter().position(|one| one.stream == stream);
        let place = place.ok_or("No such subscription.")?;
        self.all.remove(place);
        Ok(())
    }

    /// Keeps only the subscriptions of callers that are still known.
    pub(crate) fn retain(&mut self, is_there: impl Fn(SocketAddr) -> bool) {
        self.all.retain(|one| is_there(one.to));
    }

    /// Returns the lowest level that a subscriber wants.
    pub(crate) fn level(&self) -> Option<LogLevel> {
        self.all.iter().map(|one| one.filter.level).min()
    }

    /// Returns the datagrams that carry a line to its subscribers.
    pub(crate) fn datagrams<'a>(
        &'a self,
        now: Now,
        line: LogLine<'a>,
    ) -> impl Iterator<Item = (SocketAddr, Vec<u8>)> + 'a {
        let takers = self.all.iter().filter(move |one| one.filter.takes(&line));
        takers.map(move |one| {
            let octets = line.message.as_bytes();
            let answer = Answer::new()
                .with("file", line.file)
                .with("level", line.level.name())
                .with("line", line.line)
                .with("message", octets[..octets.len().min(MAX_MESSAGE)].to_vec())
                .with("streamId", format!("{:016x}", one.stream))
                .with("time", now.unix.as_secs());
            (one.to, answer.encode(one.txid.as_deref()))
        })
    }
}
