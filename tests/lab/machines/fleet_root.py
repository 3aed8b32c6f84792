"""What a node of the test fleet boots: a bare Debian with sshd and python3, and what its mirror offers.

``python -m tests.lab.machines.fleet_root`` builds both in build/fleet/, for each release in a directory named by a hash
of what it is made of. A build that was interrupted begins again; one process builds while others wait for it.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.basics.places import REPOSITORY
from tests.lab.machines import debian
from tests.lab.machines.fleet_repository import scan
from tests.lab.machines.guest_root import CONTAINED, BuildError, dated, remove_others, sources_of, write_apt_settings

CACHE = REPOSITORY / "build" / "fleet"
SUITES = ("trixie", "bookworm")
"""The releases that a node may have."""
PREINSTALLED = ("systemd", "systemd-sysv", "openssh-server", "python3")
"""The packages that an operator finds on a bare machine, besides Debian's required packages."""
OFFERED = (
    *("charon-systemd", "strongswan-swanctl", "libcharon-extra-plugins"),
    *("libstrongswan-standard-plugins", "libstrongswan-extra-plugins"),
    *("iproute2", "nftables", "iputils-ping", "procps", "kmod", "ethtool", "tcpdump", "apparmor"),
    *("iw", "wpasupplicant", "wireless-regdb", "hostapd", "dnsmasq-base"),
    *("libsodium23", "chrony", "python3-apt", "python3-cryptography", "sudo", "dbus", "ca-certificates"),
    "zsh",  # A package's test needs it for completions.
)
"""The packages that the mirror has besides, with all their dependencies."""
OFFERED_INSTEAD = ("libreswan",)
"""Packages that conflict with those, for a test that wants them instead."""
PROGRAMS = ("mmdebstrap", "unshare", "setpriv", "apt-get", "dpkg-scanpackages")
_FORM = "1"
"""Changed when this file builds something else from the same input."""
_BUILD_SECONDS = 1800
_FETCH = (
    'APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -q -y --download-only -o Dir::Cache::archives="$PWD/pool/" install'
)
_HOOKS = (
    'rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/apt/sources.list "$1"/etc/resolv.conf',
    'rm -f "$1"/etc/ssh/ssh_host_*',  # Each node has its own.
    'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin',
)
"""Shell commands of mmdebstrap, for which $1 is the root."""


@dataclass(frozen=True)
class Recipe:
    """What is built for each release."""

    kind: str
    """Prefix of the directory's name, before the release."""
    preinstalled: tuple[str, ...]
    """Packages besides Debian's required ones."""
    offered: tuple[tuple[str, ...], ...]
    """Packages that the mirror has besides, with their dependencies; those that conflict are in separate tuples."""
    hooks: tuple[str, ...] = ()
    """Shell commands of mmdebstrap that finish the root."""

    def all_hooks(self) -> tuple[str, ...]:
        """Return all hooks: those that fetch packages, the common ones and the recipe's own."""
        return (*(f"{_FETCH} {' '.join(packages)}" for packages in self.offered), *_HOOKS, *self.hooks)

    def key(self, suite: str) -> str:
        """Return the hash of what the root is made of."""
        return hashlib.sha256(f"{_FORM} {suite} {self.preinstalled} {self.all_hooks()}{dated()}".encode()).hexdigest()[
            :16
        ]


NODE = Recipe("", PREINSTALLED, (OFFERED, OFFERED_INSTEAD))
"""A node of the fleet, which runs on this machine's kernel."""


class Bare:
    """The root of one release and its packages, complete."""

    def __init__(self, suite: str, directory: Path) -> None:
        self.suite = suite
        self._directory = directory
        self.root = directory / "root"
        self.pool = directory / "pool"
        """Debian's packages and their index."""

    @contextmanager
    def in_use(self) -> Iterator[Path]:
        """Yield the root, which nobody removes while the block runs."""
        with (self._directory / "lock").open("a", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            yield self.root


def obstacle() -> str | None:
    """Return why this machine cannot build such a root, or None."""
    if os.geteuid() != 0:
        return "a node's root is built by root"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"not installed: {' '.join(missing)}" if missing else None


def built(suite: str, say: Callable[[str], None], recipe: Recipe = NODE) -> Bare:
    """Return the root of a release; build it first where it is missing, and report progress to ``say``. Raises
    BuildError."""
    debian.decide()
    name = f"{recipe.kind}{suite}"
    ready = CACHE / f"{name}-{recipe.key(suite)}"
    if not ready.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / f"{name}.lock").open("a", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.exists():
                say(f"building a bare {suite} in {ready}")
                _build(suite, ready, CACHE / f"{name}.part", recipe)
                remove_others(ready, re.compile(rf"{name}-[0-9a-f]{{16}}"))
    return Bare(suite, ready)


def _build(suite: str, ready: Path, fresh: Path, recipe: Recipe) -> None:
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / "pool/partial").mkdir(parents=True)
    write_apt_settings(fresh / "apt.conf")
    try:
        done = subprocess.run(
            [*CONTAINED, "--", *_mmdebstrap(suite, fresh, recipe)],
            cwd=fresh,
            input=sources_of(suite),
            text=True,
            stdout=sys.stderr,
            timeout=_BUILD_SECONDS,
            check=False,
        )
    finally:
        (fresh / "apt.conf").unlink()
    if done.returncode:
        raise BuildError(f"a bare {suite}: mmdebstrap: status {done.returncode}; its output is above")
    shutil.rmtree(fresh / "pool/partial")
    (fresh / "pool/lock").unlink(missing_ok=True)
    (fresh / "pool/Packages").write_bytes(scan(fresh / "pool"))
    fresh.rename(ready)


def _mmdebstrap(suite: str, fresh: Path, recipe: Recipe) -> list[str]:
    options = ["APT::Install-Recommends", "false"], ["APT::Sandbox::User", "root"]
    return [
        *("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--format=directory"),
        f"--aptopt={fresh / 'apt.conf'}",
        *(f'--aptopt={name} "{value}"' for name, value in options),
        *("--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/man/*"),
        *("--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/doc/*"),
        *(f"--customize-hook={hook}" for hook in recipe.all_hooks()),
        f"--include={','.join(recipe.preinstalled)}",
        *(suite, str(fresh / "root"), "-"),
    ]


def main() -> int:
    """Build what is missing."""
    try:
        for suite in SUITES:
            built(suite, lambda text: print(f"fleet: {text}", file=sys.stderr, flush=True))
    except BuildError as error:
        print(f"fleet: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
