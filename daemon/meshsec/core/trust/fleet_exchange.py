"""How two nodes come to know the same signed cards and lists (ADR 0046): four lines of JSON over one connection.

=======  =========  ==========================================================================================
line     by         says
=======  =========  ==========================================================================================
hello    client     for each of its fleets the number of its list, and a digest of the signed cards it has
summary  server     the same for the fleets that both have; where the digests differ, the short names of its cards
offer    client     what the server lacks, and the short names of the cards that it lacks itself
answer   server     those, and newer lists
=======  =========  ==========================================================================================

What comes in is looked at as far as its form here; that it counts is for the signatures to say (core/trust/fleets.py).
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, TypeVar

import msgspec

from meshsec.core.trust.fleets import CARD_OCTETS_MAX, FLEETS_MAX, LIST_OCTETS_MAX, MEMBERS_MAX

PORT = 17181
"""TCP port on which meshsecd listens."""
LINE_MAX = 1024 * 1024
"""Octets of one line."""

_CARDS_IN_A_LINE = 1024
_LISTS_IN_A_LINE = 2
"""Most lists in a line; the rest comes with the next exchange."""
_SHORT = 8
"""Octets of a short name."""


class ExchangeError(ValueError):
    """A line that is not what is to come."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a node has of one fleet."""

    number: int = 0
    """Number of the list; 0 when there is none."""
    list: bytes = b""
    cards: Mapping[str, bytes] = field(default_factory=dict)
    """Signed cards by short name."""
    digest: str = ""


Holdings = Mapping[bytes, Holding]
"""What a node has of each fleet, by the fleet's public key."""


@dataclass(frozen=True, slots=True)
class News:
    """Octets that came."""

    lists: tuple[bytes, ...]
    cards: tuple[bytes, ...]


def holding(number: int, listed: bytes, cards: Iterable[bytes]) -> Holding:
    """Return what a node has of a fleet: list and signed cards, this node's own among them."""
    named = {sha256(octets).digest()[:_SHORT].hex(): octets for octets in cards}
    return Holding(number, listed, named, sha256("".join(sorted(named)).encode()).hexdigest())


_Key = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Short = Annotated[str, msgspec.Meta(min_length=2 * _SHORT, max_length=2 * _SHORT)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Shorts = Annotated[list[_Short], msgspec.Meta(max_length=MEMBERS_MAX)]
_Card = Annotated[str, msgspec.Meta(max_length=(CARD_OCTETS_MAX + 2) // 3 * 4)]
_List = Annotated[str, msgspec.Meta(max_length=(LIST_OCTETS_MAX + 2) // 3 * 4)]


class _Known(msgspec.Struct, forbid_unknown_fields=True):
    list: _Number
    cards: _Key


class _Summary(msgspec.Struct, forbid_unknown_fields=True):
    list: _Number
    cards: _Shorts | None = None
    """Short names of the cards; None when the digests agree."""


class Hello(msgspec.Struct, forbid_unknown_fields=True):
    """The first line."""

    fleets: Annotated[dict[_Key, _Known], msgspec.Meta(max_length=FLEETS_MAX)]


class Summary(msgspec.Struct, forbid_unknown_fields=True):
    """The second."""

    fleets: Annotated[dict[_Key, _Summary], msgspec.Meta(max_length=FLEETS_MAX)]


class _Carrying(msgspec.Struct, forbid_unknown_fields=True):
    lists: Annotated[list[_List], msgspec.Meta(max_length=_LISTS_IN_A_LINE)]
    cards: Annotated[list[_Card], msgspec.Meta(max_length=_CARDS_IN_A_LINE)]

    def news(self) -> News:
        """Return the bytes in it. Raises ExchangeError."""
        try:
            return News(
                tuple(b64decode(one, validate=True) for one in self.lists),
                tuple(b64decode(one, validate=True) for one in self.cards),
            )
        except ValueError as error:
            raise ExchangeError(str(error)) from error


class Offer(_Carrying):
    """The third line."""

    lack: Annotated[dict[_Key, _Shorts], msgspec.Meta(max_length=FLEETS_MAX)]


class Answer(_Carrying):
    """The fourth."""


Line = TypeVar("Line", Hello, Summary, Offer, Answer)


def decode(line: bytes, kind: type[Line]) -> Line:
    """Decode a received line. Raises ExchangeError."""
    if not line.endswith(b"\n"):
        raise ExchangeError("the connection ended" if len(line) < LINE_MAX else f"more than {LINE_MAX} octets")
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ExchangeError(str(error)) from error


def encode(line: Hello | Summary | Offer | Answer) -> bytes:
    """Encode a line for sending."""
    return msgspec.json.encode(line) + b"\n"


def numbers(said: Hello | Summary) -> Mapping[bytes, int]:
    """Return the number of the list that the other node has of each fleet, by the fleet's public key."""
    return {bytes.fromhex(key): one.list for key, one in said.fleets.items()}


def hello(mine: Holdings) -> Hello:
    """Return the client's first message: what it has."""
    return Hello({key.hex(): _Known(one.number, one.digest) for key, one in mine.items()})


def summary(mine: Holdings, said: Hello) -> Summary:
    """Return the server's summary: what it has of the fleets that the client named."""
    return Summary(
        {
            key: _Summary(one.number, None if one.digest == said.fleets[key].cards else list(one.cards))
            for key, one in _both(mine, said.fleets)
        }
    )


def offer(mine: Holdings, said: Summary) -> Offer:
    """Return the client's offer: what it gives, and what it asks for."""
    lists: list[bytes] = []
    given: list[bytes] = []
    lack: dict[str, list[str]] = {}
    for key, one in _both(mine, said.fleets):
        theirs = said.fleets[key]
        lists += [one.list] if one.number > theirs.list else []
        if theirs.cards is not None:
            has = set(theirs.cards)
            given += [octets for name, octets in one.cards.items() if name not in has]
        lack[key] = [name for name in theirs.cards or () if name not in one.cards]
    return Offer(_coded(lists[:_LISTS_IN_A_LINE]), _coded(given[:_CARDS_IN_A_LINE]), lack)


def answer(mine: Holdings, said: Hello, asked: Offer) -> Answer:
    """Return the server's answer: what the client asked for."""
    lists: list[bytes] = []
    given: list[bytes] = []
    for key, one in _both(mine, said.fleets):
        lists += [one.list] if one.number > said.fleets[key].list else []
        given += [one.cards[name] for name in asked.lack.get(key, ()) if name in one.cards]
    return Answer(_coded(lists[:_LISTS_IN_A_LINE]), _coded(given[:_CARDS_IN_A_LINE]))


def _both(mine: Holdings, named: Iterable[str]) -> list[tuple[str, Holding]]:
    return [(key, mine[bytes.fromhex(key)]) for key in named if bytes.fromhex(key) in mine]


def _coded(octets: Iterable[bytes]) -> list[str]:
    return [b64encode(one).decode("ascii") for one in octets]
