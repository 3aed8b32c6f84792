//! Receives the kernel's notices about links, addresses and routes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{protocols::NETLINK_ROUTE, Socket};
use netlinkkit::Listener;

use super::{decode, Notice};

/// Multicast groups of rtnetlink(7): link, IPv4 address, IPv4 route, IPv6 address, IPv6 route.
const GROUPS: [u32; 5] = [1, 5, 7, 9, 11];
/// Receive buffer in bytes. It holds the notices of some thousand routes; if more arrive, everything is listed again.
const RECEIVE_BUFFER: usize = 1 << 20;

/// Result of reading the monitor once.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// The notices of one datagram; the list may be empty.
    Notices(Vec<Notice>),
    /// Nothing is left to read.
    Nothing,
    /// Notices were lost, so everything must be listed again.
    Overrun,
}

/// A netlink socket that receives notices.
pub struct Monitor {
    listener: Listener,
    own_port: u32,
}

impl Monitor {
    /// Opens the socket and subscribes. Notices of changes that `own_port` made are left out.
    ///
    /// # Errors
    /// The kernel refuses the socket or a group.
    pub fn open(own_port: u32) -> io::Result<Self> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        socket.set_rx_buf_sz(RECEIVE_BUFFER as i32)?;
        Ok(Self {
            listener: Listener::over(socket, &GROUPS)?,
            own_port,
        })
    }

    /// Reads one datagram.
    ///
    /// # Errors
    /// The socket is broken. A full buffer is not an error but [`Received::Overrun`].
    pub fn receive(&mut self) -> io::Result<Received> {
        match self.listener.receive() {
            Ok(Some(messages)) => Ok(Received::Notices(self.notices(messages))),
            Ok(None) => Ok(Received::Nothing),
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) =>
            {
                Ok(Received::Overrun)
            }
            Err(error) => Err(error),
        }
    }

    fn notices(&self, messages: Vec<NetlinkMessage<RouteNetlinkMessage>>) -> Vec<Notice> {
        let notices = messages.into_iter().map(|message| self.notice(message));
        notices.flatten().collect()
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
        self.listener.as_fd()
    }
}
