"""Whether /etc/hosts has the names of trusted nodes, for ``meshsec doctor``."""

import os
from pathlib import Path

from meshsec import files
from meshsec.adapters import systemd
from meshsec.adapters.files import hosts_file
from meshsec.adapters.files.config_file import ConfigError
from meshsec.cli import hosts as keeper
from meshsec.cli.app import App
from meshsec.core.explain import names_doctor as judge
from meshsec.core.explain.findings import Check, Level
from meshsec.core.formats.hosts import HostsError

_SWITCH = Path("/etc/nsswitch.conf")
_READ_ONLY = "/etc cannot be written on this system, so they are not in /etc/hosts: `meshsec ssh NAME` reaches a peer"
_MOUNTS = Path("/proc/self/mountinfo")
_SWITCH_LIMIT = 1 << 16
"""Bytes."""


def checks(app: App) -> list[Check]:
    """Return nothing before meshsecd has said which names there are.

    /etc/hosts is the machine's: a node with another run directory is one beside it, and is not examined.
    """
    try:
        names = Path(app.settings.paths.names)
        if names != keeper.NAMES or not files.exists(names):
            return []
        wanted = keeper.lines(names)
        present = hosts_file.parts(hosts_file.HOSTS)
        folder = hosts_file.target(hosts_file.HOSTS).parent
        if present.lines != tuple(wanted) and os.statvfs(folder).f_flag & os.ST_RDONLY:
            return [Check("names", Level.OK, _READ_ONLY)]
    except ConfigError:  # meshsecd has what was in force before, and says so
        return []
    except (files.FileError, HostsError) as error:
        return [Check("names", Level.WARN, str(error), _fix())]
    others = (present.before + present.after).decode(errors="replace")
    return [*judge.applied(wanted, present.lines, _fix()), *judge.overruled(wanted, others), *_switched()]


def _switched() -> list[Check]:
    try:
        return judge.switched(files.read(_SWITCH, _SWITCH_LIMIT)) if files.exists(_SWITCH) else []
    except files.FileError as error:
        return [Check("name service", Level.WARN, str(error), f"let everybody read {_SWITCH}")]


def _fix() -> str:
    """Return what to do, by the reason that is seen from here."""
    if _is_mount(hosts_file.HOSTS):
        return (
            f"{hosts_file.HOSTS} is a mount, as in containers, and cannot be replaced: start the container without it "
            "(podman run --no-hosts), or use `meshsec ssh NAME`"
        )
    if not systemd.is_booted():
        return "as root: meshsec hosts &"
    if not systemd.is_active(judge.UNIT):
        return f"systemctl start {judge.UNIT}"
    return f"`systemctl status {judge.UNIT}` says what is in the way"


def _is_mount(path: Path) -> bool:
    """Return whether something is mounted there (proc_pid_mountinfo(5)); the devices of an overlayfs do not say."""
    mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.split()[4] == str(path) for line in mounts)
