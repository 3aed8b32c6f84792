"""``meshsec key seal`` and what else reads or destroys sealed keys: backup, restore, doctor, zeroize."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from meshsec.adapters import systemd
from meshsec.adapters.files import destroying, key_store, secret_file, systemd_creds
from meshsec.cli import key_sealing
from meshsec.core.formats import age
from tests.lab.machines import tpm

Meshsec = Callable[..., Result]
PASSPHRASE = "six random words are a passphrase\n"  # noqa: S105

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root reads and writes a node's key")
needs_tpm = pytest.mark.skipif(tpm.obstacle() is not None, reason=f"a software TPM is needed: {tpm.obstacle()}")


@pytest.fixture
def key(tmp_path: Path, meshsec: Meshsec, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the node be the machine's own, and return its key."""
    assert meshsec("key", "show").exit_code == 0
    memory = tmp_path / "memory"
    memory.mkdir(mode=0o700)
    monkeypatch.setattr(secret_file, "OPENED", memory)
    monkeypatch.setattr(key_sealing, "_CONFIG", tmp_path / "a/meshsec.toml")
    monkeypatch.setattr(key_sealing, "_STATE", tmp_path / "a/state")
    monkeypatch.setattr(systemd, "BOOTED", memory)
    monkeypatch.setattr(systemd, "run", lambda *_: "")  # The memory is there.
    return tmp_path / "a/state/node.key"


@pytest.fixture
def sealed(key: Path, meshsec: Meshsec, tmp_path: Path) -> Iterator[Path]:
    """Seal the node's key; its TPM stays on."""
    tpm.make(tmp_path / "tpm")
    with tpm.in_use(tmp_path / "tpm"):
        done = meshsec("key", "seal")
        assert done.output == f"{key}: sealed by this machine's TPM\n"
        yield key


def finding(meshsec: Meshsec) -> tuple[str, str] | None:
    """Return level and text of doctor's finding."""
    checks = json.loads(meshsec("doctor", "--json").stdout)["checks"]
    return next(((one["level"], one["found"]) for one in checks if one["name"] == "sealed keys"), None)


def test_only_the_machines_own_node_is_sealed(key: Path, meshsec: Meshsec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sealing, "_STATE", key.parent.with_name("other"))
    refused = meshsec("key", "seal")
    assert refused.exit_code == 1
    assert "only the keys of the machine's own node are sealed" in refused.output


def test_a_machine_without_systemd_is_told_what_it_needs(
    key: Path, meshsec: Meshsec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "BOOTED", key.with_name("nothing"))
    refused = meshsec("key", "seal")
    assert refused.exit_code == 1
    assert "systemd 250 or newer at each boot, and this system has no systemd" in refused.output


def test_a_machine_without_a_tpm_is_told_so_and_stays_as_it_was(
    key: Path, meshsec: Meshsec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd_creds, "_DEVICE", key.with_name("tpmrm0"))
    before = key.read_bytes()
    refused = meshsec("key", "seal")
    assert refused.exit_code == 1
    assert "has no TPM 2.0" in refused.output
    assert "Nothing was changed" in refused.output
    assert key.read_bytes() == before
    assert finding(meshsec) is None


def test_doctor_names_a_tpm_that_is_not_used(key: Path, meshsec: Meshsec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd_creds, "_DEVICE", key)
    level, found = finding(meshsec) or ("", "")
    assert level == "ok"
    assert found.startswith("the machine has a TPM, and the keys are not sealed by it")


@needs_tpm
def test_what_is_sealed_is_said_and_can_be_undone(sealed: Path, meshsec: Meshsec) -> None:
    assert meshsec("key", "seal").output == "The keys are sealed already.\n"
    assert json.loads(meshsec("key", "status", "--json").stdout)["sealed"] is True
    assert finding(meshsec) == ("ok", "only this machine's TPM opens them: a copy of the disk is worth nothing")
    (sealed.parent / "second-secret").touch(mode=0o600)
    level, found = finding(meshsec) or ("", "")
    assert level == "warn"
    assert "second-secret: not sealed" in found
    assert "is an ordinary file again; whoever copies the disk has it" in meshsec("key", "unseal").output
    assert json.loads(meshsec("key", "status", "--json").stdout)["sealed"] is False
    assert meshsec("key", "unseal").output == "The keys are not sealed.\n"


@needs_tpm
def test_keys_are_opened_after_a_boot_or_it_is_said_why_not(sealed: Path, meshsec: Meshsec) -> None:
    (secret_file.OPENED / "node.key").unlink()
    level, found = finding(meshsec) or ("", "")
    assert level == "fail"
    assert "has not opened it: `systemctl restart meshsec-keys`" in found
    made = meshsec("init")
    assert made.exit_code == 1, "it made another key"
    assert "is sealed, and this machine's TPM has not opened it" in made.output
    own = os.environ.pop(systemd_creds.VARIABLE)
    refused = meshsec("key", "open")
    assert refused.exit_code == 1
    assert "this machine has no TPM 2.0" in refused.output
    assert "`meshsec restore FILE --replace` takes the node from its backup" in refused.output
    os.environ[systemd_creds.VARIABLE] = own
    assert meshsec("key", "open").output == f"{sealed}: opened by the TPM\n"
    assert meshsec("key", "open").output == ""
    key_store.load(sealed)


@needs_tpm
def test_a_backup_of_sealed_keys_makes_a_node_without_that_tpm(
    sealed: Path, meshsec: Meshsec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(age, "WORK", 10)
    key, file = key_store.load(sealed), str(tmp_path / "node.age")
    assert meshsec("backup", file, "--passphrase-stdin", input=PASSPHRASE).exit_code == 0
    (secret_file.OPENED / "node.key").unlink()
    refused = meshsec("backup", f"{file}.2", "--passphrase-stdin", input=PASSPHRASE)
    assert refused.exit_code == 1
    assert "has not opened it" in refused.output
    assert meshsec("restore", file, "--passphrase-stdin", input=PASSPHRASE).exit_code == 1, "it replaced the node"
    monkeypatch.setattr(systemd, "BOOTED", tmp_path / "nothing")
    done = meshsec("restore", file, "--replace", "--passphrase-stdin", input=PASSPHRASE)
    assert done.exit_code == 0, done.output
    assert not sealed.is_symlink()
    assert key_store.load(sealed).public_key == key.public_key
    assert not list(sealed.parent.glob("*.sealed"))


@needs_tpm
def test_a_sealed_key_is_destroyed_in_all_its_forms(sealed: Path) -> None:
    blob, opened = sealed.with_name("node.key.sealed"), secret_file.OPENED / "node.key"
    with blob.open("rb") as one, opened.open("rb") as other:
        before = one.read(), other.read()
        one.seek(0)
        other.seek(0)
        destroyed = destroying.destroy([str(sealed), f"{sealed.parent}/*key*", f"{secret_file.OPENED}/*"])
        assert destroyed == (3, [])
        assert one.read() != before[0]
        assert other.read() != before[1]
    assert not any(os.path.lexists(path) for path in (sealed, blob, opened))
