"""The disk of a vehicle as the firmware would find it: which version would start, and whether that is whole."""

import hashlib
import json
import random
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab.machines import disk_log
from tests.lab.machines.disk_log import Log

_SECTOR = 512
_MIB = 1 << 20


@dataclass(frozen=True)
class Signed:
    """What a version's files must be."""

    version: str
    root_sha256: str
    root_size: int
    partition: str
    """UUID that the kernel looks for."""
    kernel_sha256: str


def signed(update: Path) -> Signed:
    """Read an update's directory."""
    lines = (update / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    (root,) = (name for name in sums if name.endswith(".root"))
    (kernel,) = (name for name in sums if name.endswith(".efi"))
    _, version, partition, _ = root.split("_")
    return Signed(version, sums[root], (update / root).stat().st_size, partition, sums[kernel])


def kernels(disk: Path) -> list[str]:
    """Return the names of the kernels on the first partition."""
    listed = _said("mdir", "-b", "-i", f"{disk}@@{_MIB}", "::EFI/Linux")
    return [name for name in re.findall(r"::/EFI/Linux/(\S+\.efi)$", listed, re.MULTILINE) if not name.startswith(".")]


def would_start(disk: Path) -> str:
    """Return the kernel that systemd-boot chooses: the newest that has a try left. It passes over empty files."""
    return max(name for name in kernels(disk) if "+0" not in name and _kernel(disk, name))


def faults(disk: Path, kernel: str, wanted: Signed) -> list[str]:
    """Return what of a version is not as it was signed."""
    found = []
    if hashlib.sha256(_kernel(disk, kernel)).hexdigest() != wanted.kernel_sha256:
        found.append(f"{kernel} is not what was signed")
    table = json.loads(_said("sfdisk", "--json", str(disk)))["partitiontable"]["partitions"]
    roots = [one for one in table if one.get("uuid", "").lower() == wanted.partition]
    if len(roots) != 1:
        return [*found, f"partitions {wanted.partition}: {len(roots)}"]
    if _hash(disk, roots[0]["start"] * _SECTOR, wanted.root_size) != wanted.root_sha256:
        found.append(f"the root of {wanted.version} is not what was signed")
    return found


@dataclass(frozen=True)
class Left:
    """What a power cut left."""

    moment: int
    kernel: str
    """What starts."""
    faults: list[str]


def after_cuts(
    disk: Path, log: Log, number: int, chance: random.Random, wanted: Mapping[str, Signed], *, is_flushed: bool = True
) -> list[Left]:
    """Return what cuts left on the disk: one before all that is in the log, one after it, and a number between."""
    moments = [0, len(log.entries), *(chance.randrange(len(log.entries)) for _ in range(number))]
    return [_left(disk, one, wanted) for one in disk_log.cuts(log, moments, chance, disk, is_flushed=is_flushed)]


def _left(disk: Path, moment: int, wanted: Mapping[str, Signed]) -> Left:
    try:
        kernel = would_start(disk)
        return Left(moment, kernel, faults(disk, kernel, wanted[version_of(kernel)]))
    except (subprocess.CalledProcessError, ValueError) as error:
        return Left(moment, "", [f"the disk cannot be read: {error}"])


def version_of(kernel: str) -> str:
    """Return the version that a kernel's name has."""
    return kernel.split("_")[1]


def _kernel(disk: Path, name: str) -> bytes:
    return _read("mtype", "-i", f"{disk}@@{_MIB}", f"::EFI/Linux/{name}")


def _hash(disk: Path, start: int, size: int) -> str:
    digest = hashlib.sha256()
    with disk.open("rb") as file:
        file.seek(start)
        while size:
            block = file.read(min(_MIB, size))
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()


def _said(*argv: str) -> str:
    return _read(*argv).decode(errors="replace")


def _read(*argv: str) -> bytes:
    environment = {"MTOOLS_SKIP_CHECK": "1", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(argv, capture_output=True, env=environment, check=True).stdout
