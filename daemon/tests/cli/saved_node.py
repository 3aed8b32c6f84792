"""A node that is saved in a file, and the same file after somebody has changed it. For the tests of both commands."""

import io
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import Result

from meshsec.adapters.files import credential
from meshsec.cli import backup
from meshsec.core.formats import age

Meshsec = Callable[..., Result]
PASSPHRASE = "six random words are a passphrase\n"  # noqa: S105
SAE = b"password of the mesh\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine's own files be in ``tmp_path``, and scrypt be cheap."""
    monkeypatch.setattr(age, "WORK", 10)
    monkeypatch.setattr(credential, "STORE", tmp_path / "credstore")
    monkeypatch.setattr(backup, "OVERLAY", tmp_path / "overlayd/overlayd.toml")


@pytest.fixture
def saved(meshsec: Meshsec, boat: Meshsec, tmp_path: Path) -> Path:
    """Give the backup of a node that trusts ``boat`` and has a password."""
    credential.store(credential.SAE_PASSWORD, SAE.strip())
    card = next(line.split()[-1] for line in boat("key", "show").output.splitlines() if line.startswith("card"))
    assert meshsec("peer", "add", "boat", card).exit_code == 0
    done = meshsec("backup", str(tmp_path / "node.age"), "--passphrase-stdin", input=PASSPHRASE)
    assert done.exit_code == 0, done.output
    return tmp_path / "node.age"


def state(tmp_path: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and mode of each file of the node."""
    places = (tmp_path / "a", tmp_path / "credstore", tmp_path / "overlayd")
    paths = sorted(path for place in places for path in place.rglob("[!.]*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mode & 0o7777) for path in paths}


def emptied(tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").mkdir()


def restored(meshsec: Meshsec, saved: Path, *options: str) -> Result:
    """Restore a node. Its directory is none of those that are meshsec's on every machine."""
    return meshsec("restore", str(saved), *options, "--passphrase-stdin", input=PASSPHRASE)


def resealed(
    saved: Path, change: Callable[[dict[str, bytes]], object], further: Iterable[tarfile.TarInfo] = ()
) -> None:
    """Write the backup again after a change of its members, with further ones that have no content."""
    packed = io.BytesIO(age.decrypt(saved.read_bytes(), PASSPHRASE.strip()))
    with tarfile.open(fileobj=packed) as archive:
        members = {one.name: read.read() for one in archive if (read := archive.extractfile(one))}
    change(members)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:xz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
        for member in further:
            archive.addfile(member)
    saved.write_bytes(age.encrypt(made.getvalue(), PASSPHRASE.strip(), os.urandom(age.RANDOM_LENGTH)))
