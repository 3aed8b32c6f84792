//! The readers of a daemon's control socket. Each gets a greeting and then events, and may send lines.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::control_socket::ControlSocket;
use crate::session::{Session, Standing};
use crate::{Code, Reactor};

/// Largest number of readers.
const READERS_MAX: usize = 16;
/// Bytes that a reader may leave unread in addition to its greeting and answers, before it is disconnected.
const BACKLOG_MAX: usize = 1 << 20;
/// Longest line of a reader in bytes, some thousand addresses.
const LINE_MAX: usize = 64 << 10;

/// The socket and its readers.
pub struct Readers<T> {
    listener: ControlSocket,
    /// Makes the token of a reader in the event loop.
    token: fn(u32) -> T,
    readers: BTreeMap<u32, Reader>,
    next: u32,
    dropped: u64,
}

struct Reader {
    session: Session<UnixStream>,
    /// Bytes that may be unread: the length of the greeting or the latest answer, and [`BACKLOG_MAX`].
    allowed: usize,
    /// Whether the reactor watches if it is writable, because something waits to be sent.
    waits: bool,
}

impl<T: Code> Readers<T> {
    /// Creates the socket and its directory, and listens; `listener` is its token in the event loop.
    ///
    /// # Errors
    /// The path cannot be created, another process listens there, or the group is unknown.
    pub fn listen(
        path: &Path,
        group: Option<&str>,
        reactor: &Reactor<T>,
        listener: T,
        token: fn(u32) -> T,
    ) -> io::Result<Self> {
        let socket = ControlSocket::listen(path, group)?;
        reactor.add(&socket, listener)?;
        Ok(Self {
            listener: socket,
            token,
            readers: BTreeMap::new(),
            next: 0,
            dropped: 0,
        })
    }

    /// Changes the group that may connect.
    ///
    /// # Errors
    /// The group is unknown.
    pub fn admit(&self, group: Option<&str>) -> io::Result<()> {
        self.listener.admit(group)
    }

    /// Disconnects all readers, because their greeting is no longer true.
    pub fn restart(&mut self) {
        self.readers.clear();
    }

    /// Returns how many readers were refused or too slow.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Accepts one waiting reader and greets it.
    ///
    /// # Errors
    /// The reader has disconnected, or there are too many.
    pub fn accept(
        &mut self,
        reactor: &Reactor<T>,
        greeting: impl FnOnce(&Self) -> Vec<u8>,
    ) -> io::Result<()> {
        let stream = self.listener.accept()?;
        if self.readers.len() >= READERS_MAX {
            self.dropped += 1;
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("more than {READERS_MAX} readers"),
            ));
        }
        self.next = self.next.wrapping_add(1);
        reactor.add(&stream, (self.token)(self.next))?;
        let reader = Reader {
            session: Session::new(stream),
            allowed: BACKLOG_MAX,
            waits: false,
        };
        let greeting = greeting(self);
        self.readers.insert(self.next, reader);
        self.answer(self.next, &greeting, reactor);
        Ok(())
    }

    /// Serves a reader that is ready. Returns the lines that it has sent.
    pub fn serve(&mut self, number: u32, reactor: &Reactor<T>) -> Vec<Vec<u8>> {
        let Some(reader) = self.readers.get_mut(&number) else {
            return Vec::new();
        };
        if !reader.session.receive() {
            self.readers.remove(&number);
            return Vec::new();
        }
        let lines = std::iter::from_fn(|| reader.session.next_line()).collect();
        if reader.session.unread() > LINE_MAX {
            reader.session.discard();
        }
        self.flush(reactor, number);
        lines
    }

    /// Returns the connection of a reader, which tells whose process it is; `None` if the reader is gone.
    pub fn connection(&self, number: u32) -> Option<BorrowedFd<'_>> {
        let reader = self.readers.get(&number)?;
        Some(reader.session.as_fd())
    }

    /// Sends one reader an answer of any length.
    pub fn answer(&mut self, number: u32, octets: &[u8], reactor: &Reactor<T>) {
        if let Some(reader) = self.readers.get_mut(&number) {
            // A reader that asks faster than it reads gets at most one answer beyond the limit.
            let fits = reader.session.backlog() <= BACKLOG_MAX;
            reader.session.push(octets);
            if fits {
                reader.allowed = reader.session.backlog() + BACKLOG_MAX;
            }
        }
        self.flush(reactor, number);
    }

    /// Sends bytes to all readers.
    pub fn send(&mut self, reactor: &Reactor<T>, octets: &[u8]) {
        let numbers: Vec<u32> = self.readers.keys().copied().collect();
        for number in numbers {
            if let Some(reader) = self.readers.get_mut(&number) {
                reader.session.push(octets);
            }
            self.flush(reactor, number);
        }
    }

    fn flush(&mut self, reactor: &Reactor<T>, number: u32) {
        let Some(reader) = self.readers.get_mut(&number) else {
            return;
        };
        let standing = reader.session.flush();
        let waits = standing == Standing::Writing;
        let slow = reader.session.backlog() > reader.allowed;
        let watched = waits == reader.waits
            || reactor
                .want_write(&reader.session, (self.token)(number), waits)
                .is_ok();
        reader.waits = waits;
        if slow {
            self.dropped += 1;
            log::warn!("a reader of the control socket is too slow: disconnected");
        }
        if slow || standing == Standing::Ended || !watched {
            self.readers.remove(&number);
        }
    }
}
