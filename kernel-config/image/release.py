"""An update: the root and the kernel of an image as files, with their signed checksums.

systemd-sysupdate takes them from there (files/usr/lib/sysupdate.d has the same names).
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from image.architecture import Architecture
from image.shell import StepError, run

SUMS = "SHA256SUMS"
_QUIET = ("--batch", "--quiet")


def kernel_name(version: str, wanted: Architecture) -> str:
    """Return the name of a kernel on the first partition and in an update."""
    return f"meshsec_{version}_{wanted.systemd}.efi"


def root_name(version: str, partition: str, wanted: Architecture) -> str:
    """Return the name of a root in an update; ``partition`` is the UUID that the kernel looks for."""
    return f"meshsec_{version}_{partition}_{wanted.systemd}.root"


class Key:
    """The OpenPGP key that signs updates, as gpg has it."""

    def __init__(self, fingerprint: str) -> None:
        self.public = _gpg_output("--export", fingerprint)
        self._fingerprint = fingerprint
        listed = run(["gpg", *_QUIET, "--with-colons", "--list-keys", fingerprint]).splitlines()
        self.created = next(int(line.split(":")[5]) for line in listed if line.startswith("pub:"))
        """Seconds since 1970. Before that moment gpg accepts none of its signatures."""

    def sign(self, path: Path) -> None:
        """Write the signature of ``path`` beside it."""
        target = path.with_name(f"{path.name}.gpg")
        target.unlink(missing_ok=True)
        options: list[str | Path] = ["--local-user", self._fingerprint, "--digest-algo", "SHA512", "--output", target]
        run(["gpg", *_QUIET, *options, "--detach-sign", path])


def _gpg_output(*arguments: str) -> bytes:
    """Return what gpg writes to a file, which may be no text."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "out"
        run(["gpg", *_QUIET, "--output", target, *arguments])
        if not target.exists():
            raise StepError(f"gpg has no key {arguments[-1]}; name one that `gpg --list-secret-keys` lists")
        return target.read_bytes()


@contextmanager
def key(file: Path | None) -> Iterator[Key | None]:
    """Give the key in ``file``, as `gpg --export-secret-keys` wrote it, from a key ring of its own."""
    if file is None:
        yield None
        return
    if file.stat().st_mode & 0o077:
        raise StepError(f"{file} can be read by others; run: chmod 600 {file}")
    ring = tempfile.mkdtemp()
    before = os.environ.get("GNUPGHOME")
    os.environ["GNUPGHOME"] = ring
    try:
        run(["gpg", *_QUIET, "--import", file])
        yield Key(_only_secret_key(file))
    finally:
        run(["gpgconf", "--kill", "all"])
        run(["rm", "-rf", ring])  # The agent removes its sockets meanwhile, which is an error to rmtree.
        if before is None:
            del os.environ["GNUPGHOME"]
        else:
            os.environ["GNUPGHOME"] = before


def _only_secret_key(file: Path) -> str:
    lines = [line.split(":") for line in run(["gpg", *_QUIET, "--with-colons", "--list-secret-keys"]).splitlines()]
    kinds = [line[0] for line in lines if line[0] in {"sec", "fpr"}]
    if kinds.count("sec") != 1:
        raise StepError(f"{file} has {kinds.count('sec')} secret keys, and must have one")
    return next(line[9] for line in lines if line[0] == "fpr")


def make_update(files: dict[str, Path], target: Path, signer: Key) -> None:
    """Make the directory ``target`` of the given files, as hard links; it appears when it is complete."""
    fresh = target.with_name(f"{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    sums = []
    for name, path in files.items():
        with path.open("rb") as file:
            sums.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
        os.link(path, fresh / name)
    (fresh / SUMS).write_text("".join(sums), encoding="ascii")
    signer.sign(fresh / SUMS)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
