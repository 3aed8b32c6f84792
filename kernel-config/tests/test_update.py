"""What `meshsec-update` refuses, and how it reads a trial: with gpg and files, on any machine."""

import argparse
import hashlib
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from image import __main__ as image
from image import release as build
from image.architecture import AMD64
from image.shell import StepError
from meshsec_update import __main__ as command
from meshsec_update import fetch, health, install, machine, release, store, trial
from meshsec_update.machine import Image, RefusedError

pytestmark = pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed: tools/setup system")

RUNNING = Image("1.0.0.20260101000000", "x86-64")
NEWER = "1.0.1.20260201000000"
SCRIPT = Path(__file__).parents[1] / "image/files/usr/lib/meshsec-image/verdict"
UUID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make two keys, as files."""
    return _key(tmp_path_factory.mktemp("one")), _key(tmp_path_factory.mktemp("two"))


@pytest.fixture
def keyring(keys: tuple[Path, Path], tmp_path: Path) -> Path:
    """Make the key ring of an image that trusts the first key."""
    with build.key(keys[0]) as key:
        assert key is not None
        (tmp_path / "keyring.gpg").write_bytes(key.public)
    return tmp_path / "keyring.gpg"


def _key(directory: Path) -> Path:
    ring = directory / "ring"
    ring.mkdir(mode=0o700)
    gpg = ["gpg", "--batch", "--quiet", "--homedir", str(ring), "--pinentry-mode", "loopback", "--passphrase", ""]
    subprocess.run(
        [*gpg, "--quick-generate-key", "a test", "ed25519", "sign", "never"], check=True, capture_output=True
    )
    subprocess.run([*gpg, "--output", str(directory / "key"), "--export-secret-keys"], check=True)
    subprocess.run(["gpgconf", "--homedir", str(ring), "--kill", "all"], check=True)
    (directory / "key").chmod(0o600)
    return directory / "key"


def _update(target: Path, key: Path, version: str = NEWER, architecture: str = "x86-64") -> Path:
    files = {
        f"meshsec_{version}_{UUID}_{architecture}.root": target.with_suffix(".r"),
        f"meshsec_{version}_{architecture}.efi": target.with_suffix(".e"),
    }
    for path in files.values():
        path.write_bytes(path.suffix.encode() * 1000)
    with build.key(key) as signer:
        assert signer is not None
        build.make_update(files, target, signer)
    return target


class Verdict:
    """The script of meshsec-trial.service, whose first partition is a directory."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._linux = folder, folder / "efi"
        self._linux.mkdir()
        (folder / "os-release").write_text(f"IMAGE_VERSION={RUNNING.version}\n", encoding="ascii")
        text = SCRIPT.read_text(encoding="ascii")
        places = {"/efi/EFI/Linux": self._linux, "/usr/lib/os-release": folder / "os-release"}
        for place, here in (places | {"/usr/bin/meshsec-update": folder / "bin/meshsec-update"}).items():
            text = text.replace(place, str(here))
        (folder / "verdict").write_text(text, encoding="ascii")
        (folder / "bin").mkdir()
        for name in ("mount", "systemctl", "meshsec-update"):  # What would change this machine is only written down.
            (folder / "bin" / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{folder}/done\n', encoding="ascii")
            (folder / "bin" / name).chmod(0o755)
        (folder / "done").touch()

    def has(self, *kernels: str) -> None:
        """Put kernels on the first partition. A name that begins with `empty:` is that of an empty file."""
        for name in kernels:
            (self._linux / name.removeprefix("empty:")).write_bytes(b"" if name.startswith("empty:") else b"kernel")

    def run(self, result: str) -> str:
        """Run the script after the service ended so; return what it says."""
        service, status = result.split()
        path = f"{self._folder / 'bin'}:{os.environ['PATH']}"
        environment = {"PATH": path, "SERVICE_RESULT": service, "EXIT_STATUS": status}
        command = ["sh", str(self._folder / "verdict")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stderr

    def kernels(self) -> set[str]:
        """Return the names of the kernels."""
        return {path.name for path in self._linux.iterdir()}

    def restarted(self) -> bool:
        """Return whether the machine was restarted."""
        return "systemctl reboot --force\n" in self._done()

    def kept(self) -> bool:
        """Return whether the version was kept."""
        return "meshsec-update keep\n" in self._done()

    def _done(self) -> str:
        return (self._folder / "done").read_text(encoding="ascii")


@pytest.fixture
def verdict(tmp_path: Path) -> Verdict:
    """Give the script."""
    return Verdict(tmp_path)


def test_what_the_build_signs_is_what_a_node_takes(keys: tuple[Path, Path], keyring: Path, tmp_path: Path) -> None:
    directory = _update(tmp_path / "update", keys[0])
    found = release.read(directory, RUNNING, keyring)
    release.need_newer(found, RUNNING)
    release.check_content(directory, found)
    assert found.version == NEWER
    assert [file.name for file in found.files] == [build.root_name(NEWER, UUID, AMD64), build.kernel_name(NEWER, AMD64)]
    assert found.root.sha256 == hashlib.sha256(b".r" * 1000).hexdigest()


def test_a_signature_of_another_or_of_something_else_is_refused(
    keys: tuple[Path, Path], keyring: Path, tmp_path: Path
) -> None:
    directory = _update(tmp_path / "update", keys[1])
    with pytest.raises(RefusedError, match="SHA256SUMS: not signed by the key of this image"):
        release.read(directory, RUNNING, keyring)
    directory = _update(tmp_path / "again", keys[0])
    sums = directory / "SHA256SUMS"
    sums.write_text(sums.read_text(encoding="ascii").replace("1.0.1", "1.0.2"), encoding="ascii")
    with pytest.raises(RefusedError, match=r"not signed by the key of this image: .*BAD signature"):
        release.read(directory, RUNNING, keyring)
    (directory / "SHA256SUMS.gpg").unlink()
    with pytest.raises(RefusedError, match=r"SHA256SUMS\.gpg: No such file"):
        release.read(directory, RUNNING, keyring)


def test_a_clock_that_is_before_the_key_was_made_is_named_and_the_image_forbids_it(
    keys: tuple[Path, Path], keyring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = _update(tmp_path / "update", keys[0])
    programs = tmp_path / "bin"
    programs.mkdir()
    gpg = shutil.which("gpg")
    (programs / "gpg").write_text(f'#!/bin/sh\nexec {gpg} --faked-system-time "$FAKED" "$@"\n', encoding="ascii")
    (programs / "gpg").chmod(0o755)
    with build.key(keys[0]) as key:
        assert key is not None
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "5")
    assert (image._dated(tmp_path, None), image._dated(tmp_path, key)) == (5, key.created)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKED", f"{key.created - 3600}!")
    with pytest.raises(RefusedError, match=r"SHA256SUMS: this machine's clock says .* was not made yet; set the clock"):
        release.read(directory, RUNNING, keyring)
    monkeypatch.setenv("FAKED", f"{key.created}!")
    assert release.read(directory, RUNNING, keyring).version == NEWER, "no clock is earlier, by /usr/lib/clock-epoch"


def test_an_image_without_a_key_takes_nothing(keys: tuple[Path, Path], tmp_path: Path) -> None:
    directory = _update(tmp_path / "update", keys[0])
    with pytest.raises(RefusedError, match="built without a key"):
        release.read(directory, RUNNING, tmp_path / "none.gpg")


def test_another_architecture_is_named(keys: tuple[Path, Path], keyring: Path, tmp_path: Path) -> None:
    directory = _update(tmp_path / "update", keys[0], architecture="arm64")
    with pytest.raises(RefusedError, match="the update is for arm64; this machine is x86-64"):
        release.read(directory, RUNNING, keyring)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.0.0.20251231235959", "is older than"),
        ("0.9.9.20270101000000", "is older than"),
        (RUNNING.version, "is what runs"),
    ],
)
def test_only_a_newer_version_is_taken(
    keys: tuple[Path, Path], keyring: Path, tmp_path: Path, version: str, message: str
) -> None:
    found = release.read(_update(tmp_path / "update", keys[0], version), RUNNING, keyring)
    with pytest.raises(RefusedError, match=message):
        release.need_newer(found, RUNNING)


def test_a_file_that_is_cut_changed_or_missing_is_named(keys: tuple[Path, Path], keyring: Path, tmp_path: Path) -> None:
    directory = _update(tmp_path / "update", keys[0])
    found = release.read(directory, RUNNING, keyring)
    root = directory / found.root.name
    root.write_bytes(root.read_bytes()[:-1])
    with pytest.raises(RefusedError, match=r"\.root: its 1999 bytes are not what was signed: truncated"):
        release.check_content(directory, found)
    root.unlink()
    with pytest.raises(RefusedError, match=r"\.root: missing"):
        release.check_content(directory, found)


def test_names_that_no_update_has_are_refused_though_signed(
    keys: tuple[Path, Path], keyring: Path, tmp_path: Path
) -> None:
    directory = _update(tmp_path / "update", keys[0])
    for line in ("../../etc/passwd", "meshsec_1_x86-64.root", "meshsec_1 2_x86-64.efi"):
        (directory / "SHA256SUMS").write_text(f"{'0' * 64}  {line}\n", encoding="ascii")
        with build.key(keys[0]) as signer:
            assert signer is not None
            signer.sign(directory / "SHA256SUMS")
        with pytest.raises(RefusedError, match=r"not a checksum and a file|names its partition"):
            release.read(directory, RUNNING, keyring)


def test_a_key_that_others_can_read_signs_nothing(keys: tuple[Path, Path], tmp_path: Path) -> None:
    copy = tmp_path / "key"
    shutil.copy(keys[0], copy)
    copy.chmod(0o644)
    with pytest.raises(StepError, match="chmod 600"), build.key(copy):
        pass


def test_the_loaders_counters_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "KERNELS", tmp_path)
    name = f"meshsec_{RUNNING.version}_x86-64"
    for counter, tries, said in (
        ("", None, ""),
        ("+2-0", (2, 0), "left: 2"),
        ("+1", (1, 0), "left: 1"),
        ("+0-2", (0, 2), "not work"),
    ):
        path = tmp_path / f"{name}{counter}.efi"
        path.write_bytes(b"kernel")
        assert machine.tries(path) == tries
        assert said in trial.describe(path)
        assert trial.kernel(RUNNING) == (path if tries else None)
        assert trial.kernel(Image(NEWER, "x86-64")) is None
        path.unlink()


@pytest.mark.parametrize(
    ("result", "others", "renamed"),
    [
        ("success 11", "meshsec_0.9.0_x86-64.efi", "+0-1"),
        ("exit-code 203", "meshsec_0.9.0_x86-64.efi", "+0-1"),
        ("signal SEGV", "meshsec_1.0.0.2_x86-64+2-0.efi", "+0-1"),
        ("success TERM", "meshsec_0.9.0_x86-64.efi", None),
        ("success 0", "meshsec_0.9.0_x86-64.efi", None),
        ("exit-code 203", "meshsec_0.9.0_x86-64+0-1.efi meshsec_0.8.0_x86-64+0.efi", None),
        ("success 11", "", None),
        ("success 11", "empty:meshsec_0.9.0_x86-64.efi", None),
    ],
)
def test_a_version_is_left_once_and_only_for_another_that_can_start(
    verdict: Verdict, result: str, others: str, renamed: str | None
) -> None:
    verdict.has(f"meshsec_{RUNNING.version}_x86-64+1-1.efi", *others.split())
    said = verdict.run(result)
    assert verdict.restarted() is (renamed is not None), said
    assert f"meshsec_{RUNNING.version}_x86-64{renamed or '+1-1'}.efi" in verdict.kernels()
    assert set(others.removeprefix("empty:").split()) <= verdict.kernels()
    if renamed is None and not result.endswith(("TERM", " 0")):
        assert "stays though it does not work: no other version can start" in said


def test_a_version_that_is_kept_is_never_left_and_what_works_is_kept(verdict: Verdict) -> None:
    verdict.has(f"meshsec_{RUNNING.version}_x86-64.efi", "meshsec_0.9.0_x86-64.efi")
    verdict.run("exit-code 203")
    assert (verdict.restarted(), verdict.kept()) == (False, False)
    verdict.run("success 10")
    assert (verdict.restarted(), verdict.kept()) == (False, True)


def test_a_node_is_well_when_its_daemons_answer_and_its_rules_are_in_force() -> None:
    up, down = {"up": True, "reason": None}, {"up": False, "reason": "no answer"}
    well = {"ike_daemon": up, "routing_daemon": up, "overlay": None, "rules_stand": True, "problems": ["a card"]}
    assert health.lacks(well) == []
    assert health.lacks(well | {"overlay": down}) == ["the overlay is away: no answer"]
    assert health.lacks(well | {"ike_daemon": down}) == ["the IKE daemon is away: no answer"]
    assert health.lacks(well | {"routing_daemon": down}) == ["the routing daemon is away: no answer"]
    assert health.lacks(well | {"rules_stand": False}) == ["the fail-closed rules are not in force"]


def test_a_machine_offers_its_newest_version_that_has_not_failed(
    keys: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels, partitions, kept = (tmp_path / name for name in ("kernels", "partitions", "updates"))
    for folder in (kernels, partitions, kept):
        folder.mkdir()
    monkeypatch.setattr(machine, "KERNELS", kernels)
    monkeypatch.setattr(store, "_PARTITIONS", partitions)
    monkeypatch.setattr(store, "SIGNED", kept)
    assert store.newest() is None
    (partitions / UUID).write_bytes(_erofs(blocks=2) + b"what was there before")
    for version, counter in ((RUNNING.version, ""), (NEWER, "+0-1")):
        _update(tmp_path / version, keys[0], version).rename(kept / version)
        for file in (*(kept / version).glob("*.root"), *(kept / version).glob("*.efi")):
            file.unlink()
        (kernels / f"meshsec_{version}_x86-64{counter}.efi").write_bytes(version.encode())
    offer = store.newest()
    assert offer is not None
    assert set(offer.parts) == {
        *("SHA256SUMS", "SHA256SUMS.gpg"),
        build.root_name(RUNNING.version, UUID, AMD64),
        build.kernel_name(RUNNING.version, AMD64),
    }
    assert offer.parts[build.root_name(RUNNING.version, UUID, AMD64)].size == 8192
    (kernels / f"meshsec_{NEWER}_x86-64+0-1.efi").rename(kernels / f"meshsec_{NEWER}_x86-64+2-0.efi")
    offer = store.newest()
    assert offer is not None
    assert build.kernel_name(NEWER, AMD64) in offer.parts
    (kept / NEWER / "SHA256SUMS.gpg").write_bytes(b"")  # as a power cut may leave it
    offer = store.newest()
    assert offer is not None
    assert build.kernel_name(RUNNING.version, AMD64) in offer.parts
    (partitions / UUID).write_bytes(bytes(8192))
    assert store.newest() is None


def _erofs(blocks: int) -> bytes:
    """Return so many blocks of 4096 bytes that begin as an erofs does."""
    block = bytearray(4096 * blocks)
    struct.pack_into("<I8xB23xI", block, 1024, 0xE0F5E1E2, 12, blocks)
    return bytes(block)


def test_what_does_not_fit_is_refused_with_both_numbers(
    keys: tuple[Path, Path], keyring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "ESP", tmp_path)
    monkeypatch.setattr(machine, "KERNELS", tmp_path / "kernels")
    (tmp_path / "kernels").mkdir()
    directory = _update(tmp_path / "update", keys[0])
    found = release.read(directory, RUNNING, keyring)
    monkeypatch.setattr(machine, "slot_size", lambda: 2000)
    install._need_room(directory, found, RUNNING)
    monkeypatch.setattr(machine, "slot_size", lambda: 1999)
    with pytest.raises(RefusedError, match="2000 bytes; a slot of this disk has 1999"):
        install._need_room(directory, found, RUNNING)


def test_what_an_update_replaces_is_not_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "KERNELS", tmp_path)
    names = (
        f"meshsec_{RUNNING.version}_x86-64.efi",
        f".#sysupdatemeshsec_{NEWER}_x86-64+2-0.efi0123",
        f"meshsec_{NEWER}_x86-64+0-1.efi",
        "meshsec_0.9.0.20250101000000_x86-64.efi",
    )
    for name in names:
        (tmp_path / name).write_bytes(b"kernel")
    (tmp_path / "meshsec_1.2.0_x86-64+2-0.efi").touch()  # what a power cut left
    root, kernel = (release.File("", "", NEWER, "x86-64") for _ in range(2))
    found = release.Release(NEWER, root, kernel)
    assert {path.name for path in install._leftovers(found)} == {*names[1:3], "meshsec_1.2.0_x86-64+2-0.efi"}


def test_a_version_that_a_power_cut_left_empty_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "KERNELS", tmp_path)
    (tmp_path / f"meshsec_{NEWER}_x86-64+2-0.efi").touch()
    assert release.why_not(NEWER, RUNNING) is None
    (tmp_path / f"meshsec_{NEWER}_x86-64+2-0.efi").write_bytes(b"kernel")
    assert "is here already" in (release.why_not(NEWER, RUNNING) or "")


@pytest.mark.parametrize(
    ("counter", "fate"),
    [
        ("+2-0", "waits for its trial"),
        ("+1-1", "waits for its trial"),
        ("+0-1", "did not work here"),
        ("", "is on the"),
    ],
)
def test_no_version_is_older_than_one_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: str, fate: str
) -> None:
    """RUNNING runs, NEWER is on the disk, and what is between them is asked for: by hand and from a peer."""
    monkeypatch.setattr(machine, "KERNELS", tmp_path)
    for version, tries in ((RUNNING.version, ""), ("0.9.0.20250101000000", ""), (NEWER, counter)):
        (tmp_path / f"meshsec_{version}_x86-64{tries}.efi").write_bytes(b"kernel")
    between, newest = "1.0.0.20260115000000", "1.0.1.20260202000000"
    for again in (False, True):
        why = release.why_not(between, RUNNING, again=again)
        assert f"version {between} is older than {NEWER}, which {fate}" in (why or "")
    assert release.why_not(newest, RUNNING) is None


def test_a_version_that_failed_is_only_repeated_by_hand(
    keys: tuple[Path, Path], keyring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "KERNELS", tmp_path)
    (tmp_path / f"meshsec_{NEWER}_x86-64+0-1.efi").write_bytes(b"kernel")
    found = release.read(_update(tmp_path / "update", keys[0]), RUNNING, keyring)
    with pytest.raises(RefusedError, match=rf"is here already: meshsec_{NEWER}_x86-64\+0-1"):
        release.need_newer(found, RUNNING)
    release.need_newer(found, RUNNING, again=True)


def test_what_was_fetched_and_is_not_newer_any_more_is_removed_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody installed a newer version by hand while this node fetched."""
    kernels, folder = tmp_path / "kernels", tmp_path / "fetched"
    kernels.mkdir()
    (kernels / f"meshsec_{NEWER}_x86-64+2-0.efi").write_bytes(b"kernel")
    for version in ("1.0.0.20260115000000", NEWER, RUNNING.version):
        (folder / version).mkdir(parents=True)
    for name, value in (("KERNELS", kernels), ("image", lambda: RUNNING)):
        monkeypatch.setattr(machine, name, value)
    monkeypatch.setattr(fetch, "FOLDER", folder)
    assert command._take(argparse.Namespace()) == 0
    assert list(folder.iterdir()) == []
