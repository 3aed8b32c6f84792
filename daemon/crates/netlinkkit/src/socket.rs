//! Netlink sockets of any family: one sends requests and waits for answers, one receives notices and never waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netlink_packet_core::{
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
    NLM_F_REQUEST,
};
use netlink_sys::Socket;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

use crate::datagram::messages;

/// Largest netlink datagram that the kernel builds for a dump or a notice, in bytes (NLMSG_GOODSIZE and more).
const DATAGRAM_MAX: usize = 65_536;
/// Time after which the kernel or a driver is taken to be unable to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A socket for requests, one at a time.
pub struct Asker {
    socket: Socket,
    port: u32,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Asker {
    /// Prepares a new socket for requests.
    ///
    /// # Errors
    /// The kernel refuses an option or the address.
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

    /// Returns the port number under which the kernel reports our own changes.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Sends a request with `flags` and NLM_F_REQUEST. Returns the sequence number that its answers carry.
    ///
    /// # Errors
    /// Sending fails.
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

    /// Returns the messages of the next datagram that answer request `sequence`.
    ///
    /// # Errors
    /// Receiving fails; `WouldBlock` if no answer arrives in time.
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

/// A socket that receives the notices of multicast groups.
pub struct Listener {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Listener {
    /// Subscribes a new socket to multicast groups.
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

    /// Returns the messages of one datagram; `None` if nothing is left to read.
    ///
    /// # Errors
    /// Receiving fails; `ENOBUFS` if notices were lost.
    pub fn receive<M: NetlinkDeserializable>(
        &mut self,
    ) -> io::Result<Option<Vec<NetlinkMessage<M>>>> {
        receive_datagram(&self.socket, &mut self.buffer)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket that sends without waiting for answers and receives whatever comes, for a program that serves the kernel.
pub struct Duplex {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
    octets: Vec<u8>,
}

impl Duplex {
    /// Prepares a new socket, with room for `waiting` bytes that are not read yet; without CAP_NET_ADMIN only for as
    /// many as the kernel allows everybody (net.core.rmem_max).
    ///
    /// # Errors
    /// The kernel refuses the address or the room.
    pub fn over(mut socket: Socket, waiting: usize) -> io::Result<Self> {
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        if set_socket_recv_buffer_size_force(&socket, waiting).is_err() {
            set_socket_recv_buffer_size(&socket, waiting)?;
        }
        Ok(Self {
            socket,
            sequence: 0,
            buffer: Vec::with_capacity(DATAGRAM_MAX),
            octets: Vec::new(),
        })
    }

    /// Sends a request with `flags` and NLM_F_REQUEST. Returns the sequence number that an answer carries.
    ///
    /// # Errors
    /// Sending fails.
    pub fn send<M: NetlinkSerializable>(&mut self, message: M, flags: u16) -> io::Result<u32> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        self.octets.resize(message.buffer_len(), 0);
        message.serialize(&mut self.octets);
        self.socket.send(&self.octets, 0)?;
        Ok(self.sequence)
    }

    /// Returns the messages of one datagram; `None` if nothing is left to read.
    ///
    /// # Errors
    /// Receiving fails; `ENOBUFS` if messages were lost.
    pub fn receive<M: NetlinkDeserializable>(
        &mut self,
    ) -> io::Result<Option<Vec<NetlinkMessage<M>>>> {
        receive_datagram(&self.socket, &mut self.buffer)
    }
}

impl AsFd for Duplex {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn receive_datagram<M: NetlinkDeserializable>(
    socket: &Socket,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Vec<NetlinkMessage<M>>>> {
    buffer.clear();
    match socket.recv(buffer, 0) {
        Ok(_) => Ok(Some(messages(buffer))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Converts a netlink error code to a result. The code 0 is an acknowledgement.
///
/// # Errors
/// The kernel refused the request.
pub fn error_of(code: i32) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
    use netlink_sys::protocols::NETLINK_GENERIC;

    use super::*;
    use crate::Message;

    /// A number of a family that no kernel gives: below the first of generic netlink.
    const NO_FAMILY: u16 = 15 + 1000;

    fn socket() -> Duplex {
        Duplex::over(Socket::new(NETLINK_GENERIC).unwrap(), 1 << 20).unwrap()
    }

    /// Returns the messages that come within two seconds, until one ends the answer to this request.
    fn answer(socket: &mut Duplex, sequence: u32) -> Vec<NetlinkPayload<Message>> {
        let begin = Instant::now();
        let mut found = Vec::new();
        while begin.elapsed() < ANSWER_TIMEOUT {
            for message in socket.receive::<Message>().unwrap().unwrap_or_default() {
                assert_eq!(message.header.sequence_number, sequence);
                let last = !matches!(message.payload, NetlinkPayload::InnerMessage(_));
                found.push(message.payload);
                if last {
                    return found;
                }
            }
        }
        panic!("no answer: {found:?}");
    }

    #[test]
    fn the_kernel_answers_without_being_waited_for() {
        let mut socket = socket();
        assert!(socket.receive::<Message>().unwrap().is_none());
        let sequence = socket.send(Message::families(), NLM_F_DUMP).unwrap();
        let found = answer(&mut socket, sequence);
        let controller = found.iter().find_map(|payload| match payload {
            NetlinkPayload::InnerMessage(family) => family.family_id(b"nlctrl"),
            _ => None,
        });
        assert_eq!(controller, Some(16));
    }

    #[test]
    fn a_refusal_carries_the_number_of_its_request() {
        let mut socket = socket();
        let sequence = socket
            .send(Message::new(NO_FAMILY, 1, &[]), NLM_F_ACK)
            .unwrap();
        let found = answer(&mut socket, sequence);
        let [NetlinkPayload::Error(error)] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(error_of(error.raw_code()).is_err());
    }
}
