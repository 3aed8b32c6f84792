"""RT_GROUP_SCHED: a kernel that has it refuses real-time threads to control groups without a budget for them.

Under v1 the budget is ``cpu.rt_runtime_us``, which is 0 until somebody gives it. Under v2 there is none to give: a
group for which the controller cpu is on has no real-time threads (cgroup-v2.rst, CPU). From Linux 6.16 on the
parameter ``rt_group_sched=`` switches it when the kernel starts.
"""

import gzip
import platform
import re
from functools import cache
from pathlib import Path

from meshsec.adapters.scheduler.mounts import listed

BUDGET = "cpu.rt_runtime_us"

_TEXT_MAX = 4 * 2**20
"""Octets of a kernel's configuration; usual are 300 000."""


@cache
def in_force() -> bool:
    """Whether this kernel has it, and a hierarchy with the controller cpu is mounted here for it to matter.

    False too where the kernel does not tell: it then shows when a class is refused.
    """
    return found_in(Path("/"), platform.release())


def found_in(root: Path, release: str) -> bool:
    """The same for a file system and a kernel's release."""
    mounts = listed(root)
    if old := [mount for mount in mounts if not mount.unified and "cpu" in mount.controllers]:
        return any((mount.point / BUDGET).exists() for mount in old)
    told = [_text(mount.point / "cgroup.controllers") for mount in mounts if mount.unified]
    if not any("cpu" in controllers.split() for controllers in told):
        return False
    return _is_on(_text(root / "proc/cmdline"), _configuration(root, release))


def forbid(group: Path) -> bool:
    """Whether a group that has the controller cpu, and is not the root of its hierarchy, has no real-time threads."""
    try:
        return int((group / BUDGET).read_text(encoding="ascii")) == 0
    except (OSError, ValueError):
        return (group / "cpu.weight").exists() and in_force()


def _is_on(command_line: str, configuration: str) -> bool:
    """By the kernel's parameter, else by what it was built with."""
    if not re.search(r"^CONFIG_RT_GROUP_SCHED=y$", configuration, re.MULTILINE):
        return False
    asked = re.findall(r"(?<!\S)rt_group_sched=(\S+)", command_line)
    if asked:
        return not re.match("[nNfF0]|[oO][fF]", asked[-1])  # as kstrtobool() of the kernel reads it
    return not re.search(r"^CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y$", configuration, re.MULTILINE)


def _configuration(root: Path, release: str) -> str:
    """Where kernels and distributions leave it; empty when nowhere."""
    try:
        with gzip.open(root / "proc/config.gz", "rt", encoding="ascii", errors="replace") as file:
            return file.read(_TEXT_MAX)
    except (OSError, EOFError):
        places = (root / f"boot/config-{release}", root / f"usr/lib/modules/{release}/config")
        return next(filter(None, map(_text, places)), "")


def _text(path: Path) -> str:
    """Empty when there is no such file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_TEXT_MAX)
    except OSError:
        return ""
