"""Files are overwritten where they are, and nothing outside is touched."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from meshsec.adapters.files import destroying, key_store
from meshsec.files import FileError

SECRET = b"a secret that nobody may find\n" * 400
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "state/node.key"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


def test_the_octets_are_gone_and_not_the_name_alone(key: Path) -> None:
    with key.open("rb") as opened:
        assert destroying.destroy([f"{key.parent}/*key*"]) == (1, [])
        after = opened.read()
    assert not key.exists()
    assert len(after) == len(SECRET)
    assert SECRET[:30] not in after
    assert len(set(after)) == 256, "not random"


def test_an_unlinked_file_would_have_shown_its_octets(key: Path) -> None:
    """The negative case of the one above."""
    with key.open("rb") as opened:
        key.unlink()
        assert opened.read() == SECRET


def test_what_an_interrupted_write_left_is_found_and_other_files_stay(key: Path) -> None:
    for name in (".node.key.0123", "node.next.key", ".second-secret.restoring", "lives"):
        key.with_name(name).write_bytes(SECRET)
    (key.parent / "keyring").mkdir()
    (key.parent / "keyring/other").touch()
    assert destroying.destroy([f"{key.parent}/*key*", f"{key.parent}/*secret*"]) == (4, [])
    assert sorted(path.name for path in key.parent.iterdir()) == ["keyring", "lives"]
    assert (key.parent / "keyring/other").exists()


def test_a_second_time_and_a_missing_directory_are_no_failure(key: Path) -> None:
    patterns = [str(key), "/nowhere/*key*"]
    assert destroying.destroy(patterns) == (1, [])
    assert destroying.destroy(patterns, ["/nowhere/else"]) == (0, [])


def test_a_link_leads_nowhere_and_is_reported(key: Path, tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_bytes(b"mine")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/keys").symlink_to(tmp_path)
    key.unlink()
    key.symlink_to(outside)
    count, failures = destroying.destroy([f"{key.parent}/*key*"], [str(tmp_path / "tree")])
    assert count == 2
    assert {failure.what for failure in failures} == {f"{key} -> {outside}", f"{tmp_path}/tree/keys -> {tmp_path}"}
    assert outside.read_bytes() == b"mine"
    assert not key.is_symlink()


def test_what_the_operator_named_is_destroyed_with_all_below(tmp_path: Path) -> None:
    (tmp_path / "also/below").mkdir(parents=True)
    for name in ("also/one", "also/below/two", "alone"):
        (tmp_path / name).write_bytes(SECRET)
    assert destroying.destroy([], [str(tmp_path / "also"), str(tmp_path / "alone")]) == (3, [])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Give a file system with a key and not one free block."""
    image, place = tmp_path / "image", tmp_path / "small"
    image.write_bytes(bytes(2 << 20))
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", str(image)], check=True)
    mounted = subprocess.run(
        ["mount", "-o", "loop", str(image), str(place)], check=False, capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file can be mounted here: {mounted.stderr.strip()}")
    try:
        (place / "node.key").write_bytes(SECRET)
        with suppress(OSError), (place / "full").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(512))
        os.sync()
        with pytest.raises(OSError, match="No space"):
            (place / "more").write_bytes(bytes(8192))
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@needs_root
def test_on_a_full_disk_the_blocks_themselves_are_overwritten(small: Path, tmp_path: Path) -> None:
    assert SECRET in (tmp_path / "image").read_bytes(), "the search finds nothing"
    assert destroying.destroy([f"{small}/node.key"]) == (1, [])
    assert SECRET[:30] not in (tmp_path / "image").read_bytes()


def _mounted(kind: str, directory: Path) -> Path:
    """Mount a new file system with a secret."""
    image, place = directory / "image", directory / "efi"
    image.write_bytes(bytes(2 << 20))
    place.mkdir()
    subprocess.run([f"mkfs.{kind}", str(image)], check=True, capture_output=True)
    mount = ["mount", "-o", "loop", str(image), str(place)]
    if (done := subprocess.run(mount, check=False, capture_output=True, text=True)).returncode:
        pytest.skip(f"no file can be mounted here: {done.stderr.strip()}")
    (place / "meshsec").mkdir()
    (place / "meshsec/meshsec.sae-password").write_bytes(SECRET)
    (place / "meshsec/meshsec.join").write_bytes(b"public")
    return place


def _options(place: Path) -> list[str]:
    argv = ["findmnt", "-no", "OPTIONS", str(place)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip().split(",")


@needs_root
@pytest.mark.parametrize("kind", ["vfat", "ext4"])
def test_what_is_mounted_read_only_is_destroyed_last_and_read_only_again(kind: str, key: Path, tmp_path: Path) -> None:
    """The vehicles' image mounts its first partition so."""
    place = _mounted(kind, tmp_path)
    subprocess.run(["mount", "-o", "remount,ro,nosuid,noexec", str(place)], check=True)
    try:
        assert SECRET[:600] in (tmp_path / "image").read_bytes(), "the search finds nothing"
        before = _options(place)
        assert destroying.destroy([f"{place}/meshsec/*password*", str(key)]) == (2, [])
        assert _options(place) == before
        assert [path.name for path in (place / "meshsec").iterdir()] == ["meshsec.join"]
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert SECRET[:30] not in (tmp_path / "image").read_bytes()
    assert not key.exists()


@needs_root
def test_what_cannot_be_written_is_reported_and_the_rest_is_destroyed(key: Path, tmp_path: Path) -> None:
    """The disk itself refuses."""
    place = _mounted("ext4", tmp_path)
    subprocess.run(["umount", str(place)], check=True)
    # A device of its own: a mount namespace that somebody made meanwhile keeps the first one.
    argv = ["losetup", "--find", "--show", "--read-only", str(tmp_path / "image")]
    device = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    try:
        subprocess.run(["mount", "-o", "ro", device, str(place)], check=True)
        count, failures = destroying.destroy([f"{place}/meshsec/*password*", str(key)])
    finally:
        subprocess.run(["umount", str(place)], check=False)
        subprocess.run(["losetup", "--detach", device], check=True)
    assert count == 1
    password = f"{place}/meshsec/meshsec.sae-password"
    assert [(failure.what, failure.why.partition(":")[0]) for failure in failures] == [
        (password, "was not overwritten"),
        (password, "was not removed"),
        (str(place), "cannot be written"),
    ]
    assert not key.exists()


@pytest.mark.parametrize("replaced", [True, False])
def test_what_is_replaced_or_removed_is_overwritten(key: Path, replaced: bool) -> None:
    with key.open("rb") as opened:
        with destroying.overwriting(key):
            if replaced:
                key.with_name("next").write_bytes(b"another")
                key.with_name("next").replace(key)
            else:
                key.unlink()
            assert opened.read() == SECRET, "too early: the block may fail"
        opened.seek(0)
        assert SECRET[:30] not in opened.read()
    assert key.exists() == replaced
    if replaced:
        assert key.read_bytes() == b"another"


def test_a_replacement_that_fails_leaves_all_as_it_was(key: Path) -> None:
    with pytest.raises(FileError), destroying.overwriting(key):
        raise FileError
    assert key.read_bytes() == SECRET
    with destroying.overwriting(key.with_name("none")):
        pass


def test_the_old_key_of_a_rotation_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    old = key_store.create(path).pkcs8_pem()
    following = key_store.create_next(path).pkcs8_pem()
    with path.open("rb") as opened:
        key_store.end(path)
        assert opened.read() not in (old, following)
    assert path.read_bytes() == following


def test_sockets_are_removed_and_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "names").touch()
    for name in ("control.sock", "below/pluto.ctl"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(tmp_path / name))
    destroying.remove_sockets([str(tmp_path), "/nowhere"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["below", "names"]
    assert not list((tmp_path / "below").iterdir())
