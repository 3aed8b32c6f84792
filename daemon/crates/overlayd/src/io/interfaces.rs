//! Network interfaces by ioctl: the TUN device, and what is set or read of an interface by its name.

use std::ffi::{c_int, CStr};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use super::system::checked;

/// Attaches `/dev/net/tun` to the TUN device of this name, or to a new one for `name%d`. Returns its name.
///
/// # Errors
/// A name of more than 15 octets, EPERM without CAP_NET_ADMIN, EBUSY when another process has it.
pub fn tun_attach(device: impl AsFd, name: &str, flags: c_int) -> io::Result<String> {
    let mut request = named_request(name)?;
    request.ifr_ifru.ifru_flags = flags as _;
    // SAFETY: TUNSETIFF reads and writes an `ifreq`.
    checked(unsafe {
        libc::ioctl(
            device.as_fd().as_raw_fd(),
            libc::TUNSETIFF as _,
            ptr::addr_of_mut!(request),
        )
    })?;
    Ok(name_of(&request))
}

/// Returns the present name of a TUN device, which may have been renamed.
///
/// # Errors
/// It is not a TUN device.
pub fn tun_name(device: impl AsFd) -> io::Result<String> {
    // SAFETY: a plain C structure; all zeroes are a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // SAFETY: TUNGETIFF writes an `ifreq`.
    checked(unsafe {
        libc::ioctl(
            device.as_fd().as_raw_fd(),
            libc::TUNGETIFF as _,
            ptr::addr_of_mut!(request),
        )
    })?;
    Ok(name_of(&request))
}

/// Sets what the kernel may leave to the reader of a TUN device: checksums, segmentation (TUN_F_*).
///
/// # Errors
/// The kernel does not know one of them.
pub fn tun_offload(device: impl AsFd, features: u32) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    checked(unsafe {
        libc::ioctl(
            device.as_fd().as_raw_fd(),
            libc::TUNSETOFFLOAD as _,
            libc::c_ulong::from(features),
        )
    })
}

/// Returns the MTU of an interface in bytes; `None` if there is no such interface.
///
/// # Errors
/// A name of more than 15 octets.
pub fn mtu_if_there(socket: impl AsFd, name: &str) -> io::Result<Option<usize>> {
    let mut request = named_request(name)?;
    let asked = interface_ioctl(socket, libc::SIOCGIFMTU as _, &mut request);
    // SAFETY: SIOCGIFMTU has written the MTU when it succeeded; any octets are an integer.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    if_there(asked.map(|()| mtu.unsigned_abs() as usize))
}

/// Sets the MTU of an interface in bytes.
///
/// # Errors
/// There is no such interface, or it cannot have that MTU.
pub fn set_mtu(socket: impl AsFd, name: &str, mtu: u16) -> io::Result<()> {
    let mut request = named_request(name)?;
    request.ifr_ifru.ifru_mtu = c_int::from(mtu);
    interface_ioctl(socket, libc::SIOCSIFMTU as _, &mut request)
}

/// Sets the largest number of packets that an interface queues.
///
/// # Errors
/// There is no such interface, or EPERM without CAP_NET_ADMIN.
pub fn set_queue_length(socket: impl AsFd, name: &str, length: u16) -> io::Result<()> {
    let mut request = named_request(name)?;
    // The library does not name `ifr_qlen`, which is the same integer.
    request.ifr_ifru.ifru_metric = c_int::from(length);
    interface_ioctl(socket, libc::SIOCSIFTXQLEN as _, &mut request)
}

/// Brings an interface up.
///
/// # Errors
/// There is no such interface.
pub fn set_up(socket: impl AsFd, name: &str) -> io::Result<()> {
    let mut request = named_request(name)?;
    interface_ioctl(&socket, libc::SIOCGIFFLAGS as _, &mut request)?;
    // SAFETY: SIOCGIFFLAGS has written the flags; any octets are an integer.
    unsafe { request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short };
    interface_ioctl(socket, libc::SIOCSIFFLAGS as _, &mut request)
}

/// Returns the index of an interface.
///
/// # Errors
/// There is no such interface.
pub fn index_of(socket: impl AsFd, name: &str) -> io::Result<c_int> {
    let mut request = named_request(name)?;
    interface_ioctl(socket, libc::SIOCGIFINDEX as _, &mut request)?;
    // SAFETY: SIOCGIFINDEX has written the index.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// Returns the index of an interface; `None` if there is none.
///
/// # Errors
/// A name of more than 15 octets.
pub fn index_if_there(socket: impl AsFd, name: &str) -> io::Result<Option<c_int>> {
    if_there(index_of(socket, name))
}

fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        found => found.map(Some),
    }
}

/// Returns the names of all interfaces.
///
/// # Errors
/// The kernel refuses the call.
pub fn interface_names() -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    // SAFETY: if_nameindex returns null or an array whose last entry has no name. It is freed once, after its last use.
    unsafe {
        let all = libc::if_nameindex();
        if all.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut entry = all;
        while !(*entry).if_name.is_null() {
            let name = CStr::from_ptr((*entry).if_name);
            names.push(name.to_string_lossy().into_owned());
            entry = entry.add(1);
        }
        libc::if_freenameindex(all);
    }
    Ok(names)
}

/// Adds an IPv6 address with a prefix length to an interface. An existing address is no error.
///
/// # Errors
/// There is no such interface, or IPv6 is switched off for it.
pub fn add_address(
    socket: impl AsFd,
    index: c_int,
    address: [u8; 16],
    prefix: u8,
) -> io::Result<()> {
    let request = libc::in6_ifreq {
        ifr6_addr: libc::in6_addr { s6_addr: address },
        ifr6_prefixlen: u32::from(prefix),
        ifr6_ifindex: index,
    };
    // SAFETY: SIOCSIFADDR of an IPv6 socket reads an `in6_ifreq`.
    let status = unsafe {
        libc::ioctl(
            socket.as_fd().as_raw_fd(),
            libc::SIOCSIFADDR as _,
            ptr::addr_of!(request),
        )
    };
    match checked(status) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        result => result,
    }
}

fn named_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: a plain C structure; all zeroes are a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last octet stays 0.
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        let message = format!("{name:?} is not the name of an interface");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    for (place, octet) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = octet as _;
    }
    Ok(request)
}

fn name_of(request: &libc::ifreq) -> String {
    let name = request.ifr_name.iter().take_while(|&&octet| octet != 0);
    name.map(|&octet| char::from(octet as u8)).collect()
}

fn interface_ioctl(
    socket: impl AsFd,
    number: libc::c_ulong,
    request: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: the requests that are used here read and write an `ifreq`.
    checked(unsafe {
        libc::ioctl(
            socket.as_fd().as_raw_fd(),
            number as _,
            ptr::from_mut(request),
        )
    })
}
