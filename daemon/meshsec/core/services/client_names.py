"""How a node says to its peers what its clients are called: all of them, in as many datagrams as it takes (ADR 0078).

No message has a place for the name of a node. What comes from a peer is below the name that the receiver has given to
that peer, so that nobody can name what is not behind it. Labels and addresses come from strangers at both ends.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Final

import msgspec

from meshsec.core.values.host_names import LABEL_PATTERN, ClientName
from meshsec.core.values.model import Address

CLIENTS_MAX: Final = 96
"""Clients of one node; it serves no more."""
ADDRESSES_MAX: Final = 7
"""Addresses of one client: one of IPv4, and six of IPv6."""
PARTS_MAX: Final = 24
"""Datagrams with the names of one node: with the longest names, five clients fit into each."""
_ROWS_SIZE: Final = 1100
"""Bytes of a datagram that rows may take."""

_Label = Annotated[str, msgspec.Meta(pattern=rf"^{LABEL_PATTERN}\Z")]
_Packed = Annotated[bytes, msgspec.Meta(min_length=4, max_length=16)]
_Row = tuple[_Label, Annotated[list[_Packed], msgspec.Meta(min_length=1, max_length=ADDRESSES_MAX)]]
_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class Names(msgspec.Struct, frozen=True, tag="names", forbid_unknown_fields=True):
    """Some of the names. All parts of one number together are all that the sender's clients are called."""

    epoch: _Number
    """Drawn when the sender started."""
    number: _Number
    """Changes since then."""
    part: Annotated[int, msgspec.Meta(ge=0, lt=PARTS_MAX)]
    parts: Annotated[int, msgspec.Meta(ge=1, le=PARTS_MAX)]
    rows: Annotated[list[_Row], msgspec.Meta(max_length=CLIENTS_MAX)]


class Taken(msgspec.Struct, frozen=True, tag="taken", forbid_unknown_fields=True):
    """The sender has all parts of a number."""

    epoch: _Number
    number: _Number


def portions(names: Iterable[ClientName], epoch: int, number: int) -> list[Names]:
    """Return the messages that say these names; one of them where there are none."""
    batches = [*_batches([(one.label, [address.packed for address in one.addresses]) for one in names][:CLIENTS_MAX])]
    return [Names(epoch, number, part, len(batches), rows) for part, rows in enumerate(batches)]


def _batches(rows: list[_Row]) -> Iterator[list[_Row]]:
    batch: list[_Row] = []
    size = 0
    for row in rows:
        length = len(msgspec.msgpack.encode(row))
        if size + length > _ROWS_SIZE:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += length
    yield batch


class Heard:
    """What one peer's clients are called, as that peer says."""

    def __init__(self) -> None:
        self.names: tuple[ClientName, ...] | None = None
        """None: not all of them have been heard."""
        self._complete = (-1, -1)
        self._expected = (-1, -1, 0)
        self._parts: dict[int, list[ClientName]] = {}

    def take(self, message: Names) -> bool:
        """Take a part. Return whether all parts of its number are here now.

        A late part of an older number does not count.
        """
        asked = (message.epoch, message.number)
        if asked == self._complete:
            return True
        if message.epoch == self._complete[0] and message.number < self._complete[1]:
            return False
        if (*asked, message.parts) != self._expected:
            self._expected, self._parts = (*asked, message.parts), {}
        self._parts[message.part % message.parts] = [*_names(message.rows)]
        if len(self._parts) < message.parts:
            return False
        rows = [one for _, part in sorted(self._parts.items()) for one in part]
        self.names = tuple(sorted({one.label: one for one in reversed(rows[:CLIENTS_MAX])}.values()))
        self._complete, self._parts = asked, {}
        return True


def _names(rows: Iterable[_Row]) -> Iterator[ClientName]:
    for name, packed in rows:
        addresses = tuple(address for one in packed if (address := _address(one)) is not None)
        if addresses:
            yield ClientName(name, addresses)


def _address(packed: bytes) -> Address | None:
    match len(packed):
        case 4:
            return IPv4Address(packed)
        case 16:
            return IPv6Address(packed)
    return None
