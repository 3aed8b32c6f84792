"""Round-robin time slices, as the product's sysctl.d file sets them on a node."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.basics.places import REPOSITORY

FILE = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
PRODUCT = REPOSITORY / "daemon/systemd/sysctl.d/60-meshsec-scheduling.conf"


@contextmanager
def short_slices() -> Iterator[str]:
    """Set them for the time of the block. Yield why this machine does not allow it; empty when it does.

    With slices of 100 ms, a thread of charon that polls sometimes delays all other threads of its class.
    """
    try:
        before = FILE.read_text(encoding="ascii")
        FILE.write_text(wanted(), encoding="ascii")
    except OSError as error:
        yield f"round robin keeps its long slices: {error.strerror}"
        return
    try:
        yield ""
    finally:
        FILE.write_text(before, encoding="ascii")


def wanted() -> str:
    """Return the milliseconds that the product sets."""
    lines = PRODUCT.read_text(encoding="utf-8").splitlines()
    found = next(line for line in lines if line.startswith("kernel.sched_rr_timeslice_ms"))
    return found.partition("=")[2].strip()
