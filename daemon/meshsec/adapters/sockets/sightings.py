"""Sightings of clients on their way to meshsecd: the process that hears their frames has no other privilege.

Each is a datagram to a UNIX socket of meshsecd's, which its group may write to. An empty one says that the other
process hears.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import msgspec

from meshsec.adapters.sockets.control import give_to_group
from meshsec.core.access.clients import Sighting
from meshsec.core.values.host_names import LABEL_PATTERN

_SIZE_MAX = 256
_BURST = 64
"""Sightings that are read in one round of the loop."""


class SightingsError(OSError):
    """The socket cannot be made; the text says why."""


class _Heard(msgspec.Struct, array_like=True):
    mac: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")]
    address: Annotated[str, msgspec.Meta(max_length=45)]
    arrives: bool
    name: Annotated[str, msgspec.Meta(pattern=rf"^(?:{LABEL_PATTERN})?\Z")]


_decoder = msgspec.msgpack.Decoder(_Heard)


class Teller:
    """Tells meshsecd of sightings. While it is away they are lost, as frames may be."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    def tell(self, sighting: Sighting) -> None:
        """Tell of a client."""
        address = str(sighting.address or "")
        self._send(msgspec.msgpack.encode(_Heard(sighting.mac, address, sighting.arrives, sighting.name)))

    def alive(self) -> None:
        """Say that frames are heard."""
        self._send(b"")

    def _send(self, octets: bytes) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendto(octets, self._path)


@contextmanager
def sightings(path: Path, on_sighting: Callable[[Sighting | None], None]) -> Iterator[None]:
    """Call back in the running loop for each sighting, and with None when the other process says that it hears.

    Raises SightingsError.
    """
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as sock:
        try:
            path.unlink(missing_ok=True)
            sock.bind(str(path))
            give_to_group(path)
        except OSError as error:
            raise SightingsError(f"{path}: {error.strerror}") from error
        loop.add_reader(sock, _read, sock, on_sighting)
        try:
            yield
        finally:
            loop.remove_reader(sock)
            path.unlink(missing_ok=True)


def _read(sock: socket.socket, on_sighting: Callable[[Sighting | None], None]) -> None:
    for _ in range(_BURST):
        try:
            octets = os.read(sock.fileno(), _SIZE_MAX)
        except OSError:
            return
        try:
            on_sighting(_decoded(octets) if octets else None)
        except (msgspec.MsgspecError, ValueError):
            continue


def _decoded(octets: bytes) -> Sighting:
    heard = _decoder.decode(octets)
    return Sighting(heard.mac, ip_address(heard.address) if heard.address else None, heard.arrives, heard.name)
