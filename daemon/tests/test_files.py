"""Reading small files without ever waiting for one, writing them as a whole, and directories that all may read."""

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from children import child
from meshsec import files
from meshsec.files import FileError


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("fünf")
    assert files.read(path, 5) == "fünf"
    with pytest.raises(FileError, match=r"file: is longer than 4 octets"):
        files.read(path, 4)


def test_text_that_is_no_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\n\xff")
    with pytest.raises(FileError, match=r"file:2: octet 0xff is not UTF-8"):
        files.read(path, 9)


def test_a_pipe_or_device_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "directory").mkdir()
    for name, told in (("pipe", "is no regular file"), ("device", "is no regular file"), ("directory", "Is a dir")):
        with pytest.raises(FileError, match=f"{name}: {told}"):
            files.read(tmp_path / name, 9)


@pytest.mark.parametrize("name", ["/dev/stdin", "/dev/fd/0"])
def test_standard_input_is_read(name: str) -> None:
    code = f"from pathlib import Path; from meshsec import files; print(files.read(Path('{name}'), 9))"
    with child(
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    ) as process:
        told, _ = process.communicate(b"piped", timeout=60)
    assert told == b"piped\n"


@pytest.fixture
def stick(tmp_path: Path) -> Iterator[Path]:
    """Mount a new FAT file system."""
    if os.geteuid() != 0 or not shutil.which("mkfs.vfat"):
        pytest.skip("only root mounts a file system, and mkfs.vfat makes one")
    image, place = tmp_path / "image", tmp_path / "stick"
    with image.open("wb") as file:
        file.truncate(4 << 20)
    place.mkdir()
    subprocess.run(["mkfs.vfat", image], check=True, capture_output=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, place], check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"this machine mounts no FAT: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.fixture(params=[errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def without_links(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory in which no hard link can be made, as on FAT, exFAT and some file systems in user space."""

    def refused(path: Path, target: Path) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(Path, "hardlink_to", refused)
    return tmp_path


def check_new_file(place: Path) -> None:
    """Write a new file, and check that another is refused and leaves nothing."""
    path = place / "node.age"
    files.write(path, b"whole", 0o600, replace=False)
    assert path.read_bytes() == b"whole"
    with pytest.raises(FileError, match=r"node.age: File exists; nothing was changed"):
        files.write(path, b"other", 0o600, replace=False)
    assert path.read_bytes() == b"whole"
    assert [one.name for one in place.iterdir()] == ["node.age"]


def test_a_new_file_is_written_where_there_are_no_hard_links(without_links: Path) -> None:
    check_new_file(without_links)


def test_a_new_file_is_written_on_a_usb_stick(stick: Path) -> None:
    check_new_file(stick)


def test_a_new_file_that_cannot_get_its_name_leaves_nothing(
    without_links: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(FileError, match=r"node.age: Input/output error; nothing was changed"):
        files.write(without_links / "node.age", b"whole", 0o600, replace=False)
    assert not list(without_links.iterdir())


def test_a_new_file_follows_no_link_where_there_are_no_hard_links(without_links: Path) -> None:
    (without_links / "node.age").symlink_to(without_links / "elsewhere")
    with pytest.raises(FileError, match=r"node.age: File exists"):
        files.write(without_links / "node.age", b"whole", 0o600, replace=False)
    assert not (without_links / "elsewhere").exists()


def test_a_directory_that_is_made_can_be_read_by_all_and_one_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o700)
    before = os.umask(0o077)  # as a daemon's unit has it
    try:
        files.make_directory(tmp_path / "there/above/below")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("there", "there/above", "there/above/below")]
    assert modes == [0o700, 0o755, 0o755]
    (tmp_path / "file").touch()
    with pytest.raises(files.FileError, match="file: File exists"):
        files.make_directory(tmp_path / "file")
