"""Waits for a condition: it is checked again when one of its sources reports an event.

Some changes cause no event (the last duplicate of an SA is deleted), so the condition is also checked each second.
"""

import selectors
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tests.lab.basics.patience import patient

T = TypeVar("T")

LOOK = 1.0
"""Seconds without an event after which the condition is checked again."""


class Source(Protocol):
    """Something that becomes readable when the condition may have changed."""

    def fileno(self) -> int:
        """Return the descriptor to select on."""

    def drain(self) -> bool:
        """Read what is available, without blocking. Return False when nothing more will come."""


class NotInTimeError(AssertionError):
    """A condition did not hold before its deadline."""


def wait_until(
    what: str,
    condition: Callable[[], T | None],
    sources: Sequence[Source],
    seconds: float,
    last: Callable[[], object] | None = None,
) -> T:
    """Return the first true value of ``condition``. Raises NotInTimeError after ``seconds``, with the value of
    ``last``."""
    seconds = patient(seconds)
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for source in sources:
            selector.register(source, selectors.EVENT_READ, source)
        while not (value := condition()):
            left = deadline - time.monotonic()
            if left <= 0:
                raise NotInTimeError(f"not within {seconds:g} s: {what}" + (f"\nlast seen: {last()}" if last else ""))
            for key, _ in selector.select(min(left, patient(LOOK))):
                if not key.data.drain():
                    selector.unregister(key.fileobj)
    return value
