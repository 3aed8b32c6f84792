"""``[time]`` of ``meshsec.toml``: who keeps the mesh's time (docs/time.md)."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from meshsec.core.trust.identity import NAME_RULE, IdentityError, checked_name
from meshsec.core.values import tables
from meshsec.core.values.tables import RefusedError, Table

MASTERS_MAX = 8
SERVERS_MAX = 16
REFERENCES_MAX = 8
STRATUM = (2, 15)
"""Of a clock without reference: below every real one, and above 16, which is unsynchronised (RFC 5905, figure 11)."""
DISTANCE_SECONDS = (0.001, 1.0)
POLL = (0, 17)
"""Logarithms of seconds; MAXPOLL is 17 (RFC 5905, section 7.2)."""
UNIT_MAX = 255
OFFSET_SECONDS = (-1.0, 1.0)

_SERVER = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.:-]{0,251}[0-9A-Za-z])?")
_PATH = re.compile(r"/[0-9A-Za-z._/+-]{1,106}")


class Driver(StrEnum):
    """By what a reference clock is read (chrony.conf(5), refclock)."""

    SHM = "shm"
    SOCK = "sock"
    PPS = "pps"


@dataclass(frozen=True, slots=True)
class Reference:
    """A receiver at this node: the time of day by ``shm`` or ``sock``, the second's beginning by ``pps``."""

    driver: Driver
    unit: int = 0
    """Of ``shm``: the segment that gpsd writes."""
    path: str = ""
    """Of ``sock`` and ``pps``."""
    offset: float = 0.0
    """Seconds that what it says is late."""


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """All of ``[time]``."""

    masters: tuple[str, ...] = ()
    """Nodes by name; this node, too, when it is one."""
    stratum: int = 10
    """That a master has who knows no time but his own."""
    distance: float = 0.1
    """Seconds: a master whose error may be more is a clock of his own."""
    minpoll: int = 4
    maxpoll: int = 7
    servers: tuple[str, ...] = ()
    """Outside the mesh."""
    references: tuple[Reference, ...] = ()
    hardware_timestamps: bool = True
    socket: str = "/run/chrony/chronyd.sock"


def read(table: Table, base: str) -> TimeSettings | None:
    """The section, None where there is none; relative paths start from the directory ``base``."""
    default = TimeSettings()
    present = bool(table.values)
    minpoll = table.take("minpoll", tables.integer(*POLL), default.minpoll)
    settings = TimeSettings(
        masters=table.take("masters", _masters, (), required=present),
        stratum=table.take("stratum", tables.integer(*STRATUM), default.stratum),
        distance=table.take("distance", _number(DISTANCE_SECONDS), default.distance),
        minpoll=minpoll,
        maxpoll=table.take("maxpoll", tables.integer(minpoll, POLL[1]), max(minpoll, default.maxpoll)),
        servers=table.take("servers", _servers, ()),
        references=_references(table),
        hardware_timestamps=table.take("hwtimestamp", tables.boolean, default.hardware_timestamps),
        socket=table.take("socket", _socket(base), default.socket),
    )
    table.refuse_the_rest()
    return settings if present else None


def _references(section: Table) -> tuple[Reference, ...]:
    entries: Sequence[Mapping[str, object]] = section.take("references", _tables, [])
    found = []
    for index, entry in enumerate(entries):
        table = Table((*section.path, "references", index), entry, section.problems)
        driver = table.take("driver", tables.choice(Driver), Driver.SHM, required=True)
        offset = table.take("offset", _number(OFFSET_SECONDS), 0.0)
        if driver is Driver.SHM:
            found.append(Reference(driver, unit=table.take("unit", tables.integer(0, UNIT_MAX), 0), offset=offset))
        else:
            found.append(Reference(driver, path=table.take("path", _device, "", required=True), offset=offset))
        table.refuse_the_rest()
    return tuple(found)


def _masters(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MASTERS_MAX:
        raise RefusedError(f"a list of 1 to {MASTERS_MAX} names of nodes, such as ['alpha', 'bravo']")
    for index, name in enumerate(value):
        try:
            checked_name(name if isinstance(name, str) else "")
        except IdentityError:
            raise RefusedError(NAME_RULE, index) from None
        if name in value[:index]:
            raise RefusedError("each master once", index)
    return tuple(value)


def _servers(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > SERVERS_MAX:
        raise RefusedError(f"a list of at most {SERVERS_MAX} addresses or host names")
    for index, name in enumerate(value):
        if not isinstance(name, str) or not _SERVER.fullmatch(name):
            raise RefusedError("an address or a host name, such as 'ntp.example.net'", index)
    return tuple(value)


def _tables(value: object) -> Sequence[Mapping[str, object]]:
    good = isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value)
    if not isinstance(value, list) or not good or len(value) > REFERENCES_MAX:
        raise RefusedError(f"a list of at most {REFERENCES_MAX} tables, such as [{{ driver = 'shm', unit = 0 }}]")
    return value


def _device(value: object) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        raise RefusedError("an absolute path of letters, digits and ._/+-, such as '/dev/pps0'")
    return value


def _socket(base: str) -> Callable[[object], str]:
    """chronyd reads words: a path with a space in it would be two of them."""
    read_path = tables.path(base, tables.SOCKET_PATH_MAX)

    def read(value: object) -> str:
        path = read_path(value)
        if not _PATH.fullmatch(path):
            raise RefusedError("a path of letters, digits and ._/+-")
        return path

    return read


def _number(bounds: tuple[float, float]) -> Callable[[object], float]:
    low, high = bounds

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise RefusedError(f"{low:g} to {high:g} seconds")
        return float(value)

    return read
