//! Netlink sockets of any family: one that asks and waits for the answer, and one that listens and never waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netlink_packet_core::{
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
    NLM_F_REQUEST,
};
use netlink_sys::Socket;

use super::datagram::messages;

/// Largest netlink datagram that the kernel builds for a dump or a notice, in octets (NLMSG_GOODSIZE and more).
const DATAGRAM_MAX: usize = 65_536;
/// A kernel, or a driver, that does not answer within this time never will.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A socket for requests, one at a time.
pub struct Asker {
    socket: Socket,
    port: u32,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Asker {
    /// Makes a new socket ready for requests.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn over(mut socket: Socket) -> io::Result<Self> {
        let port = socket.bind_auto()?.port_number();
        socket2::SockRef::from(&socket).set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self {
            socket,
            port,
            sequence: 0,
            buffer: Vec::with_capacity(DATAGRAM_MAX),
        })
    }

    /// The port number under which the kernel reports our own changes.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Sends a request with these flags beside NLM_F_REQUEST; the sequence number that its answers carry.
    ///
    /// # Errors
    /// The socket's.
    pub fn send<M: NetlinkSerializable>(&mut self, message: M, flags: u16) -> io::Result<u32> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        self.socket.send(&octets, 0)?;
        Ok(self.sequence)
    }

    /// The messages of the next datagram that answer request `sequence`.
    ///
    /// # Errors
    /// The socket's; `WouldBlock` when no answer comes in time.
    pub fn receive<M: NetlinkDeserializable>(
        &mut self,
        sequence: u32,
    ) -> io::Result<Vec<NetlinkMessage<M>>> {
        self.buffer.clear();
        self.socket.recv(&mut self.buffer, 0)?;
        let mut answers = messages(&self.buffer);
        answers.retain(|answer| answer.header.sequence_number == sequence);
        Ok(answers)
    }
}

/// A socket that listens to multicast groups.
pub struct Listener {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Listener {
    /// Makes a new socket listen.
    ///
    /// # Errors
    /// The kernel refuses the socket or a group.
    pub fn over(mut socket: Socket, groups: &[u32]) -> io::Result<Self> {
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        for group in groups {
            socket.add_membership(*group)?;
        }
        Ok(Self {
            socket,
            buffer: Vec::with_capacity(DATAGRAM_MAX),
        })
    }

    /// The messages of one datagram; `None` when nothing is left to read.
    ///
    /// # Errors
    /// The socket's; `ENOBUFS` when notices were lost.
    pub fn receive<M: NetlinkDeserializable>(
        &mut self,
    ) -> io::Result<Option<Vec<NetlinkMessage<M>>>> {
        self.buffer.clear();
        match self.socket.recv(&mut self.buffer, 0) {
            Ok(_) => Ok(Some(messages(&self.buffer))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The result that a netlink error code stands for: 0 is an acknowledgement.
///
/// # Errors
/// The kernel's refusal.
pub fn error_of(code: i32) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
    }
}
