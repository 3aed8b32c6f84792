//! Notices of the kernel that some network device changed. What changed is looked up elsewhere.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{bind, recv, socket_with, AddressFamily, RecvFlags, SocketFlags, SocketType};

use socket2::{Domain, Socket, Type};

use super::interfaces;

/// The group of notices about links (RTMGRP_LINK of linux/rtnetlink.h).
const LINKS: u32 = 1;
/// Size of the buffer for a notice. Notices are discarded without being decoded.
const ROOM: usize = 64;

/// A netlink socket that receives notices.
pub struct Links(OwnedFd);

impl Links {
    /// Opens the socket.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn listen() -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // No protocol means NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, LINKS))?;
        Ok(Self(socket))
    }

    /// Discards all notices. Returns whether there were any, including lost ones.
    pub fn changed(&self) -> bool {
        let mut changed = false;
        loop {
            match recv(&self.0, &mut [0; ROOM][..], RecvFlags::empty()) {
                Ok(_) | Err(Errno::NOBUFS) => changed = true,
                Err(Errno::INTR) => {}
                Err(_) => return changed,
            }
        }
    }
}

/// Returns the index of a device; `None` if there is no device of that name.
///
/// # Errors
/// The kernel does not answer.
pub fn index_of(device: &str) -> io::Result<Option<u32>> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
    let index = interfaces::index_if_there(&socket, device)?;
    Ok(index.map(i32::unsigned_abs))
}

impl AsFd for Links {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
