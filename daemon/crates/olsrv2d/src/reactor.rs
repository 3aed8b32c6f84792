//! Readiness of file descriptors, level-triggered: whoever reads only a part is told again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::Timespec;

/// Readiness taken in one turn; more waits for the next, after the timers.
const READY_MAX: usize = 64;

/// Whose descriptor is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Token {
    /// A signal has come.
    Signal,
    /// The kernel has notices.
    Monitor,
    /// A new text session.
    TelnetListener,
    /// A new reader of the change stream.
    ChangesListener,
    /// The IPv4 socket of the MANET interface with this index.
    MeshV4(u32),
    /// The IPv6 socket of the MANET interface with this index.
    MeshV6(u32),
    /// A text session.
    Telnet(u32),
    /// A reader of the change stream.
    Changes(u32),
    /// The kernel tells of wireless stations.
    Stations,
    /// Drivers have told of their stations.
    Survey,
}

impl Token {
    fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Signal => (0, 0),
            Self::Monitor => (1, 0),
            Self::TelnetListener => (2, 0),
            Self::ChangesListener => (3, 0),
            Self::MeshV4(index) => (4, index),
            Self::MeshV6(index) => (5, index),
            Self::Telnet(number) => (6, number),
            Self::Changes(number) => (7, number),
            Self::Stations => (8, 0),
            Self::Survey => (9, 0),
        };
        (kind << 32) | u64::from(number)
    }

    fn decode(code: u64) -> Option<Self> {
        let number = code as u32;
        Some(match code >> 32 {
            0 => Self::Signal,
            1 => Self::Monitor,
            2 => Self::TelnetListener,
            3 => Self::ChangesListener,
            4 => Self::MeshV4(number),
            5 => Self::MeshV6(number),
            6 => Self::Telnet(number),
            7 => Self::Changes(number),
            8 => Self::Stations,
            9 => Self::Survey,
            _ => return None,
        })
    }
}

/// An epoll instance. A descriptor leaves it when it is closed.
pub struct Reactor {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
}

impl Reactor {
    /// An empty one.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self {
            epoll,
            ready: Vec::with_capacity(READY_MAX),
        })
    }

    /// Waits for a descriptor to become readable or to end.
    ///
    /// # Errors
    /// The kernel's limits.
    pub fn add(&self, source: impl AsFd, token: Token) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            source,
            EventData::new_u64(token.encode()),
            interest(false),
        )?)
    }

    /// Waits for a known descriptor to become writable too, or no more.
    ///
    /// # Errors
    /// The descriptor is not known.
    pub fn want_write(&self, source: impl AsFd, token: Token, wanted: bool) -> io::Result<()> {
        Ok(epoll::modify(
            &self.epoll,
            source,
            EventData::new_u64(token.encode()),
            interest(wanted),
        )?)
    }

    /// What is ready, at most after `timeout`; `None` waits for ever.
    ///
    /// # Errors
    /// The epoll instance is broken; a signal is none.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Vec<Token>> {
        let timeout = timeout.map(|timeout| {
            Timespec::try_from(timeout).unwrap_or(Timespec {
                tv_sec: 60,
                tv_nsec: 0,
            })
        });
        self.ready.clear();
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.ready),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self
            .ready
            .iter()
            .filter_map(|event| Token::decode(event.data.u64()))
            .collect())
    }
}

fn interest(write: bool) -> EventFlags {
    if write {
        EventFlags::IN | EventFlags::RDHUP | EventFlags::OUT
    } else {
        EventFlags::IN | EventFlags::RDHUP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_kernel() {
        let tokens = [
            Token::Signal,
            Token::Monitor,
            Token::MeshV4(7),
            Token::MeshV6(u32::MAX),
            Token::Changes(9),
            Token::Stations,
            Token::Survey,
        ];
        for token in tokens {
            assert_eq!(Token::decode(token.encode()), Some(token));
        }
        assert_eq!(Token::decode(u64::MAX), None);
    }
}
