//! Makes signals readable on a descriptor.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

/// The signals that a daemon handles.
pub struct Signals {
    wake: UnixStream,
    end: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Catches SIGTERM, SIGINT and SIGHUP from now on.
    ///
    /// # Errors
    /// The kernel refuses a socket pair.
    pub fn catch() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let signals = Self {
            wake,
            end: Arc::default(),
            reload: Arc::default(),
        };
        for (signal, mark) in [
            (SIGTERM, &signals.end),
            (SIGINT, &signals.end),
            (SIGHUP, &signals.reload),
        ] {
            // In this order, so that the mark is set when the loop wakes up.
            flag::register(signal, Arc::clone(mark))?;
            pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(signals)
    }

    /// Returns whether the daemon must end.
    pub fn end(&self) -> bool {
        self.end.load(Ordering::SeqCst)
    }

    /// Returns whether the configuration must be read again, and resets this.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::SeqCst)
    }

    /// Discards the bytes that woke the loop.
    pub fn drain(&mut self) {
        let mut octets = [0; 64];
        while matches!(self.wake.read(&mut octets), Ok(count) if count > 0) {}
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
