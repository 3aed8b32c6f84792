"""Positions of nodes, and the message by which a node says where it is (ADR 0076).

The message is MessagePack in UDP between ``fc..`` addresses of nodes that trust each other, at the port of services. It
carries an age in place of a time, because the clocks of the two nodes may differ. What comes in is from a peer that
proved its key; it may be hostile, so that each number is checked. It has no place for whose position it is.
"""

import math
from typing import Annotated, Final, NamedTuple

import msgspec

SIZE_MAX: Final = 200
"""Bytes of a datagram; the longest message has about 150."""
AGE_MAX: Final = 7 * 86400.0
"""Seconds after which a position is worth nothing; an honest node does not send one that is older."""
ALTITUDES: Final = (-12_000.0, 100_000.0)
"""Metres above the ellipsoid of WGS 84: from below the deepest trench to where space begins."""
ERROR_MAX: Final = 1_000_000.0
"""Metres."""
_EARTH_METRES: Final = 6_371_008.8
"""Mean radius of the Earth (IUGG)."""


class Position(NamedTuple):
    """A place on the Earth, in WGS 84."""

    latitude: float
    """Degrees north."""
    longitude: float
    """Degrees east."""
    altitude: float | None = None
    """Metres above the ellipsoid."""
    accuracy: float | None = None
    """Radius in metres in which the node is with a probability of 95 %."""
    altitude_accuracy: float | None = None
    """The same of the altitude."""
    fixed: bool = False
    """The operator wrote it down; it holds until he writes another."""


class MessageError(ValueError):
    """Bytes that are no message."""


_Error = Annotated[float, msgspec.Meta(ge=0, le=ERROR_MAX)] | None
_Row = tuple[
    Annotated[float, msgspec.Meta(ge=-90, le=90)],
    Annotated[float, msgspec.Meta(ge=-180, le=180)],
    Annotated[float, msgspec.Meta(ge=ALTITUDES[0], le=ALTITUDES[1])] | None,
    _Error,
    _Error,
    bool,
]


class Whereabouts(msgspec.Struct, frozen=True, tag="position", forbid_unknown_fields=True):
    """Where the sender is."""

    row: _Row | None
    """The fields of a ``Position``; None: the sender does not know."""
    age: Annotated[float, msgspec.Meta(ge=0, le=AGE_MAX)] = 0.0
    """Seconds since the sender was there."""
    asks: bool = False
    """The sender wants to know where the receiver is."""

    @property
    def position(self) -> Position | None:
        """Return the position; None: the sender knows none."""
        return None if self.row is None else Position(*self.row)


_decoder = msgspec.msgpack.Decoder(Whereabouts)


def whereabouts(position: Position | None, age: float, *, asks: bool) -> Whereabouts:
    """Return the message. A position that is too old to be worth anything is none."""
    if position is None or age > AGE_MAX:
        return Whereabouts(None, 0.0, asks)
    return Whereabouts((*position,), max(age, 0.0), asks)


def encode(message: Whereabouts) -> bytes:
    """Return the bytes of a message."""
    return msgspec.msgpack.encode(message)


def decode(octets: bytes) -> Whereabouts:
    """Return the message. Raises MessageError."""
    if len(octets) > SIZE_MAX:
        raise MessageError(f"more than {SIZE_MAX} bytes")
    try:
        return _decoder.decode(octets)  # NaN is within no bounds
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise MessageError(str(error)) from error


def checked(position: Position) -> Position | None:
    """Return a position that a message may carry: without what is out of range; None where that is the place."""
    if not (_is_within(position.latitude, -90, 90) and _is_within(position.longitude, -180, 180)):
        return None
    return position._replace(
        altitude=_within(position.altitude, *ALTITUDES),
        accuracy=_within(position.accuracy, 0, ERROR_MAX),
        altitude_accuracy=_within(position.altitude_accuracy, 0, ERROR_MAX),
    )


def distance(one: Position, other: Position) -> float:
    """Return the distance in metres on a sphere, and of the altitudes where both are known."""
    south, north = math.radians(one.latitude), math.radians(other.latitude)
    east = math.radians(other.longitude - one.longitude)
    half = math.sin((north - south) / 2) ** 2 + math.cos(south) * math.cos(north) * math.sin(east / 2) ** 2
    ground = 2 * _EARTH_METRES * math.asin(min(1.0, math.sqrt(half)))
    if one.altitude is None or other.altitude is None:
        return ground
    return math.hypot(ground, other.altitude - one.altitude)


def _within(value: float | None, least: float, most: float) -> float | None:
    return value if value is not None and _is_within(value, least, most) else None


def _is_within(value: float, least: float, most: float) -> bool:
    """Return whether a number, which may be none (NaN), is within bounds."""
    return least <= value <= most
