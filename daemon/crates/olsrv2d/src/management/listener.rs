//! Sockets on which a text interface accepts connections.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use daemonkit::ControlSocket;

/// A socket on which connections arrive.
pub trait Listener: AsFd {
    /// A connection.
    type Stream: Read + Write + AsFd;

    /// Accepts a waiting connection and makes it non-blocking.
    ///
    /// # Errors
    /// No connection is waiting.
    fn take(&self) -> io::Result<Self::Stream>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn take(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept()?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

impl Listener for ControlSocket {
    type Stream = UnixStream;

    fn take(&self) -> io::Result<UnixStream> {
        self.accept()
    }
}
