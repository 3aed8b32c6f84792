"""Awaits what must happen: a condition is looked at again when one of its sources speaks, never after a nap."""

import selectors
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tests.lab.patience import patient

T = TypeVar("T")


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
            for key, _ in selector.select(left):
                if not key.data.drain():
                    selector.unregister(key.fileobj)
    return value
