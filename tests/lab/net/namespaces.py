"""Network namespaces: make one, call a function inside it, and delete it with everything that runs in it."""

import ctypes
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tests.lab.basics.shell import run

PREFIX = "msl"
"""Every namespace of the lab is called ``msl<instance>-<node>``."""
NETNS = Path("/run/netns")

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000  # sched.h
_libc = ctypes.CDLL(None, use_errno=True)

_SYSCTLS = (
    "net.ipv6.conf.all.forwarding=1",
    "net.ipv4.ip_forward=1",
    "net.ipv6.conf.all.accept_dad=0",  # addresses are usable at once, as nobody else can have them
    "net.ipv6.conf.default.accept_dad=0",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    "net.ipv4.conf.all.arp_ignore=0",
    "net.ipv4.ping_group_range=0 2147483647",
)


def create(name: str) -> None:
    """Make a namespace that forwards packets and whose loopback interface is up."""
    run(["ip", "netns", "add", name])
    run(["ip", "-n", name, "link", "set", "lo", "up"])
    run(["ip", "netns", "exec", name, "sysctl", "-q", "-w", *_SYSCTLS])


def destroy(name: str) -> None:
    """Kill what runs in the namespace and delete it; its interfaces go with it."""
    for pid in run(["ip", "netns", "pids", name], check=False).stdout.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    run(["ip", "netns", "delete", name], check=False)


def existing(prefix: str = PREFIX) -> list[str]:
    """Return the namespaces whose names begin with ``prefix``."""
    return sorted(entry.name for entry in NETNS.glob(f"{prefix}*")) if NETNS.is_dir() else []


def within(name: str, function: Callable[[], T]) -> T:
    """Return the result of ``function``, called by a thread in the namespace. Sockets that it opens stay there."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_entered, name, function).result()


def enter(name: str) -> None:
    """Move the calling thread into a namespace, with the processes that it starts."""
    with (NETNS / name).open("rb") as namespace:
        if _libc.setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {name}")


def _entered(name: str, function: Callable[[], T]) -> T:
    enter(name)
    return function()
