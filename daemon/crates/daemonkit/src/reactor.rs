//! Waits for file descriptors. Readiness is level-triggered: a descriptor that was read only in part is reported again.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::Timespec;

/// Largest number of descriptors reported in one turn. The others follow in the next, after the timers.
const READY_MAX: usize = 64;

/// The name of a descriptor, as the kernel stores it.
pub trait Code: Sized {
    /// Returns the name as a number.
    fn encode(self) -> u64;
    /// Returns the name from which [`Code::encode`] made the number.
    fn decode(code: u64) -> Option<Self>;
}

/// An epoll instance. A descriptor leaves it when it is closed.
pub struct Reactor<T> {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    token: PhantomData<T>,
}

impl<T: Code> Reactor<T> {
    /// Creates an empty epoll instance.
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

    /// Watches a descriptor that becomes readable or ends.
    ///
    /// # Errors
    /// A limit of the kernel is reached.
    pub fn add(&self, source: impl AsFd, token: T) -> io::Result<()> {
        let data = EventData::new_u64(token.encode());
        Ok(epoll::add(
            &self.epoll,
            source,
            data,
            interest(true, false),
        )?)
    }

    /// Watches, or no longer watches, whether a known descriptor is writable.
    ///
    /// # Errors
    /// The descriptor is not known.
    pub fn want_write(&self, source: impl AsFd, token: T, wanted: bool) -> io::Result<()> {
        self.want(source, token, true, wanted)
    }

    /// Watches whether a known descriptor is readable, writable, both or neither.
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

    /// Waits for ready descriptors, no longer than `timeout`; forever with `None`.
    ///
    /// # Errors
    /// The epoll instance is broken. A signal is no error.
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

/// Readable when a descriptor in it is ready, so that one reactor can be in another.
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
