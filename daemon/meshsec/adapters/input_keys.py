"""Read the keys of all input devices that have a key (linux/input.h), among them those that are plugged in later."""

import fcntl
import os
import select
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

DEVICES = Path("/dev/input")
_EVENT = struct.Struct("@llHHi")
"""struct input_event: time, type, code, value."""
_EVENTS = 64
_KEY = 1
"""EV_KEY."""
_BITS = 96
"""Bytes of a bit for each code up to KEY_MAX."""
_GET_BITS = 2 << 30 | _BITS << 16 | ord("E") << 8 | 0x20 + _KEY
"""EVIOCGBIT(EV_KEY, 96)."""
_LOOK_EVERY = 1.0
"""Seconds between two looks for new devices."""


class InputKeys:
    """The devices that have one key."""

    def __init__(self, code: int) -> None:
        self._code = code
        self._open: dict[str, int] = {}
        self._refused: set[str] = set()
        self._look_at = 0.0

    def events(self, seconds: float) -> Iterator[tuple[int, int]]:
        """Wait for at most so long, and yield code and value of each key that was pressed, repeated or released."""
        if time.monotonic() >= self._look_at:
            self._look()
        poll = select.poll()
        for descriptor in self._open.values():
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(seconds * 1000)}
        for name, descriptor in list(self._open.items()):
            if descriptor in ready:
                yield from self._read(name, descriptor)

    def close(self) -> None:
        """Close all devices."""
        for name in list(self._open):
            self._forget(name)

    def _look(self) -> None:
        self._look_at = time.monotonic() + _LOOK_EVERY
        there = {path.name for path in DEVICES.glob("event*")}
        self._refused &= there
        for name in sorted(there - self._open.keys() - self._refused):
            try:
                descriptor = os.open(DEVICES / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue  # udev may set its permissions just now
            if _has(descriptor, self._code):
                self._open[name] = descriptor
            else:
                os.close(descriptor)
                self._refused.add(name)

    def _read(self, name: str, descriptor: int) -> Iterator[tuple[int, int]]:
        try:
            content = os.read(descriptor, _EVENTS * _EVENT.size)
        except BlockingIOError:
            return
        except OSError:  # unplugged: who holds its key does not any more
            self._forget(name)
            yield self._code, 0
            return
        for _, _, kind, code, value in _EVENT.iter_unpack(content[: len(content) // _EVENT.size * _EVENT.size]):
            if kind == _KEY:
                yield code, value

    def _forget(self, name: str) -> None:
        os.close(self._open.pop(name))


def _has(descriptor: int, code: int) -> bool:
    bits = bytes(_BITS)
    with suppress(OSError):
        bits = fcntl.ioctl(descriptor, _GET_BITS, bits)
    return bool(bits[code // 8] >> code % 8 & 1)
