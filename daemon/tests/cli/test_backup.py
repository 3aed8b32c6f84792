"""``backup`` and ``restore``: a node is in one file that nobody reads without its passphrase, and comes back whole."""

import io
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyrage.passphrase as age_elsewhere
import pytest
from click.testing import CliRunner, Result

from meshsec import files
from meshsec.adapters import systemd
from meshsec.adapters.files import credential
from meshsec.cli import backup as command
from meshsec.cli import main
from meshsec.core.formats import age

Meshsec = Callable[..., Result]
PASSPHRASE = "six random words are a passphrase\n"  # noqa: S105
SAE = b"password of the mesh\n"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root reads and writes a node's key")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine's own files be in ``tmp_path``, and scrypt be cheap."""
    monkeypatch.setattr(age, "WORK", 10)
    monkeypatch.setattr(credential, "STORE", tmp_path / "credstore")
    monkeypatch.setattr(command, "OVERLAY", tmp_path / "overlayd/overlayd.toml")


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


def test_a_lost_node_comes_back_whole(saved: Path, meshsec: Meshsec, tmp_path: Path) -> None:
    before, card = state(tmp_path), meshsec("key", "show").output
    shutil.rmtree(tmp_path / "a")
    shutil.rmtree(tmp_path / "credstore")
    (tmp_path / "a").mkdir()
    done = meshsec("restore", str(saved), "--passphrase-stdin", input=PASSPHRASE)
    assert done.exit_code == 0, done.output
    assert "this machine is rescue-1" in done.output
    assert state(tmp_path) == before
    assert meshsec("key", "show").output == card
    assert (tmp_path / "credstore").stat().st_mode & 0o777 == 0o700


def test_the_file_shows_nothing_and_opens_without_meshsec(saved: Path, tmp_path: Path) -> None:
    sealed = saved.read_bytes()
    assert saved.stat().st_mode & 0o777 == 0o600
    packed = age_elsewhere.decrypt(sealed, PASSPHRASE.strip())
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        names = archive.getnames()
        key = archive.extractfile(str(tmp_path / "a/state/node.key").lstrip("/"))
        assert key
        assert key.read() == (tmp_path / "a/state/node.key").read_bytes()
    assert [Path(name).name for name in names if "peers" in name] == ["boat.card"]
    assert not any(word in sealed for word in (b"rescue-1", b"BEGIN PRIVATE KEY", SAE.strip()))


def test_restore_over_a_node_needs_a_word_and_leaves_what_was_saved(
    saved: Path, meshsec: Meshsec, tmp_path: Path
) -> None:
    wanted = state(tmp_path)
    (tmp_path / "a/peers/late.card").write_bytes((tmp_path / "a/peers/boat.card").read_bytes())
    (tmp_path / "a/meshsec.toml").write_text("broken")
    (tmp_path / "a/letter.txt").write_text("somebody's")
    changed = state(tmp_path)
    refused = meshsec("restore", str(saved), "--passphrase-stdin", input=PASSPHRASE)
    assert refused.exit_code == 1
    assert "node.key exists" in refused.output
    assert "--replace" in refused.output
    assert state(tmp_path) == changed
    done = meshsec("restore", str(saved), "--replace", "--passphrase-stdin", input=PASSPHRASE)
    assert done.exit_code == 0, done.output
    assert "late.card: removed" in done.output
    assert (tmp_path / "a/letter.txt").read_text() == "somebody's", "what is beside the configuration stays"
    (tmp_path / "a/letter.txt").unlink()
    assert state(tmp_path) == wanted


def emptied(tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").mkdir()


@pytest.mark.parametrize(
    ("spoil", "passphrase", "said"),
    [
        (lambda sealed: sealed, "another passphrase\n", "another passphrase"),
        (lambda sealed: sealed[:-1], PASSPHRASE, "cut or changed"),
        (lambda _: b"", PASSPHRASE, "is no age file"),
        (lambda _: bytes(command._LIMIT + 1), PASSPHRASE, "longer than"),
        (lambda _: age.encrypt(b"node", PASSPHRASE.strip(), bytes(age.RANDOM_LENGTH)), PASSPHRASE, "no backup"),
    ],
)
def test_a_bad_file_changes_nothing(  # noqa: PLR0917  # fixtures and parameters
    saved: Path, meshsec: Meshsec, tmp_path: Path, spoil: Callable[[bytes], bytes], passphrase: str, said: str
) -> None:
    emptied(tmp_path)
    saved.write_bytes(spoil(saved.read_bytes()))
    before = state(tmp_path)
    refused = meshsec("restore", str(saved), "--passphrase-stdin", input=passphrase)
    assert refused.exit_code == 1
    assert str(saved) in refused.output
    assert said in refused.output
    assert state(tmp_path) == before


def resealed(saved: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """Write the backup again after a change of its members."""
    packed = io.BytesIO(age.decrypt(saved.read_bytes(), PASSPHRASE.strip()))
    with tarfile.open(fileobj=packed) as archive:
        members = {one.name: read.read() for one in archive if (read := archive.extractfile(one))}
    change(members)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:xz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    saved.write_bytes(age.encrypt(made.getvalue(), PASSPHRASE.strip(), os.urandom(age.RANDOM_LENGTH)))


def test_a_file_elsewhere_is_not_written(saved: Path, meshsec: Meshsec, tmp_path: Path) -> None:
    emptied(tmp_path)
    for name in ("etc/cron.d/meshsec-test", str(tmp_path / "a/../b").lstrip("/")):
        resealed(saved, lambda members, name=name: members.update({name: b"x"}))  # type: ignore[misc]
        refused = meshsec("restore", str(saved), "--passphrase-stdin", input=PASSPHRASE)
        assert "which is no file of its node" in refused.output
        assert not any((tmp_path / "a").iterdir())
    assert not Path("/etc/cron.d/meshsec-test").exists()


def test_a_configuration_that_is_refused_is_not_restored(saved: Path, meshsec: Meshsec, tmp_path: Path) -> None:
    emptied(tmp_path)
    config = tmp_path / "a/meshsec.toml"
    resealed(saved, lambda members: members.update({str(config).lstrip("/"): b"[node]\nname = 7\n"}))
    refused = meshsec("restore", str(saved), "--passphrase-stdin", input=PASSPHRASE)
    assert refused.exit_code == 1
    assert f"{config}:2: node.name" in refused.output
    assert not any((tmp_path / "a").iterdir())


def test_a_backup_of_another_place_names_the_command(saved: Path, tmp_path: Path) -> None:
    there = ["--config", str(tmp_path / "b/meshsec.toml"), "restore", str(saved), "--passphrase-stdin"]
    refused = CliRunner().invoke(main, there, input=PASSPHRASE)
    assert f"meshsec --config {tmp_path / 'a/meshsec.toml'} restore" in refused.output


def test_a_full_disk_changes_nothing(
    saved: Path, meshsec: Meshsec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(tmp_path)
    written: list[Path] = []

    def full(path: Path, content: bytes, mode: int, *, replace: bool = True) -> None:
        if len(written) == 3:
            raise files.FileError(f"{path}: No space left on device")
        written.append(path)
        path.write_bytes(content)

    monkeypatch.setattr(files, "write", full)
    refused = meshsec("restore", str(saved), "--replace", "--passphrase-stdin", input=PASSPHRASE)
    assert refused.exit_code == 1
    assert "No space left" in refused.output
    assert len(written) == 3
    assert state(tmp_path) == before


def test_a_running_node_is_not_replaced(
    saved: Path, meshsec: Meshsec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(tmp_path)
    monkeypatch.setattr(systemd, "is_booted", lambda: True)
    monkeypatch.setattr(systemd, "is_active", lambda unit: unit == "meshsec.target")
    refused = meshsec("restore", str(saved), "--replace", "--passphrase-stdin", input=PASSPHRASE)
    assert refused.exit_code == 1
    assert "`systemctl stop meshsec.target` first" in refused.output
    assert state(tmp_path) == before


@pytest.mark.parametrize("passphrase", ["", "elevenchars", "x" * 1025])
def test_a_weak_passphrase_is_refused(meshsec: Meshsec, tmp_path: Path, passphrase: str) -> None:
    refused = meshsec("backup", str(tmp_path / "node.age"), "--passphrase-stdin", input=f"{passphrase}\n")
    assert refused.exit_code == 1
    assert "allowed: 12 to 1024" in refused.output
    assert not (tmp_path / "node.age").exists()


def test_a_backup_is_never_overwritten(saved: Path, meshsec: Meshsec) -> None:
    before = saved.read_bytes()
    refused = meshsec("backup", str(saved), "--passphrase-stdin", input=PASSPHRASE)
    assert refused.exit_code == 1
    assert str(saved) in refused.output
    assert saved.read_bytes() == before
