"""``backup`` and ``restore``: a node is in one file that nobody reads without its passphrase, and comes back whole."""

import io
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyrage.passphrase as age_elsewhere
import pytest
from click.testing import CliRunner

from cli.saved_node import PASSPHRASE, SAE, Meshsec, elsewhere, emptied, resealed, restored, saved, state
from meshsec import files
from meshsec.adapters import systemd
from meshsec.adapters.files import replaced_units
from meshsec.cli import main
from meshsec.cli import restoring as command
from meshsec.core.formats import age

__all__ = ["elsewhere", "saved"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root reads and writes a node's key")


def test_what_is_about_the_machine_is_neither_kept_nor_replaced(saved: Path, meshsec: Meshsec, tmp_path: Path) -> None:
    record = replaced_units.path(tmp_path / "a/state")
    beside = record.with_name("lives")
    for path in (record, beside):
        path.write_text("of another machine")
    assert meshsec("restore", str(saved), "--replace", "--passphrase-stdin", input=PASSPHRASE).exit_code == 0
    assert record.exists()
    assert not beside.exists(), "what is the node's is replaced"
    assert meshsec("backup", str(tmp_path / "two.age"), "--passphrase-stdin", input=PASSPHRASE).exit_code == 0
    record.unlink()
    assert (
        meshsec("restore", str(tmp_path / "two.age"), "--replace", "--passphrase-stdin", input=PASSPHRASE).exit_code
        == 0
    )
    assert not record.exists()


def test_a_lost_node_comes_back_whole(saved: Path, meshsec: Meshsec, tmp_path: Path) -> None:
    before, card = state(tmp_path), meshsec("key", "show").output
    emptied(tmp_path)
    shutil.rmtree(tmp_path / "credstore")
    done = restored(meshsec, saved, "--directory", str(tmp_path / "a"))
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
    with (tmp_path / "a/meshsec.toml").open("a") as file:
        file.write("[nonsense]\n")
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


def test_a_file_elsewhere_is_not_written(saved: Path, meshsec: Meshsec, tmp_path: Path) -> None:
    emptied(tmp_path)
    resealed(saved, lambda members: members.update({"etc/cron.d/meshsec-test": b"x"}))
    refused = restored(meshsec, saved, "--directory", str(tmp_path / "a"))
    assert "which is no file of its node; allowed: files of " in refused.output
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
    assert f"{saved}: exists, and a backup replaces no file; choose another name" in refused.output
    assert saved.read_bytes() == before


def test_a_backup_that_cannot_be_written_names_file_and_command(meshsec: Meshsec, tmp_path: Path) -> None:
    file = tmp_path / "not mounted/node.age"
    refused = meshsec("backup", str(file), "--passphrase-stdin", input=PASSPHRASE)
    assert refused.exit_code == 1
    assert f"{file}: No such file or directory; nothing was changed; `meshsec backup`" in refused.output
