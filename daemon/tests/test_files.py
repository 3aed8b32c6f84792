"""Reading small files without ever waiting for one, and directories that all may read."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

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
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        told, _ = process.communicate(b"piped", timeout=60)
    assert told == b"piped\n"


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
