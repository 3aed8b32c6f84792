"""Find whether RT_GROUP_SCHED applies: then real-time threads need a budget of their control group.

Under v1 the budget is ``cpu.rt_runtime_us``, which is 0 by default. Under v2 there is no budget, and a group with the
controller cpu cannot have real-time threads (cgroup-v2.rst, CPU). Since Linux 6.16 the boot parameter
``rt_group_sched=`` switches it.
"""

import gzip
import platform
import re
from functools import cache
from pathlib import Path

from meshsec.adapters.scheduler.mounts import listed

BUDGET = "cpu.rt_runtime_us"

_TEXT_MAX = 4 * 2**20
"""Limit of a kernel's configuration in bytes; usual are 300,000."""


@cache
def in_force() -> bool:
    """Return whether this kernel has it and a hierarchy with the controller cpu is mounted here.

    Also False if the kernel does not say; then a refused class shows it.
    """
    return found_in(Path("/"), platform.release())


def found_in(root: Path, release: str) -> bool:
    """Return the same for a file system and a kernel's release."""
    mounts = listed(root)
    if old := [mount for mount in mounts if not mount.unified and "cpu" in mount.controllers]:
        return any((mount.point / BUDGET).exists() for mount in old)
    lists = [_text(mount.point / "cgroup.controllers") for mount in mounts if mount.unified]
    if not any("cpu" in controllers.split() for controllers in lists):
        return False
    return _is_on(_text(root / "proc/cmdline"), _configuration(root, release))


def forbid(group: Path) -> bool:
    """Return whether a group cannot have real-time threads: it has the controller cpu and is no root."""
    try:
        return int((group / BUDGET).read_text(encoding="ascii")) == 0
    except (OSError, ValueError):
        return (group / "cpu.weight").exists() and in_force()


def _is_on(command_line: str, configuration: str) -> bool:
    """Return whether it is on, by the boot parameter or else by the kernel's configuration."""
    if not re.search(r"^CONFIG_RT_GROUP_SCHED=y$", configuration, re.MULTILINE):
        return False
    asked = re.findall(r"(?<!\S)rt_group_sched=(\S+)", command_line)
    if asked:
        return not re.match("[nNfF0]|[oO][fF]", asked[-1])  # the values of the kernel's kstrtobool()
    return not re.search(r"^CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y$", configuration, re.MULTILINE)


def _configuration(root: Path, release: str) -> str:
    """Return the kernel's configuration from the places that distributions use; empty without one."""
    try:
        with gzip.open(root / "proc/config.gz", "rt", encoding="ascii", errors="replace") as file:
            return file.read(_TEXT_MAX)
    except (OSError, EOFError):
        places = (root / f"boot/config-{release}", root / f"usr/lib/modules/{release}/config")
        return next(filter(None, map(_text, places)), "")


def _text(path: Path) -> str:
    """Return a file's text; empty without the file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_TEXT_MAX)
    except OSError:
        return ""
