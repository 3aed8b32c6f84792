"""Awaits what must happen: a condition is looked at again when one of its sources speaks.

Some changes nobody speaks of (the last duplicate of an SA goes), so it is looked at each second besides.
"""

import selectors
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tests.lab.basics.patience import patient

T = TypeVar("T")

LOOK = 1.0
"""Seconds without a word after which the condition is looked at all the same."""


class Source(Protocol):
    """Something that becomes readable when the world may have changed."""

    def fileno(self) -> int:
        """What to select on."""

    def drain(self) -> bool:
        """Take what there is to read, without blocking; False when nothing will come any more."""


class NotInTimeError(AssertionError):
    """A condition did not hold before its deadline."""


def wait_until(
    what: str,
    condition: Callable[[], T | None],
    sources: Sequence[Source],
    seconds: float,
    last: Callable[[], object] | None = None,
) -> T:
    """The first true value of ``condition``; raises NotInTimeError after ``seconds``, with what ``last`` shows then."""
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
