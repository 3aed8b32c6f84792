"""The first start of a version: it is kept if the node works in time, else the former one starts.

systemd-boot counts the tries of a kernel in its name, `NAME+LEFT-DONE.efi`. Without a number it is kept, and with none
left it is not started. This renames the file itself: systemd-bless-boot needs the firmware's variables, which a
PREEMPT_RT kernel does not offer.
"""

import os
import sys
import time
from pathlib import Path

from meshsec_update import health, machine
from meshsec_update.machine import Image, RefusedError

SECONDS = 75.0
"""From the kernel's start. A processor of 10^9 instructions a second needs 53 s to work. Where a start takes less than
40 s, a version that does not work is left, and the former one works again, within two minutes."""
KEEP, LEAVE = 10, 11
"""Status of `judge`, which has no privileges; its unit's script `verdict` does what it says."""
_PAUSE_SECONDS = 2.0


def kernel(running: Image) -> Path | None:
    """Return the kernel that runs if this is its trial."""
    return next((one for one in machine.kernels(running.version, running.architecture) if machine.tries(one)), None)


def judge() -> int:
    """Wait until this node works, or until the time is over; return KEEP or LEAVE, or 0 when this is no trial."""
    running = machine.image()
    if not os.path.ismount(machine.ESP) or kernel(running) is None:
        return 0
    while wrong := health.problems():
        if _is_over():
            found = "; ".join(wrong)
            print(f"meshsec-update: version {running.version} does not work: {found}", file=sys.stderr)
            return LEAVE
        time.sleep(_PAUSE_SECONDS)
    return KEEP


def keep() -> None:
    """Keep the version that runs."""
    running = machine.image()
    tried = kernel(running)
    if tried is None:
        raise RefusedError(f"version {running.version} is not being tried; see `meshsec-update status`")
    with machine.esp_writable():
        tried.rename(tried.with_name(f"{tried.stem.partition('+')[0]}.efi"))
    print(f"meshsec-update: version {running.version} works and is kept", file=sys.stderr)


def describe(path: Path) -> str:
    """Return the version of a kernel and what became of it."""
    version = path.stem.split("_")[1]
    match machine.tries(path):
        case None:
            return version
        case (0, _):
            return f"{version} (did not work here)"
        case (left, _):
            return f"{version} (is being tried; tries left: {left})"


def _is_over() -> bool:
    """MESHSEC_TRIAL_SECONDS is for machines that start slowly, as emulated ones."""
    seconds = float(os.environ.get("MESHSEC_TRIAL_SECONDS", SECONDS))
    return time.clock_gettime(time.CLOCK_BOOTTIME) > seconds
