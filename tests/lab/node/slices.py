"""Slices of round robin as the product's sysctl.d file sets them on a node."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.basics.places import REPOSITORY

FILE = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
PRODUCT = REPOSITORY / "daemon/systemd/sysctl.d/60-meshsec-scheduling.conf"


@contextmanager
def short_slices() -> Iterator[str]:
    """For the time of the block. Gives the reason when this machine does not allow it; empty when it does.

    With slices of 100 ms a thread of charon that polls holds up all others of its class, now and then.
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
    """Milliseconds, as the product has them."""
    lines = PRODUCT.read_text(encoding="utf-8").splitlines()
    found = next(line for line in lines if line.startswith("kernel.sched_rr_timeslice_ms"))
    return found.partition("=")[2].strip()
