"""Load that keeps a processor busy, so that everything else on it is late."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.lab.basics.processes import Daemon
from tests.lab.net import namespaces

BUSY = 0.8
"""Seconds of load at each negotiation: less than the kernel's limit for real-time classes, 0.95 of each second."""
_ETH_P_ALL = 0x0003

_PROGRAM = f"""
import os, socket, sys, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
packets, last = socket.socket(fileno=int(sys.argv[1])), b""
print(flush=True)
while packet := packets.recv(128):
    ike = packet[48:]  # behind IPv6 and UDP
    ike = ike[4:] if ike[:4] == bytes(4) else ike  # the non-ESP marker
    spi, responder, exchange = ike[:8], ike[8:16], ike[18:19]
    if responder == bytes(8) and exchange == bytes([34]) and spi != last:
        last, end = spi, time.monotonic() + {BUSY}
        while time.monotonic() < end:
            pass
"""
"""Takes each IKE_SA_INIT once, however often it is repeated. That is exchange 34 without a responder's SPI (RFC 7296,
section 3.1)."""


@contextmanager
def at_negotiations(core: int, namespace: str) -> Iterator[None]:
    """Let a real-time program occupy this core for 0.8 s whenever a negotiation begins in a namespace.

    So each set-up meets the load: the packet wakes the program, which runs before the daemons on that core read it.
    """
    with namespaces.within(namespace, _packets) as packets:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), sys.executable, "-c", _PROGRAM, str(packets.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            pass_fds=[packets.fileno()],
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n", "the load did not get its class"
            yield
        finally:
            process.kill()
            process.communicate()


def _packets() -> socket.socket:
    return socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))


def pin(daemon: Daemon, cores: AbstractSet[int]) -> None:
    """Keep all threads of a daemon on these processors; threads that it starts later inherit this."""
    for thread in Path(f"/proc/{daemon.pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cores)
