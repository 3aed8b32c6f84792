//! Those who look into a daemon by its control socket: each is greeted, told of what happens, and may say lines.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::control_socket::ControlSocket;
use crate::session::{Session, Standing};
use crate::{Code, Reactor};

/// Readers at a time.
const READERS_MAX: usize = 16;
/// What a reader may leave unread beyond its greeting and answers, in octets, before it is disconnected.
const BACKLOG_MAX: usize = 1 << 20;
/// The longest line that a reader may say, in octets: some thousand addresses.
const LINE_MAX: usize = 64 << 10;

/// The socket with its readers.
pub struct Readers<T> {
    listener: ControlSocket,
    /// What names a reader to the loop.
    token: fn(u32) -> T,
    readers: BTreeMap<u32, Reader>,
    next: u32,
    dropped: u64,
}

struct Reader {
    session: Session<UnixStream>,
    /// Octets that may be unread: the greeting's or the latest answer's, and [`BACKLOG_MAX`].
    allowed: usize,
    /// Whether the reactor was told that there is something to send.
    waits: bool,
}

impl<T: Code> Readers<T> {
    /// Makes the socket, its directory too, and listens; `listener` names it to the loop.
    ///
    /// # Errors
    /// The path cannot be made, another process listens there, or the group is unknown.
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

    /// Lets another group connect.
    ///
    /// # Errors
    /// The group is unknown.
    pub fn admit(&self, group: Option<&str>) -> io::Result<()> {
        self.listener.admit(group)
    }

    /// Disconnects all readers: what they were greeted with holds no more.
    pub fn restart(&mut self) {
        self.readers.clear();
    }

    /// Readers that were refused or too slow.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes one waiting reader and greets it.
    ///
    /// # Errors
    /// The reader went meanwhile, or there are too many.
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

    /// Serves a reader that is ready; the lines that it has said.
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

    /// The connection of a reader, to see who it is; `None`: it has gone.
    pub fn connection(&self, number: u32) -> Option<BorrowedFd<'_>> {
        let reader = self.readers.get(&number)?;
        Some(reader.session.as_fd())
    }

    /// Tells one reader something that it has asked for, however long it is.
    pub fn answer(&mut self, number: u32, octets: &[u8], reactor: &Reactor<T>) {
        if let Some(reader) = self.readers.get_mut(&number) {
            // Who asks faster than it reads gets no more than one answer beyond the bound.
            let fits = reader.session.backlog() <= BACKLOG_MAX;
            reader.session.push(octets);
            if fits {
                reader.allowed = reader.session.backlog() + BACKLOG_MAX;
            }
        }
        self.flush(reactor, number);
    }

    /// Tells all readers.
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
        let told = waits == reader.waits
            || reactor
                .want_write(&reader.session, (self.token)(number), waits)
                .is_ok();
        reader.waits = waits;
        if slow {
            self.dropped += 1;
            log::warn!("a reader of the control socket is too slow: disconnected");
        }
        if slow || standing == Standing::Ended || !told {
            self.readers.remove(&number);
        }
    }
}
