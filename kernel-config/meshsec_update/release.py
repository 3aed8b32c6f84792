"""An update in a directory: what its signed checksums promise, and whether its files keep it."""

import hashlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from meshsec_update import machine
from meshsec_update.machine import Image, RefusedError

SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.gpg"
KEYRING = Path("/etc/systemd/import-pubring.gpg")
LIMIT = 1 << 16
"""Bytes of a list of checksums, or of its signature, at most."""
_CLOCK = "(time warp or clock problem)"
"""What gpg says about a key that is made in the future."""
_LINE = re.compile(r"([0-9a-f]{64})  (meshsec_([0-9A-Za-z.~^-]+?)(?:_([0-9a-f-]{36}))?_([a-z0-9-]+)\.(root|efi))")


@dataclass(frozen=True)
class File:
    """One file of an update."""

    name: str
    sha256: str
    version: str
    architecture: str


@dataclass(frozen=True)
class Release:
    """The files for one architecture."""

    version: str
    root: File
    kernel: File

    @property
    def files(self) -> tuple[File, File]:
        """In the order in which they are written: what the last one starts is there by then."""
        return self.root, self.kernel


def read(directory: Path, running: Image, keyring: Path = KEYRING) -> Release:
    """Return what is promised for this machine; raises RefusedError for what was not signed or is for others."""
    if not keyring.exists():
        raise RefusedError(
            "this image was built without a key, so it trusts no update; build one: make image KEY_FILE=FILE"
        )
    sums = _small(directory / SUMS)
    _verify(sums, _small(directory / SIGNATURE), directory / SUMS, keyring)
    files = [_file(line, directory / SUMS) for line in sums.decode("ascii", "replace").splitlines()]
    versions = {file.version for file in files}
    if len(versions) != 1:
        raise RefusedError(f"{directory / SUMS}: versions {', '.join(sorted(versions)) or 'none'}; one is allowed")
    mine = {file.name.rpartition(".")[2]: file for file in files if file.architecture == running.architecture}
    if set(mine) != {"root", "efi"}:
        others = ", ".join(sorted({file.architecture for file in files}))
        raise RefusedError(f"{directory}: the update is for {others}; this machine is {running.architecture}")
    return Release(versions.pop(), mine["root"], mine["efi"])


def need_newer(release: Release, running: Image, *, again: bool = False) -> None:
    """Raise RefusedError unless the update is newer than every version on the disk, as ``why_not`` says."""
    if why := why_not(release.version, running, again=again):
        raise RefusedError(why)


def why_not(version: str, running: Image, *, again: bool = False) -> str | None:
    """Return why a version is not taken: another on the disk is as new. None for one that is newer than all.

    An older version would replace one that waits for its trial. If it replaced one that failed, this node would forget
    the failure and take that version once more. ``again`` allows a version that waits or failed here.
    """
    if version == running.version:
        return f"version {version} is what runs"
    others = machine.present(running.architecture)
    if version in others and not again:
        return f"version {version} is here already: {others[version].name}"
    fates = {running.version: "runs"} | {
        other: _fate(kernel) for other, kernel in others.items() if other not in {version, running.version}
    }
    for other, fate in fates.items():
        if not machine.is_newer(version, other):
            return f"version {version} is older than {other}, which {fate}; only a newer one is taken"
    return None


def _fate(kernel: Path) -> str:
    match machine.tries(kernel):
        case None:
            return "is on the disk"
        case (0, _):
            return "did not work here"
        case _:
            return "waits for its trial"


def check_content(directory: Path, release: Release) -> None:
    """Read all files and raise RefusedError for one that is not what was signed."""
    for file in release.files:
        path = directory / file.name
        if not path.is_file():
            raise RefusedError(f"{path}: missing; copy the whole directory again")
        with path.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        if found != file.sha256:
            size = path.stat().st_size
            raise RefusedError(f"{path}: its {size} bytes are not what was signed: truncated or changed; copy it again")


def _small(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LIMIT + 1)
    except OSError as error:
        raise RefusedError(f"{path}: {error.strerror}; an update is a directory that `make image` writes") from None
    if len(content) > LIMIT:
        raise RefusedError(f"{path}: more than {LIMIT} bytes; an update's has a few hundred")
    return content


def _verify(sums: bytes, signature: bytes, path: Path, keyring: Path) -> None:
    with tempfile.TemporaryDirectory() as home:
        detached = Path(home) / SIGNATURE
        detached.write_bytes(signature)
        options = ["--no-options", "--no-default-keyring", "--no-auto-key-locate", "--no-auto-check-trustdb", "--batch"]
        options += ["--trust-model=always", f"--homedir={home}", f"--keyring={keyring}", "--verify"]
        done = subprocess.run(
            ["gpg", *options, str(detached), "-"],
            input=sums,
            capture_output=True,
            env=os.environ | {"LC_ALL": "C"},
            check=False,
        )
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().splitlines()
        if any(_CLOCK in line for line in why):
            now = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
            raise RefusedError(
                f"{path}: this machine's clock says {now} UTC, when the key that signed it was not made yet; "
                "set the clock, and repeat: date --utc --set 'YYYY-MM-DD HH:MM'"
            )
        raise RefusedError(f"{path}: not signed by the key of this image: {why[-1] if why else 'gpg says nothing'}")


def _file(line: str, path: Path) -> File:
    match = _LINE.fullmatch(line)
    if match is None:
        raise RefusedError(f"{path}: {line!r}: not a checksum and a file of an update")
    sha256, name, version, partition, architecture, kind = match.groups()
    if (kind == "root") != (partition is not None):
        raise RefusedError(f"{path}: {name!r}: a root names its partition, a kernel does not")
    return File(name, sha256, version, architecture)
