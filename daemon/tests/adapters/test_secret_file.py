"""Secrets sealed by a TPM, which is swtpm here: what the disk holds, and what an interruption or a refusal leaves."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from meshsec import files
from meshsec.adapters.files import key_store, second_secret_store, secret_file, systemd_creds
from meshsec.adapters.files.key_store import KeyStoreError, SealedKeyError
from meshsec.adapters.files.systemd_creds import SealError
from meshsec.files import FileError
from tests.lab.machines import tpm

SECRET = bytes(range(32))

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(tpm.obstacle() is not None, reason=f"a software TPM is needed: {tpm.obstacle()}"),
]


@pytest.fixture(scope="module")
def chips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of two TPMs, ``own`` and ``other``."""
    directory = tmp_path_factory.mktemp("tpm")
    for name in ("own", "other"):
        tpm.make(directory / name)
    return directory


@pytest.fixture
def own(chips: Path) -> Iterator[None]:
    """Switch the node's TPM on."""
    with tpm.in_use(chips / "own"):
        yield


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the key of a node with all its secrets, none of them sealed."""
    state, memory = tmp_path / "state", tmp_path / "memory"
    state.mkdir()
    memory.mkdir(mode=0o700)
    monkeypatch.setattr(secret_file, "OPENED", memory)
    key_store.create(state / "node.key")
    second_secret_store.save(state / "second-secret", SECRET)
    return state / "node.key"


def secrets(path: Path) -> list[Path]:
    return [path, key_store.next_path(path), path.with_name("second-secret")]


def boot(path: Path) -> None:
    """Take what is in memory, and open the keys as the unit does."""
    for one in secret_file.OPENED.iterdir():
        one.unlink()
    secret_file.open_all(path.parent)


def on_disk(path: Path, *wanted: bytes) -> list[str]:
    """Return the files beside the key in which any of the octets are, without those in memory."""
    found = (one for one in path.parent.iterdir() if not one.is_symlink())
    return [one.name for one in found if any(octets in one.read_bytes() for octets in wanted)]


def everything(path: Path) -> dict[str, bytes]:
    found = path.parent.iterdir()
    return {one.name: bytes(one.readlink()) if one.is_symlink() else one.read_bytes() for one in found}


@pytest.mark.usefixtures("own")
def test_sealed_keys_are_read_after_a_boot_and_are_not_on_the_disk(path: Path) -> None:
    pem, plain = path.read_bytes(), path.open("rb")
    forms = (pem.splitlines()[1], SECRET.hex().encode())
    assert on_disk(path, *forms) == ["node.key", "second-secret"], "the search is no use"
    assert secret_file.seal(secrets(path)) == [path, path.with_name("second-secret")]
    assert on_disk(path, *forms) == []
    with plain:
        assert pem.splitlines()[1] not in plain.read(), "the old file was not overwritten"
    for _ in range(2):
        assert key_store.load(path).pkcs8_pem() == pem
        assert second_secret_store.find(path.with_name("second-secret")) == SECRET
        boot(path)
    assert secret_file.seal(secrets(path)) == []


def test_a_copy_of_the_disk_is_refused_by_another_tpm_and_stays_as_it_was(chips: Path, path: Path) -> None:
    with tpm.in_use(chips / "own"):
        key = key_store.load(path)
        secret_file.seal(secrets(path))
    before = everything(path)
    with tpm.in_use(chips / "other"):
        with pytest.raises(SealError, match=r"the TPM refuses \(systemd-creds decrypt: .+\)"):
            boot(path)
        with pytest.raises(SealedKeyError, match=r"has not opened it: `systemctl restart meshsec-keys`"):
            key_store.load(path)
        with pytest.raises(FileError, match="has not opened it"):
            second_secret_store.find(path.with_name("second-secret"))
        with pytest.raises(KeyStoreError, match="there is a key already"):
            key_store.create(path)
    assert everything(path) == before
    with tpm.in_use(chips / "own"):
        boot(path)
    assert key_store.load(path).public_key == key.public_key


def test_without_sealing_a_copy_is_the_node(path: Path, tmp_path: Path) -> None:
    """The negative case of the one above."""
    copy = path.parent.rename(tmp_path / "copy") / "node.key"
    assert key_store.load(copy).pkcs8_pem() == copy.read_bytes()


def test_a_tpm_that_refuses_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(systemd_creds.VARIABLE, f"swtpm:path={tmp_path / 'nobody'}")
    before = everything(path)
    with pytest.raises(SealError, match="the TPM refuses"):
        secret_file.seal(secrets(path))
    assert everything(path) == before
    assert list(secret_file.OPENED.iterdir()) == []


def test_a_tpm_that_was_not_warned_of_power_cuts_locks_itself(chips: Path) -> None:
    """What the command is for that meshsec sends after each use. The tests above and below do with it."""
    refused = pytest.raises(SealError, match=r"lockout|No locks available")
    with tpm.in_use(chips / "other", is_warned=False), refused:
        for _ in range(10):
            systemd_creds.unseal(systemd_creds.seal(SECRET))


@pytest.mark.usefixtures("own")
def test_a_sealed_node_never_writes_a_plain_key(path: Path) -> None:
    secret_file.seal(secrets(path))
    following, shared = key_store.create_next(path), bytes(reversed(SECRET))
    second_secret_store.save(path.with_name("second-secret"), shared)
    forms = (following.pkcs8_pem().splitlines()[1], shared.hex().encode())
    assert on_disk(path, *forms) == []
    boot(path)
    assert key_store.load(key_store.next_path(path)).public_key == following.public_key
    assert second_secret_store.load(path.with_name("second-secret")) == shared
    key_store.end(path)
    assert second_secret_store.remove(path.with_name("second-secret"))
    boot(path)
    assert key_store.load(path).public_key == following.public_key
    assert sorted(everything(path)) == ["node.key", "node.key.sealed", "node.pub", "node.rotation"]
    key_store.create_next(path)
    key_store.cancel(path)
    boot(path)
    assert key_store.load(path).public_key == following.public_key
    assert sorted(everything(path)) == ["node.key", "node.key.sealed", "node.pub", "node.rotation"]


@pytest.mark.usefixtures("own")
def test_a_next_key_that_the_tpm_refuses_leaves_the_present_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret_file.seal(secrets(path))
    before = key_store.load(path).public_key
    with monkeypatch.context() as patch:
        patch.setenv(systemd_creds.VARIABLE, "swtpm:path=/nonexistent")
        with pytest.raises(KeyStoreError, match="the TPM refuses"):
            key_store.create_next(path)
    assert not secret_file.exists(key_store.next_path(path))
    boot(path)
    assert key_store.load(path).public_key == before


@pytest.mark.usefixtures("own")
def test_a_next_key_that_is_not_sealed_as_the_present_one_is_refused_with_the_fix(path: Path) -> None:
    following = key_store.create_next(path)
    secret_file.seal([path])
    with pytest.raises(KeyStoreError, match="`meshsec key seal` seals both"):
        key_store.end(path)
    secret_file.seal(secrets(path))
    key_store.end(path)
    boot(path)
    assert key_store.load(path).public_key == following.public_key


@pytest.mark.usefixtures("own")
def test_unsealed_keys_are_ordinary_files_again(path: Path) -> None:
    pem = path.read_bytes()
    secret_file.seal(secrets(path))
    assert secret_file.unseal(secrets(path)) == [path, path.with_name("second-secret")]
    assert path.read_bytes() == pem
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(everything(path)) == ["node.key", "node.pub", "second-secret"]
    assert list(secret_file.OPENED.iterdir()) == []
    assert secret_file.unseal(secrets(path)) == []


class PowerCutError(Exception):
    """Raised in place of a change of the disk, so that nothing runs after it."""


def cut_after(patch: pytest.MonkeyPatch, steps: int) -> Callable[[], bool]:
    """Raise PowerCutError instead of the change of the disk with this number (from 0); return whether that happened."""
    left, was_cut = iter(range(steps)), False
    for where, name in (
        (files, "write"),
        (files, "rename"),
        (files, "remove"),
        (secret_file, "destroy"),
        (Path, "hardlink_to"),
    ):
        real = getattr(where, name)

        def step(*arguments: object, real: Callable[..., object] = real, **options: object) -> object:
            nonlocal was_cut
            if next(left, None) is None:
                was_cut = True
                raise PowerCutError
            return real(*arguments, **options)

        patch.setattr(where, name, step)
    return lambda: was_cut


def seal(path: Path) -> None:
    secret_file.seal(secrets(path))


def unseal(path: Path) -> None:
    secret_file.unseal(secrets(path))


def no_change(_path: Path) -> None:
    """Leave the keys as they were made."""


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("before", "change"),
    [(no_change, seal), (seal, unseal), (seal, key_store.create_next)],
    ids=["seal", "unseal", "next"],
)
def test_a_power_cut_at_any_step_leaves_the_key_readable_and_the_change_can_be_completed(
    path: Path, monkeypatch: pytest.MonkeyPatch, before: Callable[[Path], None], change: Callable[[Path], object]
) -> None:
    key = key_store.load(path)
    for steps in range(100):
        before(path)
        with monkeypatch.context() as patch:
            was_cut = cut_after(patch, steps)
            with suppress(PowerCutError):
                change(path)
        boot(path)
        assert key_store.load(path).public_key == key.public_key, steps
        assert second_secret_store.load(path.with_name("second-secret")) == SECRET, steps
        change(path)
        is_sealed = change is not unseal
        assert bool(on_disk(path, key.pkcs8_pem().splitlines()[1])) != is_sealed, steps
        left = {one for one in everything(path) if one.startswith(".") or one.endswith(".unsealed")}
        assert not left, steps
        if not was_cut():
            break
        for one in (key_store.next_path(path), key_store.next_path(path).with_suffix(".pub")):
            if secret_file.exists(one):
                secret_file.remove(one)
        unseal(path)
    assert steps > 4


@pytest.mark.usefixtures("own")
def test_a_power_cut_while_the_key_ends_leaves_one_of_the_two(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seal(path)
    for steps in range(100):
        old, new = key_store.load(path).public_key, key_store.create_next(path).public_key
        with monkeypatch.context() as patch:
            was_cut = cut_after(patch, steps)
            with suppress(PowerCutError):
                key_store.end(path)
        boot(path)
        assert key_store.load(path).public_key in (old, new), steps
        if was_cut():
            key_store.end(path)
        assert key_store.load(path).public_key == new, steps
        boot(path)
        assert key_store.load(path).public_key == new, steps
        if not was_cut():
            break
    assert steps > 4


@pytest.mark.usefixtures("own")
def test_what_is_left_of_a_change_is_removed_and_nothing_that_is_needed(path: Path) -> None:
    pem = path.read_bytes()
    seal(path)
    path.unlink()  # Somebody copied the files without the links.
    boot(path)
    assert key_store.load(path).pkcs8_pem() == pem
    path.with_name("node.next.key").symlink_to(secret_file.OPENED / "node.next.key")
    boot(path)
    assert not os.path.lexists(path.with_name("node.next.key"))


def test_what_a_machine_lacks_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(systemd_creds.VARIABLE, raising=False)
    monkeypatch.setattr(systemd_creds, "_DEVICE", tmp_path / "tpmrm0")
    assert "has no TPM 2.0" in (systemd_creds.obstacle() or "")
    (tmp_path / "tpmrm0").touch()
    assert systemd_creds.obstacle() is None
    old = tmp_path / "systemd-creds"
    old.write_text("#!/bin/sh\necho 'systemd 249 (249.11)'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert systemd_creds.obstacle() == "keys are sealed by systemd 250 or newer, and it has 249"
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert systemd_creds.obstacle() == "keys are sealed by systemd 250 or newer, and systemd-creds is missing"
