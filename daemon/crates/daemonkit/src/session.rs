//! A connection with bounded buffers in both directions.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes read in one turn, so that no connection delays the timers.
const READ_MAX: usize = 4096;

/// A non-blocking connection.
pub struct Session<S> {
    stream: S,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    sent: usize,
    /// Whether to close as soon as everything is sent.
    closing: bool,
}

/// State of a session after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Waits for the other end to send.
    Reading,
    /// Has more to send than the other end accepts now.
    Writing,
    /// Is over and must be dropped.
    Ended,
}

impl<S: Read + Write> Session<S> {
    /// Wraps a non-blocking stream.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            inbox: Vec::new(),
            outbox: Vec::new(),
            sent: 0,
            closing: false,
        }
    }

    /// Reads waiting bytes up to a limit; false at the end of the stream.
    pub fn receive(&mut self) -> bool {
        let mut buffer = [0; READ_MAX];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.inbox.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Returns the next complete line without its end.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.inbox.iter().position(|&octet| octet == b'\n')?;
        let mut line: Vec<u8> = self.inbox.drain(..=end).collect();
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Some(line)
    }

    /// Returns whether a complete line has arrived.
    pub fn has_line(&self) -> bool {
        self.inbox.contains(&b'\n')
    }

    /// Returns the number of received bytes that are not yet taken as lines.
    pub fn unread(&self) -> usize {
        self.inbox.len()
    }

    /// Discards the received bytes.
    pub fn discard(&mut self) {
        self.inbox.clear();
    }

    /// Queues bytes.
    pub fn push(&mut self, octets: &[u8]) {
        self.outbox.extend_from_slice(octets);
    }

    /// Returns the number of queued bytes that the other end has not yet accepted.
    pub fn backlog(&self) -> usize {
        self.outbox.len() - self.sent
    }

    /// Ends the session when everything is sent.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Returns whether the session ends when everything is sent.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Sends as much as the other end accepts.
    pub fn flush(&mut self) -> Standing {
        match self.write_out() {
            Err(_) => Standing::Ended,
            Ok(()) if self.backlog() > 0 => Standing::Writing,
            Ok(()) if self.closing => Standing::Ended,
            Ok(()) => Standing::Reading,
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        while self.backlog() > 0 {
            match self.stream.write(&self.outbox[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outbox.drain(..self.sent);
        self.sent = 0;
        Ok(())
    }
}

impl<S: AsFd> AsFd for Session<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Session<UnixStream>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Session::new(ours), theirs)
    }

    #[test]
    fn lines_end_with_lf_or_crlf() {
        let (mut session, mut other) = pair();
        other.write_all(b"one\r\ntwo\nthr").unwrap();
        assert!(session.receive());
        assert_eq!(session.next_line().as_deref(), Some(&b"one"[..]));
        assert_eq!(session.next_line().as_deref(), Some(&b"two"[..]));
        assert_eq!(session.next_line(), None);
        assert_eq!(session.unread(), 3);
        drop(other);
        assert!(!session.receive());
    }

    #[test]
    fn what_the_reader_does_not_take_is_kept_and_then_sent() {
        let (mut session, mut other) = pair();
        let text = vec![b'x'; 4 << 20];
        session.push(&text);
        session.close();
        assert_eq!(session.flush(), Standing::Writing);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            other.read_to_end(&mut all).map(|_| all.len())
        });
        while session.flush() == Standing::Writing {
            std::thread::yield_now();
        }
        drop(session);
        assert_eq!(reader.join().unwrap().unwrap(), text.len());
    }

    #[test]
    fn a_reader_that_has_gone_ends_the_session() {
        let (mut session, other) = pair();
        drop(other);
        session.push(b"x");
        assert_eq!(session.flush(), Standing::Ended);
    }
}
