"""Services of nodes, and the messages by which a node says what it offers (ADR 0072).

A message is MessagePack in UDP between ``fc..`` addresses of nodes that trust each other. What comes in is from a
peer that proved its key; it may be hostile, so it is checked for its form and shown with visible characters alone.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import msgspec

from meshsec.core.services.client_names import Names, Taken

PORT: Final = 17184
"""UDP port on which meshsecd hears what peers offer."""
SIZE_MAX: Final = 1200
"""Bytes of a datagram: it fits into IPv6's smallest MTU with all headers."""
SERVICES_MAX: Final = 8
"""Services of one node. With the longest names and descriptions they fit into one datagram."""
DESCRIPTION_MAX: Final = 64
"""Bytes of a description in UTF-8."""

_HIDDEN = "\N{REPLACEMENT CHARACTER}"


class Protocol(StrEnum):
    """By what a service is reached."""

    TCP = "tcp"
    UDP = "udp"


class Service(NamedTuple):
    """One service of a node."""

    name: str
    port: int
    protocol: Protocol = Protocol.TCP
    description: str = ""


class MessageError(ValueError):
    """Bytes that are no message."""


_Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?\Z", max_length=32)]
_Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
_Description = Annotated[str, msgspec.Meta(max_length=DESCRIPTION_MAX)]
_Row = tuple[_Name, _Port, Protocol, _Description]


class Offer(msgspec.Struct, frozen=True, tag="offer", omit_defaults=True):
    """All that the sender offers.

    A field of a later meshsec is ignored, so that nodes can be upgraded one after the other. It must not change what
    the others mean. An earlier meshsec refuses ``clients``, so only access nodes send it.
    """

    rows: Annotated[list[_Row], msgspec.Meta(max_length=SERVICES_MAX)]
    asks: bool = False
    """The sender wants to know what the receiver offers."""
    clients: bool = False
    """The sender serves clients, and says by messages of their own what these are called."""

    def services(self) -> tuple[Service, ...]:
        """Return the services, of one name the first alone, with the characters of descriptions that can be seen."""
        found = {row[0]: Service(*row[:3], visible(row[3])) for row in reversed(self.rows)}
        return tuple(sorted(found.values()))


Message = Offer | Names | Taken
_decoder = msgspec.msgpack.Decoder(Message)


def offer(services: Iterable[Service], *, asks: bool, clients: bool = False) -> Offer:
    """Return the message with a node's services."""
    return Offer([(one.name, one.port, one.protocol, one.description) for one in services], asks, clients)


def visible(text: str) -> str:
    """Return a text in which whatever moves the cursor, changes colours or direction, or hides is replaced."""
    return "".join(one if one.isprintable() else _HIDDEN for one in text)


def encode(message: Message) -> bytes:
    """Return the bytes of a message."""
    return msgspec.msgpack.encode(message)


def decode(octets: bytes) -> Message:
    """Return the message. Raises MessageError."""
    if len(octets) > SIZE_MAX:
        raise MessageError(f"more than {SIZE_MAX} bytes")
    try:
        message: Message = _decoder.decode(octets)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise MessageError(str(error)) from error
    return message
