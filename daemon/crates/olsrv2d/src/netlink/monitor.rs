//! Notices of the kernel about links, addresses and routes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    NetlinkBuffer, NetlinkDeserializable, NetlinkMessage, NetlinkPayload, NLM_F_REPLACE,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{protocols::NETLINK_ROUTE, Socket};

use super::{decode, Notice, DATAGRAM_MAX};

/// Multicast groups of rtnetlink(7): link, IPv4 address, IPv4 route, IPv6 address, IPv6 route.
const GROUPS: [u32; 5] = [1, 5, 7, 9, 11];
/// Holds the notices of some thousand routes, in octets; more are read again by a dump.
const RECEIVE_BUFFER: usize = 1 << 20;

/// What one look at the monitor gave.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// Some notices, maybe none.
    Notices(Vec<Notice>),
    /// Nothing is left to read.
    Nothing,
    /// Notices were lost: read everything again.
    Overrun,
}

/// A netlink socket that listens.
pub struct Monitor {
    socket: Socket,
    own_port: u32,
    buffer: Vec<u8>,
}

impl Monitor {
    /// Opens the socket and subscribes; notices of changes made by `own_port` are left out.
    ///
    /// # Errors
    /// The kernel refuses the socket or a group.
    pub fn open(own_port: u32) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.set_rx_buf_sz(RECEIVE_BUFFER as i32)?;
        socket.set_non_blocking(true)?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        Ok(Self {
            socket,
            own_port,
            buffer: Vec::with_capacity(DATAGRAM_MAX),
        })
    }

    /// Reads one datagram.
    ///
    /// # Errors
    /// The socket is broken; a full buffer is no error but [`Received::Overrun`].
    pub fn receive(&mut self) -> io::Result<Received> {
        self.buffer.clear();
        match self.socket.recv(&mut self.buffer, 0) {
            Ok(_) => Ok(Received::Notices(self.notices())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) =>
            {
                Ok(Received::Overrun)
            }
            Err(error) => Err(error),
        }
    }

    fn notices(&self) -> Vec<Notice> {
        messages(&self.buffer)
            .into_iter()
            .filter_map(|message| self.notice(message))
            .collect()
    }

    fn notice(&self, message: NetlinkMessage<RouteNetlinkMessage>) -> Option<Notice> {
        let own = message.header.port_number == self.own_port;
        let replaced = message.header.flags & NLM_F_REPLACE != 0;
        let NetlinkPayload::InnerMessage(inner) = message.payload else {
            return None;
        };
        match inner {
            RouteNetlinkMessage::NewLink(link) => decode::link(&link).map(Notice::Link),
            RouteNetlinkMessage::DelLink(link) => Some(Notice::LinkGone(link.header.index)),
            RouteNetlinkMessage::NewAddress(address) => {
                decode::address(&address).map(Notice::Address)
            }
            RouteNetlinkMessage::DelAddress(address) => {
                decode::address(&address).map(Notice::AddressGone)
            }
            RouteNetlinkMessage::NewRoute(route) if !own => Some(Notice::Route {
                routes: decode::routes(&route),
                replaced,
            }),
            RouteNetlinkMessage::DelRoute(route) if !own => Some(Notice::Route {
                routes: decode::routes(&route),
                replaced: false,
            }),
            _ => None,
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The messages of a datagram; what cannot be decoded (a newer kernel's attribute) is passed over.
pub fn messages<M: NetlinkDeserializable>(datagram: &[u8]) -> Vec<NetlinkMessage<M>> {
    let mut found = Vec::new();
    let mut rest = datagram;
    while let Some((message, tail)) = split(rest) {
        match NetlinkMessage::<M>::deserialize(message) {
            Ok(message) => found.push(message),
            Err(error) => log::debug!("netlink: message passed over: {error}"),
        }
        rest = tail;
    }
    found
}

/// The first message and what follows it (aligned to 4 octets).
fn split(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = NetlinkBuffer::new_checked(octets).ok()?.length() as usize;
    let message = octets.get(..length)?;
    let tail = octets.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((message, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A NLMSG_DONE with sequence number 7.
    const DONE: [u8; 20] = [20, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn a_datagram_gives_its_messages_and_a_cut_one_those_that_are_whole() {
        let two = [DONE, DONE].concat();
        assert_eq!(messages::<RouteNetlinkMessage>(&two).len(), 2);
        for length in 0..two.len() {
            let whole = messages::<RouteNetlinkMessage>(&two[..length]);
            assert_eq!(whole.len(), length / DONE.len());
        }
    }

    #[test]
    fn a_message_that_cannot_be_decoded_is_passed_over() {
        let unknown = [
            20, 0, 0, 0, 0xff, 0xff, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let both = [unknown, DONE].concat();
        assert_eq!(messages::<RouteNetlinkMessage>(&both).len(), 1);
    }
}
