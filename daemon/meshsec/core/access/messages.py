"""What access nodes say to each other of their clients: MessagePack in UDP between ``fc..`` addresses.

=======  ========================================================================================================
message  meaning
=======  ========================================================================================================
hello    the sender asks for all clients that the other knows of
claim    who serves a client; with ``asks``, the sender wants an answer
flows    the gateways of some of the client's flows, from the node that served it
answer   the claim was taken; all flows have been sent
=======  ========================================================================================================

What comes in is from a peer whom the operator named. It is looked at for its form nevertheless, and a message that is
not as it ought to be is left out.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Annotated, Final, NamedTuple

import msgspec

from meshsec.core.access.clients import NUMBER_MAX, PER_CLIENT, Client
from meshsec.core.values.host_names import LABEL_PATTERN
from meshsec.core.values.model import Address

PORT: Final = 17182
"""UDP port on which meshsecd hears other access nodes."""
SIZE_MAX: Final = 1200
"""Octets of a datagram: it fits into IPv6's smallest MTU with all headers."""
FLOWS_IN_ONE: Final = 8
FLOWS_MAX: Final = 240
"""Flows that move with a client: the newest."""

_Mac = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")]
_Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
_AddressText = Annotated[str, msgspec.Meta(max_length=45)]
_Name = Annotated[str, msgspec.Meta(pattern=rf"^(?:{LABEL_PATTERN})?\Z")]
_Addresses = Annotated[list[_AddressText], msgspec.Meta(max_length=sum(PER_CLIENT.values()))]


class MessageError(ValueError):
    """Octets that are no message."""


class Flow(NamedTuple):
    """A flow of a client to the outside, and the gateway that translates its addresses."""

    source: Address
    target: Address
    protocol: int
    """6 for TCP, 17 for UDP."""
    source_port: int
    target_port: int
    gateway: IPv6Address

    @property
    def ends(self) -> tuple[Address, Address, int, int, int]:
        """Return what the flow is known by."""
        return self[:5]


class Claim(msgspec.Struct, frozen=True, tag="claim", omit_defaults=True):
    """A client's node, as the sender knows it.

    A field of a later meshsec is ignored, so that nodes can be upgraded one after the other. It must not change what
    the others mean. An earlier meshsec refuses ``name``, so it is sent only where there is one.
    """

    mac: _Mac
    node: _AddressText
    number: _Number
    addresses: _Addresses
    asks: bool = False
    name: _Name = ""

    def client(self) -> Client:
        """Return what it says. Raises MessageError."""
        try:
            found = tuple(map(ip_address, self.addresses))
            return Client(self.mac, IPv6Address(self.node), self.number, found, self.name)
        except ValueError as error:
            raise MessageError(str(error)) from error


class Hello(msgspec.Struct, frozen=True, tag="hello", forbid_unknown_fields=True):
    """The sender has started, or is in reach again, and asks which clients the receiver knows."""


class Answer(msgspec.Struct, frozen=True, tag="answer", forbid_unknown_fields=True):
    """The sender has taken a claim."""

    mac: _Mac
    number: _Number


_Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
_Protocol = Annotated[int, msgspec.Meta(ge=0, le=255)]
_Row = tuple[_AddressText, _AddressText, _Protocol, _Port, _Port, _AddressText]


class Flows(msgspec.Struct, frozen=True, tag="flows", forbid_unknown_fields=True):
    """Some flows of a client."""

    mac: _Mac
    number: _Number
    rows: Annotated[list[_Row], msgspec.Meta(max_length=FLOWS_IN_ONE)]

    def flows(self) -> list[Flow]:
        """Return what it says. Raises MessageError."""
        try:
            return [Flow(ip_address(one[0]), ip_address(one[1]), *one[2:5], IPv6Address(one[5])) for one in self.rows]
        except ValueError as error:
            raise MessageError(str(error)) from error


Message = Hello | Claim | Answer | Flows

_decoder = msgspec.msgpack.Decoder(Message)


def claim(client: Client, *, asks: bool) -> Claim:
    """Return the claim that says what is known of a client."""
    return Claim(client.mac, str(client.node), client.number, [*map(str, client.addresses)], asks, client.name)


def portions(mac: str, number: int, flows: Sequence[Flow]) -> Iterator[Flows]:
    """Yield the messages with a client's flows, at most ``FLOWS_MAX``."""
    rows = [
        (str(one.source), str(one.target), one.protocol, one.source_port, one.target_port, str(one.gateway))
        for one in flows[:FLOWS_MAX]
    ]
    for start in range(0, len(rows), FLOWS_IN_ONE):
        yield Flows(mac, number, rows[start : start + FLOWS_IN_ONE])


def encode(message: Message) -> bytes:
    """Return the octets of a message."""
    return msgspec.msgpack.encode(message)


def decode(octets: bytes) -> Message:
    """Return the message. Raises MessageError."""
    if len(octets) > SIZE_MAX:
        raise MessageError(f"more than {SIZE_MAX} octets")
    try:
        message: Message = _decoder.decode(octets)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise MessageError(str(error)) from error
    return message
