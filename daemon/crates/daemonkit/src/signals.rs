//! Signals as something to wait for.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

/// The signals that mean something to a daemon.
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
            // In this order: whoever is woken finds the mark set.
            flag::register(signal, Arc::clone(mark))?;
            pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(signals)
    }

    /// Whether to end.
    pub fn end(&self) -> bool {
        self.end.load(Ordering::SeqCst)
    }

    /// Whether to read the configuration again; asks once.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::SeqCst)
    }

    /// Takes note of having been woken.
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
