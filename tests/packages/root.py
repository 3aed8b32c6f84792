"""A bare Debian of a release in a directory of its own, which gets packages only from local repositories."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.basics import shell
from tests.lab.machines import fleet_repository, fleet_root

OURS = "srv/meshsec"
_POOL = "srv/debian"
_SECONDS = 400.0
"""For what takes half a minute on two free cores."""
_SCRIPT = (
    'mount -t proc proc "$1/proc"; mount --bind "$2" "$1/$3"; root=$1; shift 3; '
    "exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "
    'chroot "$root" "$@"'
)
POOL_SOURCE, _OUR_SOURCE = (f"deb [trusted=yes allow-insecure=yes] file:/{place} ./\n" for place in (_POOL, OURS))
"""Lines of ``sources.list``."""


class Root:
    """A root whose programs have no network and see no process of this machine."""

    def __init__(self, directory: Path, pool: Path) -> None:
        self.directory = directory
        self._pool = pool

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program in the root, as root. Raises CommandError."""
        contained = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child"]
        inside = ["sh", "-ec", _SCRIPT, "sh", str(self.directory), str(self._pool), _POOL, *argv]
        return shell.run([*contained, *inside], check=check, timeout=_SECONDS)

    def offer(self, packages: Iterable[Path]) -> None:
        """Replace our repository's packages by these, and have apt read it."""
        repository = self.directory / OURS
        shutil.rmtree(repository, ignore_errors=True)
        repository.mkdir(parents=True)
        for package in packages:
            shutil.copy(package, repository)
        (repository / "Packages").write_bytes(fleet_repository.scan(repository))
        self.run("apt-get", "-qq", "update")

    def apt(self, *arguments: str) -> str:
        """Run apt-get without questions and recommendations. Return its output."""
        return self.run("apt-get", "-q", "-y", "--no-install-recommends", *arguments).stdout

    def path(self, name: str) -> Path:
        """Return the path of a file of the root from its absolute name inside."""
        return self.directory / name.lstrip("/")

    def named(self, *words: str) -> set[str]:
        """Return the files whose names have one of ``words``, outside of the package management's directories."""
        found = set()
        for directory, folders, files in os.walk(self.directory):
            place = "/" + os.path.relpath(directory, self.directory)
            if place in {"/var/lib/dpkg", "/var/lib/apt/lists", "/srv"}:
                folders.clear()
                continue
            found |= {f"{place}/{name}" for name in (*folders, *files) if any(word in name for word in words)}
        return found


@contextmanager
def bare(suite: str, directory: Path) -> Iterator[Root]:
    """Make a root of its own for each test and delete it afterwards."""
    debian = fleet_root.built(suite, print)
    with debian.in_use() as base:
        try:
            shell.run(["cp", "-a", "--reflink=auto", f"{base}/.", str(directory)], timeout=_SECONDS)
            (directory / _POOL).mkdir(parents=True)
            (directory / "etc/apt/sources.list").write_text(_OUR_SOURCE + POOL_SOURCE, encoding="ascii")
            # A node of the fleet has no documentation, an operator's does.
            for settings in (directory / "etc/dpkg/dpkg.cfg.d").iterdir():
                settings.unlink()
            (directory / "etc/apt/apt.conf.d/90test").write_text('APT::Sandbox::User "root";\n', encoding="ascii")
            yield Root(directory, debian.pool)
        finally:
            shutil.rmtree(directory)
