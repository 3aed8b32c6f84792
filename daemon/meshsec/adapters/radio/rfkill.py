"""Read the switches of radios from sysfs, and watch changes through /dev/rfkill (the kernel's rfkill.rst)."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SWITCHES = Path("/sys/class/rfkill")
_DEVICE = "/dev/rfkill"
_EVENT_MAX = 64
"""Limit of an event in bytes; the kernel returns one for each read."""


def blocked(phy: str) -> tuple[bool, bool]:
    """Return whether a radio is switched off by software, and by hardware. A radio without a switch is on."""
    for switch in _SWITCHES.glob("rfkill*"):
        with suppress(OSError):  # it may disappear during the reading
            if _text(switch / "name") == phy:
                return _text(switch / "soft") == "1", _text(switch / "hard") == "1"
    return False, False


@contextmanager
def changes(on_change: Callable[[], None]) -> Iterator[None]:
    """Call ``on_change`` in the running loop at each change of a switch; never if there is no device."""
    try:
        device = os.open(_DEVICE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield
        return
    loop = asyncio.get_running_loop()

    def drain() -> None:
        with suppress(BlockingIOError):
            while os.read(device, _EVENT_MAX):
                pass
        on_change()

    loop.add_reader(device, drain)
    try:
        yield
    finally:
        loop.remove_reader(device)
        os.close(device)


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
