//! What the kernel tells of network devices: that something changed. What it is, is looked up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{bind, recv, socket_with, AddressFamily, RecvFlags, SocketFlags, SocketType};

use socket2::{Domain, Socket, Type};

use super::system;

/// The group of notices about links (RTMGRP_LINK of linux/rtnetlink.h).
const LINKS: u32 = 1;
/// Notices are not read, but taken out.
const ROOM: usize = 64;

/// A netlink socket that listens.
pub struct Links(OwnedFd);

impl Links {
    /// Listens from now on.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn listen() -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Without a protocol it is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, LINKS))?;
        Ok(Self(socket))
    }

    /// Takes all notices; whether there were any, lost ones included.
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

/// The index of a device; `None` when there is none of that name.
///
/// # Errors
/// The kernel's.
pub fn index_of(device: &str) -> io::Result<Option<u32>> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
    let index = system::index_if_there(&socket, device)?;
    Ok(index.map(i32::unsigned_abs))
}

impl AsFd for Links {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
