"""Debian nodes with systemd as process 1, each in a network namespace of the lab, for what only a booted system shows.

The root is the guest's (``guest_root``), read-only below what a node writes. Kernel and control-group controllers are
this machine's; the v2 hierarchy may have no controllers.
"""

import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.basics import shell
from tests.lab.basics.patience import patient
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.processes import Daemon
from tests.lab.machines import guest
from tests.lab.machines.guest_root import CONTAINED
from tests.lab.net.namespaces import NETNS, PREFIX
from tests.lab.node.node import Node

_SCRIPT = Path(__file__).parent / "scripts" / "machine"
_PROGRAMS = ("systemd-nspawn", "nsenter", "unshare", "setpriv")
_BOOT_SECONDS = 240.0
_END_SECONDS = 120.0
_ENVIRONMENT = {
    # The node's own hierarchy is v2 in any case: Debian 13 supports no other.
    "UNIFIED_CGROUP_HIERARCHY": "1",
    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
    # The node's own sysctl.d sets what concerns its network.
    "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
}
_OPTIONS = (
    *("--quiet", "--register=no", "--keep-unit", "--boot", "--notify-ready=yes"),
    "--link-journal=no",  # It must not take this machine's ID.
    *("--capability=CAP_NET_ADMIN", "--bind=/dev/net/tun"),
    "--console=pipe",  # Nobody reads a terminal all the time, and a full one would stop the node.
)
_ARGUMENTS = ("systemd.show_status=no", "systemd.mask=console-getty.service")
"""Arguments of the node's systemd."""
_INSIDE = (
    "env",
    "-i",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
)


def obstacle() -> str | None:
    """Return why this machine cannot boot a node, or None."""
    return guest.obstacle() or obstacle_to_boot()


def obstacle_to_boot() -> str | None:
    """Return why this machine cannot boot a node from any root, or None."""
    if missing := [program for program in _PROGRAMS if shutil.which(program) is None]:
        return f"not installed: {' '.join(missing)}"
    known = Path("/proc/filesystems").read_text(encoding="ascii").split()
    if lacking := [name for name in ("overlay", "ext4", "cgroup2") if name not in known]:
        return f"this kernel has no {', '.join(lacking)}"
    if not Path("/dev/loop-control").exists():
        return "this kernel has no loop devices"
    return None if any(unified for _, unified in _hierarchies()) else "no hierarchy of control groups v2 is mounted"


class Machine:
    """A node of the lab that is a booted Debian. Leaving the block ends it and removes its files."""

    def __init__(self, node: Node) -> None:
        """``node``: a node that is not set up; its control socket and charon are reached as usual."""
        self.node = node
        self._directory = node.directory / "machine"
        self._stack = ExitStack()
        self._leader = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            base = stack.enter_context(self._base())
            for name in ("layer", "written", "base", "root"):
                (self._directory / name).mkdir(parents=True)
            self._install(self._directory / "layer")
            groups = stack.enter_context(_own_groups(self.node.namespace))
            daemon = self._daemon(base, groups)
            stack.callback(daemon.kill)
            daemon.start()
            daemon.wait_ready(_BOOT_SECONDS)
            daemon.stop_listening()  # systemd reports each reload.
            self._leader = _first_process(groups)
            self._reach()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def root(self) -> Path:
        """Return the path of the node's file system."""
        return Path(f"/proc/{self._leader}/root")

    def run(
        self, *argv: str, check: bool = True, stdin: str = "", timeout: float = 180
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the node as root. Raises CommandError."""
        return shell.run([*self._enter(), *argv], check=check, stdin=stdin, timeout=timeout)

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        """Return a unit's properties, as systemd reports them."""
        said = self.run("systemctl", "show", unit, f"--property={','.join(properties)}").stdout
        return dict(line.split("=", 1) for line in said.splitlines())

    def pid(self, unit: str) -> int:
        """Return the PID of a service's main process on this machine. Raises ProcessLookupError when there is none."""
        inside = self.show(unit, "MainPID")["MainPID"]
        for pid in self.node.run("ip", "netns", "pids", self.node.namespace).stdout.split():
            if _number_inside(int(pid)) == inside:
                return int(pid)
        raise ProcessLookupError(f"{unit} does not run: see {self.node.logs}")

    def write(self, path: str, text: str) -> None:
        """Write a file of the node and create its directory."""
        self.run("install", "-D", "-m", "0644", "/dev/stdin", path, stdin=text)

    def _enter(self) -> list[str]:
        namespaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--root", "--wd"]
        return ["nsenter", f"--target={self._leader}", *namespaces, "--", *_INSIDE]

    @contextmanager
    def _base(self) -> Iterator[Path]:
        """Yield what the node boots, read-only: a file system's image, or a directory."""
        root = guest.prepare()
        with root.in_use():
            yield root.image

    def _lent(self) -> list[str]:
        """Return further options of nspawn for this node."""
        return [f"--bind-ro={REPOSITORY / 'daemon'}:/repository/daemon"]

    def _install(self, layer: Path) -> None:
        """Do what `make install` does, with the Python packages that the root has."""
        environment = {**os.environ, "DESTDIR": str(layer), "PREFIX": "/usr/local"}
        shell.run([str(REPOSITORY / "tools/install"), "system"], env=environment)
        for name in ("meshsec", "meshsecd", "meshsec-page", "meshsec-radio"):
            (layer / "usr/local/bin" / name).symlink_to(f"/opt/meshsec/bin/{name}")

    def _daemon(self, base: Path, groups: list[Path]) -> Daemon:
        name = self.node.namespace
        places = [f"--machine={name}", f"--hostname={self.node.name}", f"--network-namespace-path={NETNS / name}"]
        # What is tested there is whose niceness it is: that of whoever runs the tests is none of it.
        ordinary = ["nice", "-n", str(-os.nice(0))]
        argv = [*ordinary, *CONTAINED, "--", str(_SCRIPT), str(base), str(self._directory), *map(str, groups), "--"]
        argv += [*_OPTIONS, *places, *self._lent(), *_ARGUMENTS]
        for directory in (self.node.logs, self.node.run_directory):
            directory.mkdir(parents=True, exist_ok=True)
        logs, sockets = self.node.logs, self.node.run_directory
        return Daemon("systemd", name, argv, logs=logs, sockets=sockets, env=_ENVIRONMENT, enters=False)

    def _reach(self) -> None:
        self.node.reach_at(self.root / "run/meshsec")
        self.node.looks["journal.txt"] = [*self._enter(), "journalctl", "--no-pager"]


def _first_process(groups: list[Path]) -> int:
    """Return the PID of the node's process 1 on this machine."""
    (members,) = (path for group in groups for path in group.glob("payload/init.scope/cgroup.procs"))
    return int(members.read_text(encoding="ascii").split()[0])


def _number_inside(pid: int) -> str:
    """Return the PID that a process has inside its node; empty when it has ended or is this machine's."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return ""
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
    return numbers[-1] if len(numbers) > 1 else ""


def _hierarchies() -> list[tuple[Path, bool]]:
    """Return our group in each hierarchy in which nspawn makes groups, and whether that is v2."""
    ours = {}
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, name, path = line.split(":", 2)
        ours[name] = path.lstrip("/")
    found = []
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found.append((Path(point) / ours[""], True))
        elif kind == "cgroup" and "name=systemd" in options.split(","):
            found.append((Path(point) / ours["name=systemd"], False))
    return found


@contextmanager
def _own_groups(name: str) -> Iterator[list[Path]]:
    """Yield empty control groups of that name. At the end all processes in them are killed."""
    hierarchies = _hierarchies()
    for parent, _ in hierarchies:
        for left in parent.glob(f"{PREFIX}*"):
            if not (NETNS / left.name).exists() and not _has_members(left):  # Its lab was killed and swept.
                _remove(left)
    groups = [parent / name for parent, _ in hierarchies]
    try:
        for group in groups:
            group.mkdir()
        yield groups
    finally:
        for group in groups:
            _kill(group)
        for group in groups:
            _remove(group)


def _kill(group: Path) -> None:
    """End all processes in a v2 group and below it; return when they are gone."""
    if not (group / "cgroup.kill").exists():
        return
    (group / "cgroup.kill").write_text("1", encoding="ascii")
    with (group / "cgroup.events").open(encoding="ascii") as events:
        waiting = select.poll()
        waiting.register(events, select.POLLPRI)
        while "populated 1" in events.read():
            if not waiting.poll(patient(_END_SECONDS) * 1000):
                raise TimeoutError(f"{group}: its processes do not end")
            events.seek(0)


def _has_members(group: Path) -> bool:
    """Return whether a process is in a group or below it; it may be in another mount namespace, whose network is
    hidden."""
    return any(members.read_text(encoding="ascii") for members in group.rglob("cgroup.procs"))


def _remove(group: Path) -> None:
    for directory, _, _ in os.walk(group, topdown=False):
        Path(directory).rmdir()
