"""Find the kernel threads that deliver packets: threaded interrupts of an interface's device, soft interrupts, NAPI."""

import re
from collections.abc import Iterable
from pathlib import Path

from meshsec.adapters.scheduler import host, threads
from meshsec.adapters.scheduler.threads import Thread

_NET = Path("/sys/class/net")
_DEVICES = Path("/sys/devices")
_INTERRUPTS = Path("/proc/interrupts")


def find(kind: str, interfaces: Iterable[str]) -> set[Thread]:
    """Return the kernel threads of a kind (``profiles.KERNEL_THREADS``) that serve these interfaces."""
    names = list(interfaces)
    if kind == "irq":
        beginnings = [f"irq/{number}-" for name in names for number in numbers(name)]
    else:
        beginnings = ["ksoftirqd/", *(f"napi/{name}-" for name in names)]
    if not beginnings:
        return set()
    found = (threads.thread(tid) for tid in host.kernel_threads(*beginnings))
    return {thread for thread in found if thread}


def numbers(interface: str) -> set[int]:
    """Return the interrupts of an interface: its device's, or those of the first parent that has any (a bus, USB).

    An interface without a device, such as veth, has none.
    """
    return _of_device(_NET / interface / "device") | _by_name(interface)


def _of_device(link: Path) -> set[int]:
    if not link.exists():
        return set()
    device = link.resolve()
    while device.is_relative_to(_DEVICES) and device != _DEVICES:
        found = _listed(device)
        if found:
            return found
        device = device.parent
    return set()


def _listed(device: Path) -> set[int]:
    """Return message-signalled interrupts, or else the interrupt line."""
    try:
        messages = {int(entry.name) for entry in (device / "msi_irqs").iterdir()}
        return messages or {int((device / "irq").read_text(encoding="ascii"))} - {0}
    except (OSError, ValueError):
        pass
    try:
        return {int((device / "irq").read_text(encoding="ascii"))} - {0}
    except (OSError, ValueError):
        return set()


def _by_name(interface: str) -> set[int]:
    """Return the interrupts whose names contain the interface's name, as drivers give them."""
    named = re.compile(rf"^\s*(\d+):.*\s{re.escape(interface)}(?:-\S*)?$")
    lines = _INTERRUPTS.read_text(encoding="utf-8", errors="replace").splitlines()
    return {int(found[1]) for found in map(named.match, lines) if found}
