"""Timers by key, the earliest first."""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_SLACK = 64
"""Heap entries beyond twice the timers that are tolerated before the heap is rebuilt."""


class Timers(Generic[Key]):
    """At most one timer for each key. A heap with lazy deletion: ``set`` costs O(log n), memory stays O(timers)."""

    def __init__(self) -> None:
        self._when: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._serial = 0

    def set(self, key: Key, when: float | None) -> None:
        """(Re)arm the timer of ``key``; None disarms it."""
        if when is None:
            self._when.pop(key, None)
        elif self._when.get(key) != when:
            self._when[key] = when
            self._push(key, when)

    def next(self) -> float | None:
        """Return when the earliest timer is due."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Key | None:
        """Disarm and return the earliest timer that is due at ``now``."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._when[key]
        return key

    def _push(self, key: Key, when: float) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (when, self._serial, key))
        if len(self._heap) > 2 * len(self._when) + _SLACK:
            self._heap = [entry for entry in self._heap if self._when.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def _drop_stale(self) -> None:
        while self._heap and self._when.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
