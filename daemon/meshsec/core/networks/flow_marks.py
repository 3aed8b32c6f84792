"""Marks by which a flow stays with the gateway through which it began, because that one translates its addresses.

Theory of operation. Each gateway that is alive has a mark and a routing table with default routes to it. A flow gets
the mark of the gateway that is in use when it begins, and keeps it while that gateway lives, also when another one has
become the nearest. A gateway that comes back has another mark: what moved away from it stays away.
"""

from collections.abc import Collection, Mapping
from ipaddress import IPv6Address

BASE = 0x4D540000
"""Marks and tables of flows are between this number and ``LAST``, so that they meet nobody else's."""
LAST = BASE + 0xFFFF
MAX = 8
"""Gateways that have a mark: the nearest."""


class FlowMarks:
    """The marks of the gateways that live."""

    def __init__(self) -> None:
        self._marks: dict[IPv6Address, int] = {}
        self._last = BASE

    @property
    def present(self) -> Mapping[IPv6Address, int]:
        """Return the marks of the gateways that live, by gateway."""
        return self._marks

    def of(self, living: Collection[IPv6Address]) -> dict[IPv6Address, int]:
        """Return the marks of these gateways. One that did not live at the last call gets another mark."""
        self._marks = {peer: mark for peer, mark in self._marks.items() if peer in living}
        for peer in living:
            if peer not in self._marks:
                self._marks[peer] = self._next()
        return dict(self._marks)

    def learn(self, marks: dict[IPv6Address, int]) -> None:
        """Take the marks in the kernel for gateways that have none here: a predecessor's, whose flows stay."""
        self._marks = {**marks, **self._marks}
        self._last = max([self._last, *marks.values()])

    def _next(self) -> int:
        self._last = self._last + 1 if self._last < LAST else BASE + 1
        return self._last if self._last not in self._marks.values() else self._next()
