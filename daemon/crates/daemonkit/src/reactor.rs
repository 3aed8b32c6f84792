//! Readiness of file descriptors, level-triggered: whoever reads only a part is told again.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::Timespec;

/// Readiness taken in one turn; more waits for the next, after the timers.
const READY_MAX: usize = 64;

/// What names a descriptor to its owner, as the kernel keeps it.
pub trait Code: Sized {
    /// As a number.
    fn encode(self) -> u64;
    /// What [`Code::encode`] made the number of.
    fn decode(code: u64) -> Option<Self>;
}

/// An epoll instance. A descriptor leaves it when it is closed.
pub struct Reactor<T> {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    token: PhantomData<T>,
}

impl<T: Code> Reactor<T> {
    /// An empty one.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self {
            epoll,
            ready: Vec::with_capacity(READY_MAX),
            token: PhantomData,
        })
    }

    /// Waits for a descriptor to become readable or to end.
    ///
    /// # Errors
    /// The kernel's limits.
    pub fn add(&self, source: impl AsFd, token: T) -> io::Result<()> {
        let data = EventData::new_u64(token.encode());
        Ok(epoll::add(
            &self.epoll,
            source,
            data,
            interest(true, false),
        )?)
    }

    /// Waits for a known descriptor to become writable too, or no more.
    ///
    /// # Errors
    /// The descriptor is not known.
    pub fn want_write(&self, source: impl AsFd, token: T, wanted: bool) -> io::Result<()> {
        self.want(source, token, true, wanted)
    }

    /// Waits for a known descriptor to become readable, or writable, or neither.
    ///
    /// # Errors
    /// The descriptor is not known.
    pub fn want(&self, source: impl AsFd, token: T, read: bool, write: bool) -> io::Result<()> {
        let data = EventData::new_u64(token.encode());
        Ok(epoll::modify(
            &self.epoll,
            source,
            data,
            interest(read, write),
        )?)
    }

    /// What is ready, at most after `timeout`; `None` waits for ever.
    ///
    /// # Errors
    /// The epoll instance is broken; a signal is none.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Vec<T>> {
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
            .filter_map(|event| T::decode(event.data.u64()))
            .collect())
    }
}

/// Readable when something in it is ready: one reactor can be in another.
impl<T> AsFd for Reactor<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn interest(read: bool, write: bool) -> EventFlags {
    let mut flags = EventFlags::empty();
    if read {
        flags |= EventFlags::IN | EventFlags::RDHUP;
    }
    if write {
        flags |= EventFlags::OUT;
    }
    flags
}
