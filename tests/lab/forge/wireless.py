"""Forge 802.11 management frames and send them from a radio that is in no mesh (IEEE 802.11-2020, section 9.3.3).

The radio has a monitor interface: the kernel hands it every frame on the channel and sends what it is given as it is.
"""

import os
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.net import namespaces
from tests.lab.radio.medium import FAST, MONITOR, Radio

BEACON, AUTHENTICATION, DEAUTHENTICATION, ACTION = 8, 11, 12, 13
"""Subtypes of management frames (table 9-1)."""
_RADIOTAP = bytes((0, 0, 8, 0, 0, 0, 0, 0))
"""A header without any field: the kernel chooses rate and power."""
_HEADER = 24
"""Octets of a management frame before its body."""
_SELF_PROTECTED, _CLOSE = 15, 3
"""Category and action of Mesh Peering Close (section 9.6.15.4)."""
_LEAVING, _PEERING_CANCELLED = 3, 52
"""Reason codes (table 9-49)."""
_MESH_ID, _MESH_PEERING = 114, 117
"""Elements (table 9-92)."""
_SAE, _COMMIT, _GROUP = 3, 1, 19
"""Authentication algorithm and transaction of a commit, and the group that everybody must know (section 12.4.4.1)."""
HUNTING_AND_PECKING = 0
"""Status code of a commit whose sender finds the group's element by hunting and pecking (table 9-50)."""
_ALL = 3
"""ETH_P_ALL."""
_HEARING = 20.0
"""Seconds; a beacon comes each second."""
_POINT = bytes.fromhex(
    "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
    "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
)
"""A point of group 19, which a valid element must be: the generator."""


def octets(address: str) -> bytes:
    """Return a hardware address as six octets."""
    return bytes.fromhex(address.replace(":", ""))


def invented() -> bytes:
    """Return a random hardware address that no maker has (locally administered)."""
    return bytes((0x02, 0x66)) + os.urandom(4)


@dataclass(frozen=True)
class Name:
    """The alleged sender of a frame, and its receiver."""

    source: bytes
    target: bytes

    @classmethod
    def of(cls, source: str, target: str) -> "Name":
        """Take hardware addresses as text."""
        return cls(octets(source), octets(target))

    @property
    def turned(self) -> "Name":
        """Return the name of an answer."""
        return Name(self.target, self.source)


def deauthentication(name: Name) -> bytes:
    """Build a frame that says that its sender leaves."""
    return _frame(DEAUTHENTICATION, name, struct.pack("<H", _LEAVING))


def close(name: Name, mesh_id: str) -> bytes:
    """Build a Mesh Peering Close. The forger knows no link identifiers, and gives 0."""
    peering = struct.pack("<HHHH", 0, 0, 0, _PEERING_CANCELLED)
    return _frame(
        ACTION,
        name,
        bytes((_SELF_PROTECTED, _CLOSE)) + _element(_MESH_ID, mesh_id.encode()) + _element(_MESH_PEERING, peering),
    )


def commit(name: Name) -> bytes:
    """Build an SAE commit of somebody who knows no password: a valid scalar, and a valid element."""
    scalar = bytes((0,)) + os.urandom(31)
    return _frame(
        AUTHENTICATION, name, struct.pack("<HHHH", _SAE, _COMMIT, HUNTING_AND_PECKING, _GROUP) + scalar + _POINT
    )


def status_of(commit_: bytes) -> int:
    """Return the status code of an authentication frame."""
    return int(struct.unpack_from("<H", commit_, _HEADER + 4)[0])


def under(frame: bytes, source: bytes) -> bytes:
    """Return a recorded beacon with another sender."""
    return frame[:10] + source + source + frame[22:]


def _frame(subtype: int, name: Name, body: bytes) -> bytes:
    return struct.pack("<BBH6s6s6sH", subtype << 4, 0, 0, name.target, name.source, name.source, 0) + body


def _element(number: int, content: bytes) -> bytes:
    return bytes((number, len(content))) + content


class Ear:
    """A monitor interface: it hears every frame that its radio can hear, and sends any frame."""

    def __init__(self, interface: str, namespace: str | None = None) -> None:
        """``namespace``: by default that of this process."""
        opened = partial(_opened, interface)
        self._socket = namespaces.within(namespace, opened) if namespace else opened()

    @classmethod
    def on(cls, phy: str, interface: str) -> "Ear":
        """Add a monitor interface to a radio of this process's namespace. It is deleted with the radio."""
        run(["iw", "phy", phy, "interface", "add", interface, "type", "monitor"])
        run(["ip", "link", "set", interface, "up"])
        return cls(interface)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """Return the descriptor that is readable when a frame was heard."""
        return self._socket.fileno()

    def send(self, *frames: bytes) -> None:
        """Send each frame; the radio adds the checksum."""
        for frame in frames:
            self._socket.send(_RADIOTAP + frame)

    def heard(self) -> Iterator[bytes]:
        """Yield the frames that were heard up to now."""
        while True:
            try:
                found = self._socket.recv(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            yield found[struct.unpack_from("<H", found, 2)[0] :]

    def wait_heard(self, what: str, wanted: Callable[[bytes], bool]) -> bytes:
        """Wait for a frame that ``wanted`` accepts, and return it."""
        return wait_until(what, lambda: next(filter(wanted, self.heard()), None), [Frames(self, kept=True)], _HEARING)


@dataclass(frozen=True)
class Frames:
    """A source of events that wakes at each frame. ``kept``: whether the frame stays in the ear's queue."""

    ear: Ear
    kept: bool = False

    def fileno(self) -> int:
        """Return the ear's descriptor."""
        return self.ear.fileno()

    def drain(self) -> bool:
        """Read the frames, or leave them for the condition that is checked next."""
        if not self.kept:
            list(self.ear.heard())
        return True


def stranger(phy: str, interface: str, frequency: int) -> Ear:
    """Make a radio of this process's namespace an attacker's: it is in no mesh and listens on the channel."""
    for made in sorted((Path("/sys/class/ieee80211") / phy / "device" / "net").glob("*")):
        run(["iw", "dev", made.name, "del"])
    ear = Ear.on(phy, interface)
    run(["iw", "dev", interface, "set", "freq", str(frequency), "HT20"])
    return ear


def stranger_of(radio: Radio) -> Ear:
    """Make the radio of a lab's node an attacker's, as ``stranger`` does."""
    prefix = ["ip", "netns", "exec", radio.namespace, "iw", "dev"]
    run([*prefix, radio.interface, "del"])
    run([*prefix, radio.listen(), "set", "freq", str(FAST.frequency), "HT20"])
    return Ear(MONITOR, radio.namespace)


def is_of(frame: bytes, subtype: int, source: bytes) -> bool:
    """Return whether it is a management frame of this kind that claims to come from that sender."""
    return len(frame) > _HEADER and frame[0] == subtype << 4 and frame[10:16] == source


def _opened(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    opened.bind((interface, _ALL))
    return opened
