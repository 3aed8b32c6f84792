//! System calls that no library offers: datagrams in batches with segmentation. All unsafe code of the program is here
//! and in `interfaces.rs`. Each function is safe to call with any values.

use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::mem;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use socket2::{SockAddr, SockAddrStorage};

/// Number of datagrams that one call receives or sends.
pub const BATCH: usize = 32;

/// Kinds of frames on a packet socket (linux/if_packet.h): to this machine, to all, to a group.
const PACKET_HOST: u8 = 0;
const PACKET_BROADCAST: u8 = 1;
const PACKET_MULTICAST: u8 = 2;

/// Space for one control message with an integer; `cmsghdr` needs the alignment.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 32]);

/// A datagram, or several of the same length and sender that the kernel has joined.
pub struct Received {
    /// Its sender.
    pub from: SockAddr,
    /// Bytes in the buffer; 0 if the datagram was longer than the buffer.
    pub length: usize,
    /// Length of each joined datagram except the last, which may be shorter; `None` if there is only one.
    pub segment: Option<usize>,
}

/// Datagrams to one receiver, which the kernel accepts as one and cuts.
pub struct Train {
    /// The receiver.
    pub to: SockAddr,
    /// Range of the slices, each of which is a datagram.
    pub slices: Range<usize>,
    /// Length of each except the last; `None` if there is only one.
    pub segment: Option<u16>,
}

/// Reads waiting datagrams into `buffers`, one into each, and describes them in `received`. A truncated one has length
/// 0.
///
/// # Errors
/// Reading fails; `WouldBlock` if none waits.
pub fn receive(
    socket: impl AsFd,
    buffers: &mut [Box<[u8]>],
    received: &mut Vec<Received>,
) -> io::Result<()> {
    received.clear();
    let count = buffers.len().min(BATCH);
    // SAFETY: these are plain C structures and arrays of them; all zeroes are a valid value.
    let (mut names, mut vectors, mut headers): (
        [SockAddrStorage; BATCH],
        [libc::iovec; BATCH],
        [libc::mmsghdr; BATCH],
    ) = unsafe { mem::zeroed() };
    let mut controls = [Control([0; 32]); BATCH];
    for (index, buffer) in buffers.iter_mut().take(count).enumerate() {
        vectors[index] = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let header = &mut headers[index].msg_hdr;
        header.msg_name = ptr::addr_of_mut!(names[index]).cast();
        header.msg_namelen = mem::size_of::<SockAddrStorage>() as _;
        header.msg_iov = ptr::addr_of_mut!(vectors[index]);
        header.msg_iovlen = 1;
        header.msg_control = ptr::addr_of_mut!(controls[index]).cast();
        header.msg_controllen = mem::size_of::<Control>() as _;
    }
    // SAFETY: the headers point to arrays above and to the buffers, with their lengths; all live until the function
    // ends.
    let taken = unsafe {
        libc::recvmmsg(
            socket.as_fd().as_raw_fd(),
            headers.as_mut_ptr(),
            count as _,
            libc::MSG_DONTWAIT as _,
            ptr::null_mut(),
        )
    };
    let taken = usize::try_from(taken).map_err(|_| io::Error::last_os_error())?;
    for (name, header) in names.into_iter().zip(&headers).take(taken) {
        let cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        received.push(Received {
            // SAFETY: the kernel has written an address of that length.
            from: unsafe { SockAddr::new(name, header.msg_hdr.msg_namelen) },
            length: if cut { 0 } else { header.msg_len as usize },
            segment: segment_of(&header.msg_hdr),
        });
    }
    Ok(())
}

/// Returns the length of the datagrams that the kernel has joined.
fn segment_of(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the header is one that recvmmsg has filled, so its control messages are well-formed and lie within the
    // control buffer, which is alive.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(message) = control.as_ref() {
            if (message.cmsg_level, message.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO) {
                let value = ptr::read_unaligned(libc::CMSG_DATA(control).cast::<c_int>());
                return usize::try_from(value).ok().filter(|&length| length > 0);
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}

/// Sends trains. Returns how many the kernel accepted, at least one.
///
/// # Errors
/// Sending the first train fails; `WouldBlock` if the socket's buffer is full.
pub fn send(socket: impl AsFd, trains: &[Train], slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let count = trains.len().min(BATCH);
    // SAFETY: plain C structures; all zeroes are a valid value.
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
    let mut controls = [Control([0; 32]); BATCH];
    for ((header, control), train) in headers.iter_mut().zip(&mut controls).zip(trains) {
        let header = &mut header.msg_hdr;
        let slices = &slices[train.slices.clone()];
        header.msg_name = train.to.as_ptr().cast_mut().cast();
        header.msg_namelen = train.to.len();
        // An IoSlice is an iovec, as its documentation promises. The kernel only reads.
        header.msg_iov = slices.as_ptr().cast_mut().cast();
        header.msg_iovlen = slices.len() as _;
        if let Some(segment) = train.segment {
            put_segment(header, control, segment);
        }
    }
    // SAFETY: the headers point to the arrays above, to the trains' addresses and to the slices, which all live until
    // the end of this function.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_fd().as_raw_fd(),
            headers.as_mut_ptr(),
            count as _,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn put_segment(header: &mut libc::msghdr, control: &mut Control, segment: u16) {
    header.msg_control = ptr::from_mut(control).cast();
    // SAFETY: the control buffer is aligned for a `cmsghdr` and has space for a `u16`. The length is set before it is
    // read.
    unsafe {
        header.msg_controllen = libc::CMSG_SPACE(mem::size_of::<u16>() as _) as _;
        let message = libc::CMSG_FIRSTHDR(header);
        (*message).cmsg_level = libc::SOL_UDP;
        (*message).cmsg_type = libc::UDP_SEGMENT;
        (*message).cmsg_len = libc::CMSG_LEN(mem::size_of::<u16>() as _) as _;
        ptr::write_unaligned(libc::CMSG_DATA(message).cast(), segment);
    }
}

/// Sets a socket option whose value is an integer.
///
/// # Errors
/// The kernel does not know it, or refuses the value.
pub fn set_option(socket: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of a live integer.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            ptr::addr_of!(value).cast(),
            mem::size_of::<c_int>() as _,
        )
    };
    checked(status)
}

/// Returns the user of the process at the other end of a UNIX socket, as it was when the process connected.
///
/// # Errors
/// The kernel refuses the call.
pub fn peer_user(socket: impl AsFd) -> io::Result<u32> {
    let mut who = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `who`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            ptr::from_mut(&mut who).cast(),
            &mut length,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(who.uid)
}

/// Returns an address for a packet socket: of a receiver on this interface, or of the frames that a socket accepts.
pub fn packet_address(index: c_int, ethertype: u16, mac: [u8; 6]) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: a `sockaddr_ll` fits into the storage, which is aligned for every address.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    address.sll_family = libc::AF_PACKET as _;
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = index;
    address.sll_halen = mac.len() as _;
    address.sll_addr[..mac.len()].copy_from_slice(&mac);
    // SAFETY: the address just written has that length.
    unsafe { SockAddr::new(storage, mem::size_of::<libc::sockaddr_ll>() as _) }
}

/// Returns the sender of a frame, and whether it is a broadcast or to a group; `None` if it is for another machine.
pub fn packet_sender(address: &SockAddr) -> Option<([u8; 6], bool)> {
    if address.family() != libc::AF_PACKET as libc::sa_family_t {
        return None;
    }
    let mut storage = address.clone().as_storage();
    // SAFETY: it is an address of that family, and all its fields are integers.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    let mac = *address.sll_addr.first_chunk()?;
    match address.sll_pkttype {
        PACKET_HOST => Some((mac, false)),
        PACKET_BROADCAST | PACKET_MULTICAST => Some((mac, true)),
        _ => None,
    }
}

pub(super) fn checked(status: c_int) -> io::Result<()> {
    if status < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
