"""What the guest boots: a Debian 13 root with the locked Python packages, and Debian's RT and ordinary kernels.

``python -m tests.lab.machines.guest_root`` (``make lab-guest``) builds it in build/guest/, in a directory named by a
hash of all that it is made of: the packages, the lock files and the scripts that build it. An interrupted build goes on
with the next step. Downloads are kept, and one process builds while others wait for it.
"""

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.basics.places import BUILD, REPOSITORY
from tests.lab.machines import debian
from tests.lab.machines.guest_kernel import KINDS, Kernel, unpack

CACHE = BUILD / "guest"
SUITE = "trixie"
PACKAGES = (
    *("systemd", "systemd-sysv", "udev", "kmod", "procps", "netbase", "ca-certificates", "openssl"),
    *("charon-systemd", "strongswan-swanctl"),
    *("libstrongswan-standard-plugins", "libstrongswan-extra-plugins", "libcharon-extra-plugins"),
    *("iproute2", "nftables", "iputils-ping", "tcpdump", "iperf3", "ethtool"),
    *("iw", "wpasupplicant", "wireless-regdb"),
    *("dnsmasq-base", "hostapd", "busybox"),
    *("chrony", "rt-tests"),
    *("systemd-container", "gpg"),  # systemd-sysupdate, and what verifies updates
    *("libtss2-esys-3.0.2-0t64", "libtss2-rc0t64", "libtss2-tcti-device0t64", "libtss2-tcti-swtpm0t64"),
    *("python3", "python3-venv"),
)
PROGRAMS = ("mmdebstrap", "unshare", "chroot", "apt-get", "dpkg-deb", "depmod", "mke2fs")
LIBRESWAN = ("bookworm", SUITE)
"""Debian's suites whose libreswan the guest has in /opt/libreswan/SUITE."""
_FORM = "3"
"""Changed when this file builds something else from the same input."""
_SCRIPT = Path(__file__).parent / "scripts" / "build"
_LOCKS = REPOSITORY / "daemon"
_BUILD_SECONDS = 3600
_SPARE_MIB = 2048
"""MiB of free space for what a command in the guest writes. The file is sparse, and the writes are thrown away."""
_INODES = 200_000
_APT_SETTINGS = ("Acquire::http", "Acquire::ftp", "Acquire::Check-", "Acquire::Retries", "Acquire::ForceIPv")
"""Settings of this machine's apt that concern the way to the archive."""


CONTAINED = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""In front of a program that mounts: at its end, no mount and no process is left."""


class BuildError(Exception):
    """A step of the build failed; standard error says why."""


class Built:
    """A root and its kernels, complete."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.image = directory / "root.ext4"

    def kernel(self, kind: str) -> Kernel:
        """Return the kernel of a kind: ``rt`` or ``generic``."""
        return Kernel.of_tree(self.directory / "kernels" / kind)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the root from being removed while the block runs."""
        with (self.directory / "lock").open("a", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            yield


def built(say: Callable[[str], None]) -> Built:
    """Return the root and the kernels; build what is missing and report each step to ``say``. Raises BuildError."""
    debian.decide()
    ready = CACHE / key()
    if not ready.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "lock").open("a", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.exists():
                _build(ready, say)
    return Built(ready)


def key() -> str:
    """Return the hash of what the root is made of."""
    made_of = f"{_FORM} {SUITE} {PACKAGES} {LIBRESWAN} {_commands_of_project()}"
    digest = hashlib.sha256(f"{made_of}{dated()}".encode())
    for path in (_SCRIPT, *sorted(_LOCKS.glob("requirements-*.lock"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def dated() -> str:
    """Return what distinguishes a root of the snapshot from one of this machine's sources."""
    snapshot = debian.chosen()
    return f" {snapshot.date}" if snapshot else ""


def write_apt_settings(path: Path) -> None:
    """Write how this machine's apt reaches the archive, readable by root only, because it may contain a proxy's
    password."""
    settings = _output(["apt-config", "dump"]).splitlines()
    with path.open("w", encoding="utf-8") as file:
        path.chmod(0o600)
        file.write('Acquire::Retries "5";\n')
        file.writelines(f"{line}\n" for line in settings if line.startswith(_APT_SETTINGS))


def sources_of(suite: str) -> str:
    """Return apt's sources for a suite: the snapshot's, or this machine's. Empty where it has none, so that mmdebstrap
    takes Debian's."""
    debian.decide()
    if snapshot := debian.chosen():
        return snapshot.sources(suite)
    listing = _output(["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"])
    suites = {"Debian": suite, "Debian-Security": f"{suite}-security"}
    found = dict.fromkeys(line.rpartition(" ")[::2] for line in listing.splitlines())
    return "".join(f"deb {uri} {suites[label]} main\n" for label, uri in found if label in suites)


_KEY = re.compile(r"[0-9a-f]{16}")


def _build(ready: Path, say: Callable[[str], None]) -> None:
    fresh = CACHE / f"{ready.name}.part"
    fresh.mkdir(exist_ok=True)
    steps = {
        "base": _base,
        "libreswan": _libreswan,
        "python": _python,
        "commands": _commands,
        "kernels": _kernels,
        "image": _image,
    }
    for number, (name, step) in enumerate(steps.items(), 1):
        done = fresh / f"{name}.done"
        if not done.exists():
            say(f"[{number}/{len(steps)}] {step.__doc__}")
            step(fresh)
            done.touch()
    fresh.rename(ready)
    remove_others(ready, _KEY)
    say(f"ready: {ready}")


def _base(fresh: Path) -> None:
    """Debian's packages and kernels"""
    shutil.rmtree(fresh / "kernels", ignore_errors=True)
    with _apt_settings(fresh):
        _run(fresh, "base", SUITE, ",".join(PACKAGES), stdin=sources_of(SUITE))


def _libreswan(fresh: Path) -> None:
    """libreswan of each suite, beside strongSwan"""
    with _apt_settings(fresh):
        for suite in LIBRESWAN:
            _run(fresh, "libreswan", suite, stdin=sources_of(suite))


@contextmanager
def _apt_settings(fresh: Path) -> Iterator[None]:
    write_apt_settings(fresh / "apt.conf")
    try:
        yield
    finally:
        (fresh / "apt.conf").unlink()


def _python(fresh: Path) -> None:
    """the locked Python packages"""
    settings = dict(_pip_settings())
    lent = [
        path for value in settings.values() for path in value.split() if path.startswith("/") and Path(path).exists()
    ]
    _run(fresh, "python", str(_LOCKS), env={**settings, "LENT": " ".join(dict.fromkeys(lent))})


def _commands(fresh: Path) -> None:
    """the project's commands, which run from the tree"""
    environment = fresh / "root" / "opt" / "meshsec"
    (packages,) = environment.glob("lib/python3*/site-packages")
    (packages / "meshsec.pth").write_text("/repository/daemon\n", encoding="ascii")
    information = packages / "meshsec-0.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: meshsec\nVersion: 0\n", encoding="ascii")
    for name, entry in _commands_of_project().items():
        module, _, function = entry.partition(":")
        text = f"#!/opt/meshsec/bin/python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        (environment / "bin" / name).write_text(text, encoding="ascii")
        (environment / "bin" / name).chmod(0o755)


def _commands_of_project() -> dict[str, str]:
    project: dict[str, dict[str, str]] = tomllib.loads((_LOCKS / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    return project["scripts"]


def _kernels(fresh: Path) -> None:
    """the kernels, unpacked"""
    for kind in KINDS:
        (package,) = (fresh / "kernels" / kind).glob("*.deb")
        unpack(package, fresh / "kernels" / kind)


def _image(fresh: Path) -> None:
    """the root as a file system, because each look at a file over 9p costs an emulated guest milliseconds"""
    root, image = fresh / "root", fresh / "root.ext4"
    mebibytes = int(_output(["du", "-sm", str(root)]).split()[0])
    image.unlink(missing_ok=True)
    options = ["-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-N", str(_INODES)]
    _output(["mke2fs", *options, "-d", str(root), str(image), f"{mebibytes + _SPARE_MIB}M"])
    shutil.rmtree(root)


def _pip_settings() -> Iterator[tuple[str, str]]:
    """Yield as environment variables how pip reaches its index on this machine, from its configuration files too."""
    for line in _output([sys.executable, "-m", "pip", "config", "list"]).splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.partition(".")
        if section in {"global", "install", ":env:"}:
            yield f"PIP_{option.upper().replace('-', '_')}", " ".join(shlex.split(value))
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"):
        if place := os.environ.get(name):
            yield name, place


def _output(argv: list[str]) -> str:
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, timeout=600).stdout


def _run(fresh: Path, step: str, *arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> None:
    argv = [*CONTAINED, str(_SCRIPT), str(fresh), step, *arguments]
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(
        argv, cwd=CACHE, input=stdin, env=environment, stdout=sys.stderr, text=True, timeout=_BUILD_SECONDS, check=False
    )
    if done.returncode:
        raise BuildError(f"{_SCRIPT.name} {step}: status {done.returncode}; its output is above")


def remove_others(ready: Path, names: re.Pattern[str]) -> None:
    """Remove former builds beside ``ready``, unless they are in use."""
    for other in ready.parent.iterdir():
        if other == ready or not names.fullmatch(other.name):
            continue
        with (other / "lock").open("a", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(other)


def main() -> int:
    """Build what is lacking; for ``make lab-guest``."""
    try:
        built(lambda text: print(f"guest: {text}", file=sys.stderr, flush=True))
    except BuildError as error:
        print(f"guest: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
