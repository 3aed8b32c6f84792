//! Sockets of generic netlink: one for requests, which may wait for a driver, and one for notices, which never waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netlink_packet_core::{
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST,
};
use netlink_sys::{protocols::NETLINK_GENERIC, Socket};

use super::message::{Family, Mac, Message, Notice, Station};
use crate::netlink::{error_of, messages, DATAGRAM_MAX};

/// A driver that does not answer within this time is not asked again on this socket.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The most stations of an interface that are looked at: bounds memory; mac80211 itself has 99 mesh peers.
pub const STATIONS_MAX: usize = 256;

/// A socket for requests.
pub struct Requests {
    socket: Socket,
    family: Family,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Requests {
    /// Opens the socket; `None` when this kernel has no nl80211 (now).
    ///
    /// # Errors
    /// The kernel refuses the socket or does not answer.
    pub fn open() -> io::Result<Option<Self>> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket2::SockRef::from(&socket).set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut requests = Self {
            socket,
            family: Family { id: 0, mlme: 0 },
            sequence: 0,
            buffer: Vec::with_capacity(DATAGRAM_MAX),
        };
        // All families, not this one by name: asking for one that is absent starts modprobe.
        let answers = requests.execute(Message::families(), NLM_F_DUMP)?;
        let family = answers.iter().find_map(Message::nl80211);
        Ok(family.map(|family| Self { family, ..requests }))
    }

    /// The family as this kernel has it.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The stations of an interface.
    ///
    /// # Errors
    /// The kernel's refusal: the interface is not wireless, or has gone.
    pub fn stations(&mut self, interface: u32) -> io::Result<Vec<Station>> {
        let request = Message::stations(self.family.id, interface);
        let answers = self.execute(request, NLM_F_DUMP)?;
        let of_family = answers
            .iter()
            .filter(|answer| answer.family == self.family.id);
        Ok(of_family.filter_map(Message::station).collect())
    }

    /// Has a frame sent straight to a mesh peer.
    ///
    /// # Errors
    /// The kernel's refusal: the driver cannot, or the peer has gone.
    pub fn probe(&mut self, interface: u32, mac: Mac, frame: &[u8]) -> io::Result<()> {
        let request = Message::probe(self.family.id, interface, mac, frame);
        self.execute(request, NLM_F_ACK).map(drop)
    }

    fn execute(&mut self, message: Message, flags: u16) -> io::Result<Vec<Message>> {
        let sequence = self.send(message, NLM_F_REQUEST | flags)?;
        let mut found = Vec::new();
        loop {
            self.buffer.clear();
            self.socket.recv(&mut self.buffer, 0)?;
            for answer in messages::<Message>(&self.buffer) {
                if answer.header.sequence_number != sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::InnerMessage(message) if found.len() < STATIONS_MAX => {
                        found.push(message);
                    }
                    NetlinkPayload::Done(done) => return error_of(done.code).map(|()| found),
                    NetlinkPayload::Error(error) => {
                        return error_of(error.raw_code()).map(|()| found)
                    }
                    _ => {}
                }
            }
        }
    }

    fn send(&mut self, message: Message, flags: u16) -> io::Result<u32> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        self.socket.send(&octets, 0)?;
        Ok(self.sequence)
    }
}

/// A socket that listens to the group "mlme".
pub struct Monitor {
    socket: Socket,
    family: Family,
    buffer: Vec<u8>,
}

impl Monitor {
    /// Opens the socket and subscribes.
    ///
    /// # Errors
    /// The kernel refuses the socket or the group.
    pub fn open(family: Family) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        socket.add_membership(family.mlme)?;
        Ok(Self {
            socket,
            family,
            buffer: Vec::with_capacity(DATAGRAM_MAX),
        })
    }

    /// The family that it listens to.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The notices of one datagram; `None` when nothing is left to read.
    ///
    /// # Errors
    /// Notices were lost, or the socket is broken: look at everything again.
    pub fn receive(&mut self) -> io::Result<Option<Vec<Notice>>> {
        self.buffer.clear();
        match self.socket.recv(&mut self.buffer, 0) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        let notices = messages::<Message>(&self.buffer)
            .into_iter()
            .filter_map(|message| match message.payload {
                NetlinkPayload::InnerMessage(inner) if inner.family == self.family.id => {
                    inner.notice()
                }
                _ => None,
            });
        Ok(Some(notices.collect()))
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
