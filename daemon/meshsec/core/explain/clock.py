"""How far a node's clock may be off, by what chronyd says (``chronyc -c tracking``), and between two nodes.

The maximum error of a synchronised clock is its distance to the root, half the round trip there and the dispersion,
beside what is known and not yet corrected (RFC 5905, sections 4 and 11.2).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from meshsec.core.explain.findings import Check, Level

NAME = "time"
ERROR_MAX = 1.0
"""Seconds: MAXDIST of RFC 5905, appendix A.1.1; whose error may be more is no source for anybody."""

_FIELDS = 14
_LOCAL = "7F7F0101"
"""Reference ID of a clock that follows nobody: 127.127.1.1."""
_UNSYNCHRONISED = "Not synchronised"
_LEAPS = ("Normal", "Insert second", "Delete second", _UNSYNCHRONISED)


@dataclass(frozen=True, slots=True)
class Tracking:
    """What chronyd says of its clock; seconds."""

    reference: str
    """Its ID, eight hexadecimal digits."""
    source: str
    """The server's address, or the name of the receiver."""
    stratum: int
    offset: float
    """Offset of the system's clock from the time that chronyd keeps."""
    root_delay: float
    root_dispersion: float
    leap: str

    @property
    def synchronised(self) -> bool:
        """Whether it has a time at all."""
        return self.leap != _UNSYNCHRONISED

    @property
    def is_own(self) -> bool:
        """Whether it follows nobody and is the mesh's time itself."""
        return self.reference == _LOCAL

    @property
    def error(self) -> float:
        """The most that the system's clock differs from the root's."""
        return abs(self.offset) + self.root_dispersion + self.root_delay / 2


class UnboundedError(ValueError):
    """How far two clocks are apart cannot be said; the message says why."""


def parse(line: str) -> Tracking:
    """Parse one line of ``chronyc -n -c tracking``. Raises ValueError."""
    fields = line.strip().split(",")
    if len(fields) != _FIELDS or fields[-1] not in _LEAPS:
        raise ValueError(f"{line.strip()[:200]!r} is not what `chronyc tracking` prints: {_FIELDS} fields")
    offset, delay, dispersion = (float(fields[index]) for index in (4, 10, 11))
    if not all(map(math.isfinite, (offset, delay, dispersion))) or delay < 0 or dispersion < 0:
        raise ValueError(f"offset {offset}, root delay {delay} and root dispersion {dispersion} are not possible")
    return Tracking(fields[0].upper(), fields[1], int(fields[2]), offset, delay, dispersion, fields[-1])


def judged(found: Tracking) -> Check:
    """Return the finding of a node whose chronyd answers."""
    if not found.synchronised:
        fix = "`chronyc -n sources`: who answers; `meshsec status`: are the masters of [time] protected and in reach?"
        return Check(NAME, Level.WARN, "not synchronised: chronyd runs, and follows nobody yet", fix)
    whom = "this node's own clock, which others follow" if found.is_own else f"by {found.source}"
    said = (
        f"{whom}, stratum {found.stratum}; offset {_shown(found.offset)}, error at most {_shown(found.error)} "
        f"(root dispersion {_shown(found.root_dispersion)}, root delay {_shown(found.root_delay)})"
    )
    if found.error > ERROR_MAX:
        return Check(NAME, Level.WARN, said, f"more than {ERROR_MAX:g} s: no use to others; `chronyc -n sources`")
    return Check(NAME, Level.OK, said)


def fix(*, may_set: bool) -> str:
    """Return the commands that start chronyd. ``may_set``: whether it may set the clock; in most containers not."""
    written = "apt install chrony; meshsec export chrony > /etc/chrony/chrony.conf; "
    if may_set:
        return f"{written}systemctl restart chrony"
    return (
        f"{written}nobody may set the clock here (no CAP_SYS_TIME), and Debian's unit is then passed over: write its "
        f'drop-in of docs/guide/time.md, "In a container"; systemctl daemon-reload; systemctl restart chrony'
    )


def apart(first: str, second: str, clocks: Mapping[str, Tracking]) -> float:
    """Return the largest difference between the clocks of two nodes in seconds; ``clocks`` is by address.

    Each error is one to a root, so both nodes must have the same: the one at which the way from source to source
    ends. Two masters that have not met have each their own, and nothing is known between them. Raises UnboundedError.
    """
    errors = [_error(node, clocks) for node in (first, second)]
    if first == second:
        return 0.0
    roots = [root_of(node, clocks) for node in (first, second)]
    if roots[0] != roots[1]:
        raise UnboundedError(f"{first} has its time from {roots[0]}, {second} from {roots[1]}")
    return sum(errors)


def _error(node: str, clocks: Mapping[str, Tracking]) -> float:
    found = _known(node, clocks)
    if found.error > ERROR_MAX:
        raise UnboundedError(f"the clock of {node} may be off by {found.error:.3g} s, more than {ERROR_MAX:g} s")
    return found.error


def root_of(node: str, clocks: Mapping[str, Tracking]) -> str:
    """Return where the way from source to source ends: the node with a clock of its own, or true time by a receiver.

    Raises UnboundedError when it leads to a node of which nothing is known: its root may be another one tomorrow.
    """
    seen = {node}
    while not (found := _known(node, clocks)).is_own:
        if found.stratum == 1:
            return "a receiver of true time"
        node = found.source
        if node in seen:
            raise UnboundedError(f"{node} follows itself by others")
        seen.add(node)
    return node


def _known(node: str, clocks: Mapping[str, Tracking]) -> Tracking:
    if node not in clocks:
        raise UnboundedError(f"nothing is known of the clock of {node}")
    if not clocks[node].synchronised:
        raise UnboundedError(f"the clock of {node} is not synchronised")
    return clocks[node]


def _shown(seconds: float) -> str:
    """With the unit in which it is a number that can be read."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if abs(seconds) * factor >= 1:
            return f"{seconds * factor:.3f} {unit}"
    return f"{seconds * 1e6:.3f} us"
