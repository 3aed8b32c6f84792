"""``[time]`` of ``meshsec.toml``: who keeps the mesh's time (docs/guide/time.md)."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from meshsec.core.config.kinds import NodeName, SocketPath
from meshsec.core.values.definition import Once, Rule, Wrong

_POLL_MAX = 17
"""MAXPOLL, a logarithm of seconds (RFC 5905, section 7.2)."""
_SERVER = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.:-]{0,251}[0-9A-Za-z])?")
_PATH = re.compile(r"/[0-9A-Za-z._/+-]{1,106}")


class Driver(StrEnum):
    """By what a reference clock is read (chrony.conf(5), refclock)."""

    SHM = "shm"
    SOCK = "sock"
    PPS = "pps"


def _matching(pattern: re.Pattern[str], value: object) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError
    return value


class Reference(Struct, frozen=True):
    """A receiver at this node: the time of day by ``shm`` or ``sock``, the second's beginning by ``pps``."""

    driver: Annotated[Driver, Meta(description="how chronyd reads it")]
    unit: Annotated[int, Meta(ge=0, le=255, description="of `shm`: the segment that gpsd writes")] = 0
    path: Annotated[
        str,
        Rule(
            "an absolute path of letters, digits and ._/+-, such as '/dev/pps0'",
            lambda value: _matching(_PATH, value),
        ),
        Meta(description="of `sock` and `pps`: the socket or device"),
    ] = ""
    offset: Annotated[float, Meta(ge=-1.0, le=1.0, description="how late it is", extra={"unit": "seconds"})] = 0.0

    def wrong(self, given: Mapping[str, object]) -> Wrong:
        """Yield keys that the driver does not have, and a driver without the path that it needs."""
        if self.driver is Driver.SHM and "path" in given:
            yield ("path",), "with driver = 'sock' or 'pps' only"
        if self.driver in (Driver.SOCK, Driver.PPS):
            if "unit" in given:
                yield ("unit",), "with driver = 'shm' only"
            if "path" not in given:
                yield ("driver",), "'shm', or another one with a path, such as path = '/dev/pps0'"


class TimeSettings(Struct, frozen=True):
    """All of ``[time]``."""

    masters: Annotated[
        tuple[NodeName, ...],
        Once("each master once"),
        Meta(
            min_length=1,
            max_length=8,
            description="whose time it is: 1 to 8 names of nodes, the same list on all nodes; a master names itself, "
            "too",
            extra={"allowed": "a list of 1 to 8 names of nodes, such as ['alpha', 'bravo']"},
        ),
    ]
    # Below every real stratum, and above 16, which is unsynchronised (RFC 5905, figure 11).
    stratum: Annotated[int, Meta(ge=2, le=15, description="of a master that knows no time but its own")] = 10
    distance: Annotated[
        float,
        Meta(
            ge=0.001,
            le=1.0,
            description="a master whose error may be more than that keeps its own time from then on",
            extra={"unit": "seconds"},
        ),
    ] = 0.1
    minpoll: Annotated[
        int, Meta(ge=0, le=_POLL_MAX, description="how often the masters are asked at most, as a logarithm of seconds")
    ] = 4
    maxpoll: Annotated[
        int, Meta(ge=0, le=_POLL_MAX, description="how often they are asked at least; at least `minpoll`")
    ] = 7
    servers: Annotated[
        tuple[
            Annotated[
                str,
                Rule(
                    "an address or a host name, such as 'ntp.example.net'",
                    lambda value: _matching(_SERVER, value),
                ),
            ],
            ...,
        ],
        Meta(
            max_length=16,
            description="time servers outside the mesh: at most 16 addresses or host names",
            extra={"allowed": "a list of at most 16 addresses or host names"},
        ),
    ] = ()
    references: Annotated[
        tuple[Reference, ...],
        Meta(
            max_length=8,
            description='receivers at this node, at most 8: `{ driver = "shm", unit = 0 }` (what gpsd writes), '
            '`{ driver = "sock", path = "/run/..." }`, `{ driver = "pps", path = "/dev/pps0" }`; each with an '
            "`offset`, -1 to 1 s, that what it says is late",
            extra={"allowed": "a list of at most 8 tables, such as [{ driver = 'shm', unit = 0 }]"},
        ),
    ] = ()
    hardware_timestamps: Annotated[
        bool, Meta(description="whether interfaces that can stamp packets in hardware do so")
    ] = field(name="hwtimestamp", default=True)
    socket: Annotated[
        SocketPath, Meta(description="where chronyd answers: a path of at most 107 letters, digits and `._/+-`")
    ] = "/run/chrony/chronyd.sock"

    @property
    def slowest_poll(self) -> int:
        """Return ``maxpoll``; where ``minpoll`` alone is given, at least that."""
        return max(self.minpoll, self.maxpoll)

    def wrong(self, given: Mapping[str, object]) -> Wrong:
        """Yield a maximum below its minimum, and a socket that chronyd would read as several words."""
        if "maxpoll" in given and self.maxpoll < self.minpoll:
            yield ("maxpoll",), f"at least minpoll, which is {self.minpoll}"
        if not _PATH.fullmatch(self.socket):
            yield ("socket",), "a path of letters, digits and ._/+-"
