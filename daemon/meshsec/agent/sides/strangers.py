"""The nodes that asked for an SA without having a card here."""

import logging
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

MAX_STRANGERS = 64
"""Limit of remembered nodes that asked for an SA without having a card here."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stranger:
    """A node that asked for an SA in vain."""

    address: str
    reason: str
    times: int
    last_at: float


class Strangers:
    """The last ``MAX_STRANGERS`` of them, by their address."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Stranger] = OrderedDict()

    def __iter__(self) -> Iterator[Stranger]:
        return iter(self._known.values())

    def note(self, address: str, reason: str, now: float) -> None:
        """Remember that a node asked in vain. The first time is logged."""
        known = self._known.pop(address, None)
        times = known.times + 1 if known else 1
        self._known[address] = Stranger(address, reason, times, now)
        if len(self._known) > MAX_STRANGERS:
            self._known.popitem(last=False)
        if times == 1:
            _log.warning("%s asked for an SA in vain: %s", address, reason)
