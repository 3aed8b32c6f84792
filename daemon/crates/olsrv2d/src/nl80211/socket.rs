//! Generic netlink sockets: one for requests, which may wait for a driver, and one for notices, which never waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{NetlinkPayload, NLM_F_ACK, NLM_F_DUMP};
use netlink_sys::{protocols::NETLINK_GENERIC, Socket};
use netlinkkit::{error_of, Asker, Listener, Message};

use super::message::{Family, Mac, Nl80211, Notice, Station};

/// Largest number of stations of an interface that are read. Bounds memory; mac80211 itself allows 99 mesh peers.
pub const STATIONS_MAX: usize = 256;

/// A socket for requests.
pub struct Requests {
    asker: Asker,
    family: Family,
}

impl Requests {
    /// Opens the socket; `None` if this kernel has no nl80211 at present.
    ///
    /// # Errors
    /// The kernel refuses the socket or does not answer.
    pub fn open() -> io::Result<Option<Self>> {
        let mut asker = Asker::over(Socket::new(NETLINK_GENERIC)?)?;
        // List all families: asking for an absent one by name would start modprobe.
        let answers = execute(&mut asker, Message::families(), NLM_F_DUMP)?;
        let family = answers.iter().find_map(Message::nl80211);
        Ok(family.map(|family| Self { asker, family }))
    }

    /// Returns the nl80211 family of this kernel.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Returns the stations of an interface.
    ///
    /// # Errors
    /// The kernel refuses: the interface is not wireless, or is gone.
    pub fn stations(&mut self, interface: u32) -> io::Result<Vec<Station>> {
        let request = Message::stations(self.family.id, interface);
        let answers = execute(&mut self.asker, request, NLM_F_DUMP)?;
        let of_family = answers
            .iter()
            .filter(|answer| answer.family == self.family.id);
        Ok(of_family.filter_map(Message::station).collect())
    }

    /// Sends a frame directly to a mesh peer.
    ///
    /// # Errors
    /// The kernel refuses: the driver does not support it, or the peer is gone.
    pub fn probe(&mut self, interface: u32, mac: Mac, frame: &[u8]) -> io::Result<()> {
        let request = Message::probe(self.family.id, interface, mac, frame);
        execute(&mut self.asker, request, NLM_F_ACK).map(drop)
    }

    /// Makes the kernel delete a station.
    ///
    /// # Errors
    /// The kernel refuses: the station is gone.
    pub fn remove(&mut self, interface: u32, mac: Mac) -> io::Result<()> {
        let request = Message::removal(self.family.id, interface, mac);
        execute(&mut self.asker, request, NLM_F_ACK).map(drop)
    }
}

fn execute(asker: &mut Asker, message: Message, flags: u16) -> io::Result<Vec<Message>> {
    let sequence = asker.send(message, flags)?;
    let mut found = Vec::new();
    loop {
        for answer in asker.receive(sequence)? {
            match answer.payload {
                NetlinkPayload::InnerMessage(message) if found.len() < STATIONS_MAX => {
                    found.push(message);
                }
                NetlinkPayload::Done(done) => return error_of(done.code).map(|()| found),
                NetlinkPayload::Error(error) => return error_of(error.raw_code()).map(|()| found),
                _ => {}
            }
        }
    }
}

/// A socket that receives the notices of group "mlme".
pub struct Monitor {
    listener: Listener,
    family: Family,
}

impl Monitor {
    /// Opens the socket and subscribes.
    ///
    /// # Errors
    /// The kernel refuses the socket or the group.
    pub fn open(family: Family) -> io::Result<Self> {
        let socket = Socket::new(NETLINK_GENERIC)?;
        Ok(Self {
            listener: Listener::over(socket, &[family.mlme])?,
            family,
        })
    }

    /// Returns the family whose notices it receives.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Returns the notices of one datagram; `None` if nothing is left to read.
    ///
    /// # Errors
    /// Notices were lost or the socket is broken, so everything must be polled again.
    pub fn receive(&mut self) -> io::Result<Option<Vec<Notice>>> {
        let Some(messages) = self.listener.receive::<Message>()? else {
            return Ok(None);
        };
        let notices = messages
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
        self.listener.as_fd()
    }
}
