"""Forge IKEv2 messages (RFC 7296) from what a listener hears of the true ones.

The forger has no key: everything here can be built from one overheard IKE_SA_INIT.
"""

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv6Address
from types import TracebackType
from typing import Self

from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw

from tests.lab.basics.shell import run
from tests.lab.forge.raw import Forger, Way
from tests.lab.lab import Lab
from tests.lab.net import namespaces
from tests.lab.net.links import End

IKE_SA_INIT, IKE_AUTH, CREATE_CHILD_SA, INFORMATIONAL = 34, 35, 36, 37
RESPONSE, INITIATOR = 0x20, 0x08
"""Flags of the header (RFC 7296, section 3.1)."""
NO_PAYLOAD, SA, KE, NONCE, NOTIFY, ENCRYPTED = 0, 33, 34, 40, 41, 46
"""Payload types."""
INVALID_SYNTAX, NO_PROPOSAL_CHOSEN, INVALID_KE_PAYLOAD, AUTHENTICATION_FAILED = 7, 14, 17, 24
COOKIE, REDIRECT, SIGNATURE_HASHES = 16390, 16407, 16431
"""Notify types (RFC 7296, section 3.10.1; RFC 5685; RFC 7427)."""
PORTS = (500, 4500)

_ETHERTYPE_IPV6, _UDP, _ETHERNET, _IPV6_HEADER, _UDP_HEADER, _IKE_HEADER = 0x86DD, 17, 14, 40, 8, 28
_MARKER = bytes(4)
"""Precedes IKE on port 4500 (RFC 3948, section 2.2)."""
_VERSION = 0x20
_LAST_TRANSFORM, _KEY_EXCHANGE_METHOD = 0, 4

Payloads = list[tuple[int, bytes]]


@dataclass(frozen=True)
class Message:
    """One IKE message with its addresses. ``body`` is everything behind the IKE header."""

    source: str
    target: str
    ports: tuple[int, int]
    spi_i: bytes
    spi_r: bytes
    first: int
    exchange: int
    flags: int
    message_id: int
    body: bytes

    @property
    def is_opening(self) -> bool:
        """Return whether it is the first message of an initiator."""
        return self.exchange == IKE_SA_INIT and not self.flags & RESPONSE

    def payloads(self) -> Payloads:
        """Return the plain payloads by type, without their headers."""
        found: Payloads = []
        kind, rest = self.first, self.body
        while kind not in (NO_PAYLOAD, ENCRYPTED) and len(rest) >= 4:
            following, length = rest[0], struct.unpack_from("!H", rest, 2)[0]
            found.append((kind, rest[4:length]))
            kind, rest = following, rest[length:]
        return found

    def with_payloads(self, payloads: Payloads) -> "Message":
        """Return the message with these payloads in place of its own."""
        kinds = [kind for kind, _ in payloads]
        follows = zip([*kinds[1:], NO_PAYLOAD], payloads, strict=False)
        body = b"".join(struct.pack("!BBH", following, 0, 4 + len(data)) + data for following, (_, data) in follows)
        return replace(self, first=kinds[0] if kinds else NO_PAYLOAD, body=body)

    def packet(self) -> Packet:
        """Return the IPv6 packet."""
        marker = _MARKER if 500 not in self.ports else b""
        kinds = (self.first, _VERSION, self.exchange, self.flags)
        header = self.spi_i + self.spi_r + struct.pack("!4BII", *kinds, self.message_id, _IKE_HEADER + len(self.body))
        udp = UDP(sport=self.ports[0], dport=self.ports[1])
        return IPv6(src=self.source, dst=self.target) / udp / Raw(marker + header + self.body)


def decode(frame: bytes) -> Message | None:
    """Decode the IKE message in an Ethernet frame; None when there is none."""
    udp = _ETHERNET + _IPV6_HEADER
    if len(frame) < udp + _UDP_HEADER or struct.unpack_from("!H", frame, 12)[0] != _ETHERTYPE_IPV6:
        return None
    ports = struct.unpack_from("!HH", frame, udp)
    if frame[_ETHERNET + 6] != _UDP or not set(ports) <= set(PORTS):
        return None
    data = frame[udp + _UDP_HEADER : udp + struct.unpack_from("!H", frame, udp + 4)[0]]
    if 500 not in ports:
        if not data.startswith(_MARKER):
            return None
        data = data[len(_MARKER) :]
    if len(data) < _IKE_HEADER:
        return None
    first, _, exchange, flags, message_id = struct.unpack_from("!4BI", data, 16)
    source, target = (str(IPv6Address(frame[at : at + 16])) for at in (_ETHERNET + 8, _ETHERNET + 24))
    return Message(source, target, ports, data[:8], data[8:16], first, exchange, flags, message_id, data[_IKE_HEADER:])


def notify(kind: int, data: bytes = b"") -> tuple[int, bytes]:
    """Build a Notify payload (RFC 7296, section 3.10)."""
    return NOTIFY, struct.pack("!BBH", 0, 0, kind) + data


def reply(heard: Message, payloads: Payloads, spi_r: bytes = bytes(8)) -> Message:
    """Build an unprotected answer to an overheard request, in the name of its target."""
    answer = replace(
        heard,
        source=heard.target,
        target=heard.source,
        ports=(heard.ports[1], heard.ports[0]),
        spi_r=spi_r if heard.exchange == IKE_SA_INIT else heard.spi_r,
        flags=RESPONSE if heard.flags & INITIATOR else RESPONSE | INITIATOR,
    )
    return answer.with_payloads(payloads)


def acceptance(heard: Message) -> Message:
    """Build a well-formed answer to an overheard IKE_SA_INIT. It chooses from the proposals and has no key."""
    offered = dict(heard.payloads())
    key = offered[KE]
    secretless = (KE, key[:4] + os.urandom(len(key) - 4)), (NONCE, os.urandom(32)), notify(SIGNATURE_HASHES, b"\0\5")
    return reply(heard, [(SA, _chosen(offered[SA])), *secretless], os.urandom(8))


def nonsense(heard: Message) -> Message:
    """Build an answer to an overheard IKE_SA_INIT that begins as a good one does and lacks the rest."""
    return reply(heard, [(SA, _chosen(dict(heard.payloads())[SA]))], os.urandom(8))


def opening(heard: Message, spi_i: bytes, cookie: bytes = b"") -> Message:
    """Build another first message in the name of the source of an overheard one."""
    payloads = [(kind, data) for kind, data in heard.payloads() if kind != NOTIFY]
    payloads = [(kind, os.urandom(len(data)) if kind == NONCE else data) for kind, data in payloads]
    return replace(heard, spi_i=spi_i).with_payloads([notify(COOKIE, cookie), *payloads] if cookie else payloads)


def cookie_in(message: Message) -> bytes:
    """Return the cookie that a responder asks for; empty when the message is none of that kind."""
    asked = [data[4:] for kind, data in message.payloads() if kind == NOTIFY and data[2:4] == struct.pack("!H", COOKIE)]
    return asked[0] if message.exchange == IKE_SA_INIT and message.flags & RESPONSE and asked else b""


def _chosen(proposals: bytes) -> bytes:
    """Choose the first proposal with its first transform of each type (RFC 7296, section 3.3)."""
    spi_size, count = proposals[6], proposals[7]
    transforms: dict[int, bytes] = {}
    at = 8 + spi_size
    for _ in range(count):
        length = struct.unpack_from("!H", proposals, at + 2)[0]
        transforms.setdefault(proposals[at + 4], proposals[at : at + length])
        at += length
    last = len(transforms) - 1
    kept = [bytes([_LAST_TRANSFORM if index == last else 3]) + one[1:] for index, one in enumerate(transforms.values())]
    length = 8 + sum(map(len, kept))
    return struct.pack("!BBHBBBB", 0, 0, length, 1, proposals[5], 0, len(kept)) + b"".join(kept)


Reaction = Callable[[Message], None]


class Listener:
    """Hear every IKE message on some interfaces, in both directions, and react to each at once, in a thread."""

    def __init__(self, ends: Iterable[End], react: Reaction, *, only_inbound: bool = False) -> None:
        """``only_inbound``: whether to ignore what the node itself sends or forwards."""
        self._react, self._only_inbound = react, only_inbound
        self._sockets = [namespaces.within(end.namespace, partial(_opened, end.interface)) for end in ends]
        self._threads = [threading.Thread(target=self._read, args=(one,), daemon=True) for one in self._sockets]
        self.heard = 0
        """The messages heard so far."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def _read(self, heard: socket.socket) -> None:
        heard.settimeout(_LOOK)
        while heard.fileno() >= 0:
            with suppress(TimeoutError):
                try:
                    frame, address = heard.recvfrom(65536)
                except OSError as error:
                    if isinstance(error, TimeoutError):
                        raise
                    return
                if self._only_inbound and address[2] == socket.PACKET_OUTGOING:
                    continue
                if message := decode(frame):
                    self.heard += 1
                    self._react(message)


class Reach:
    """A forger in the place of a relay: it reaches both neighbours. A message leaves by the link to its target."""

    def __init__(self, lab: Lab, relay: str, neighbours: Sequence[str]) -> None:
        self.ends = [lab.end_of(relay, name) for name in neighbours]
        ways = [Way.between(lab.end_of(relay, name), lab.end_of(name, relay)) for name in neighbours]
        self._forgers = [Forger(way) for way in ways]
        self._by_address = {
            address: forger
            for name, forger in zip(neighbours, self._forgers, strict=True)
            for address in (lab[name].address, lab[name].locator)
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for forger in self._forgers:
            forger.__exit__(kind, error, trace)

    def send(self, message: Message) -> None:
        """Send a message towards its target."""
        self._by_address[message.target].send(message.packet())


class LongWay:
    """Answers to IKE_SA_INIT take longer through a relay, as over more hops: whoever hears a request can answer first.

    Nothing is suppressed. The relay's kernel leaves these answers to a thread that sends each on after 30 ms.
    """

    def __init__(self, relay: str, ends: Iterable[End], onward: Reaction) -> None:
        """``ends``: the relay's interfaces; ``onward`` sends a message towards its target."""
        self._relay, self._onward = relay, onward
        self._listener = Listener(ends, self._take, only_inbound=True)

    def __enter__(self) -> Self:
        self._nft(_HELD_UP)
        self._listener.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.__exit__(kind, error, trace)
        self._nft("delete table inet lab_long_way\n")

    def _take(self, message: Message) -> None:
        if message.exchange == IKE_SA_INIT and message.flags & RESPONSE:
            threading.Timer(_DELAY, self._onward, [message]).start()

    def _nft(self, text: str) -> None:
        run(["ip", "netns", "exec", self._relay, "nft", "-f", "-"], stdin=text)


_HELD_UP = """table inet lab_long_way {
  chain forward {
    type filter hook forward priority 0;
    meta nfproto ipv6 udp sport 500 udp dport 500 @th,208,8 34 @th,216,8 & 32 == 32 drop
  }
}
"""
_DELAY = 0.03
"""Seconds by which a true answer is late."""
_LOOK = 0.2
"""Seconds between two checks whether a reader is to end."""


def _opened(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE_IPV6))
    opened.bind((interface, _ETHERTYPE_IPV6))
    return opened
