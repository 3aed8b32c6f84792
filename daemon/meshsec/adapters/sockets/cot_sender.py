"""Where Cursor on Target events are sent: a group or a server on the operator's side, never the mesh in the clear.

A socket that leaves by an interface is bound to it (SO_BINDTODEVICE), so that no route leads it elsewhere.
"""

import socket
import struct
from collections.abc import Collection, Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

SEND_SECONDS: Final = 5.0
"""Time for a server to take events."""
_NET = Path("/sys/class/net")


class CotError(Exception):
    """Events cannot be sent there; the text says why."""


class Target(NamedTuple):
    """Where events go."""

    protocol: str
    address: IPv4Address | IPv6Address
    port: int
    interface: str = ""
    """By which the packets leave this machine; empty: to this machine itself, or to a peer."""

    def __str__(self) -> str:
        host = f"[{self.address}]" if self.address.version == 6 else str(self.address)
        return f"{self.protocol}://{host}:{self.port}"


def target(url: str, interface: str) -> Target:
    """Return the target of a URL. Raises CotError."""
    allowed = "udp://ADDRESS:PORT or tcp://ADDRESS:PORT, such as udp://239.2.3.1:6969"
    try:
        parts = urlsplit(url)
        found = Target(parts.scheme, ip_address(parts.hostname or ""), parts.port or 0, interface)
    except ValueError as error:
        raise CotError(f"{url!r} is not allowed; allowed: {allowed}") from error
    if parts.scheme not in {"udp", "tcp"} or not found.port or parts.path or parts.username or parts.query:
        raise CotError(f"{url!r} is not allowed; allowed: {allowed}")
    if found.address.is_multicast and parts.scheme == "tcp":
        raise CotError(f"{url!r} is not allowed: a group has no TCP; udp:// reaches it")
    return found


def refuse_mesh(found: Target, mesh: Collection[str], protected: Collection[str]) -> None:
    """Refuse a target to which events would pass the mesh in the clear. Raises CotError.

    ``mesh``: the interfaces of the mesh. ``protected``: addresses to which nothing leaves unprotected.
    """
    if found.interface:
        if not (_NET / found.interface).exists():
            raise CotError(f"this machine has no interface {found.interface!r}; `ip link` lists them")
        if clear := sorted(_with_lower(found.interface) & set(mesh)):
            raise CotError(
                f"{found.interface} leads into the mesh ({', '.join(clear)}), where everybody would read the "
                "positions; allowed is an interface that is none of the mesh's"
            )
    elif not (found.address.is_loopback or str(found.address) in protected):
        raise CotError(
            f"{found.address} is neither this machine's nor a trusted peer's; `--interface` names the interface on "
            "which it is, so that nothing leaves by the mesh"
        )


def _with_lower(interface: str) -> set[str]:
    """Return an interface with those below it: the ports of a bridge, the device of a VLAN."""
    found, below = {interface}, [interface]
    while below:
        with suppress(OSError):
            names = [one.name for one in (_NET / below.pop()).iterdir()]
            fresh = {name.removeprefix("lower_") for name in names if name.startswith("lower_")} - found
            found |= fresh
            below += fresh
    return found


class CotSender:
    """A socket to a target."""

    def __init__(self, found: Target) -> None:
        """Open it. Raises CotError."""
        self._target = found
        try:
            self._socket = _opened(found)
        except OSError as error:
            raise CotError(f"{found}: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, events: Iterable[bytes]) -> None:
        """Send events, each in a datagram of its own, or one after another. Raises CotError."""
        try:
            for event in events:
                self._socket.sendall(event)
        except OSError as error:
            raise CotError(f"{self._target}: {error.strerror or error}") from error


def _opened(found: Target) -> socket.socket:
    family = socket.AF_INET6 if found.address.version == 6 else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM if found.protocol == "tcp" else socket.SOCK_DGRAM)
    try:
        opened.settimeout(SEND_SECONDS)
        if found.interface:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, found.interface.encode())
            if found.address.is_multicast:
                _choose_group_interface(opened, family, socket.if_nametoindex(found.interface))
        opened.connect((str(found.address), found.port))
    except BaseException:
        opened.close()
        raise
    return opened


def _choose_group_interface(opened: socket.socket, family: int, index: int) -> None:
    """Let datagrams to a group leave by an interface, and go no further than its network (ip(7), ipv6(7))."""
    if family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 1)
    else:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("4s4si", b"", b"", index))
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
