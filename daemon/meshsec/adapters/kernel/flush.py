"""Remove the keys that the kernel holds: those of SAs, with all policies, and those of wireless interfaces.

This module imports nothing but what it needs, because a second is all there is.
"""

import errno
import fcntl
import socket
import struct
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path

_NETLINK_XFRM = 6
_FLUSH_SAS, _FLUSH_POLICIES = 0x1C, 0x1D
"""XFRM_MSG_FLUSHSA and XFRM_MSG_FLUSHPOLICY (linux/xfrm.h)."""
_NLM_F_REQUEST, _NLM_F_ACK = 0x1, 0x4
_HEADER = struct.Struct("=IHHII")
_ANY_PROTOCOL = bytes(4)
"""struct xfrm_usersa_flush, padded."""
_SECONDS = 1.0
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
"""SIOCGIFFLAGS, SIOCSIFFLAGS and IFF_UP (netdevice(7))."""
_REQUEST = struct.Struct("=16sH22x")
"""struct ifreq with flags."""
_DEVICES = Path("/sys/class/net")


def flush_xfrm() -> None:
    """Remove all SAs and policies of this network namespace. Raises OSError; a kernel without XFRM has none."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_XFRM) as sock:
            sock.settimeout(_SECONDS)
            _ask(sock, _FLUSH_SAS, _ANY_PROTOCOL)
            _ask(sock, _FLUSH_POLICIES, b"")
    except OSError as error:
        if error.errno != errno.EPROTONOSUPPORT:
            raise


def _ask(sock: socket.socket, kind: int, body: bytes) -> None:
    sock.send(_HEADER.pack(_HEADER.size + len(body), kind, _NLM_F_REQUEST | _NLM_F_ACK, 1, 0) + body)
    (negative,) = struct.unpack_from("=i", sock.recv(4096), _HEADER.size)
    # ESRCH: there was none.
    if -negative not in (0, errno.ESRCH):
        raise OSError(-negative, "the kernel does not remove its SAs and policies")


def leave_meshes(patterns: Collection[str]) -> list[str]:
    """Take wireless interfaces down: they leave their mesh and forget its keys. Return which. Raises OSError."""
    names = sorted(path.name for path in _DEVICES.glob("*") if (path / "phy80211").exists())
    wanted = [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
    for name in wanted:
        _take_down(name)
    return wanted


def _take_down(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        _, flags = _REQUEST.unpack(fcntl.ioctl(sock, _GET_FLAGS, _REQUEST.pack(name.encode(), 0)))
        fcntl.ioctl(sock, _SET_FLAGS, _REQUEST.pack(name.encode(), flags & ~_UP))
