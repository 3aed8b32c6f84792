"""A file of the trust store is opened again only when it has changed."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from meshsec import files
from meshsec.adapters.files.trust_store.memory import SETTLED, Memory
from opened import opened, settle


@pytest.fixture
def memory() -> Memory[int]:
    return Memory(int, 64)


@pytest.fixture
def file(tmp_path: Path, memory: Memory[int]) -> Path:
    """Give a file that was read when it was old enough to be remembered."""
    path = tmp_path / "a.card"
    path.write_text("12345")
    settle(tmp_path)
    assert memory.read(path)[0] == 12345
    return path


def test_a_file_that_has_not_changed_is_not_opened_again(file: Path, memory: Memory[int]) -> None:
    with opened(file.parent) as names:
        assert memory.read(file) == (12345, file.stat().st_mode)
    assert names == set()


def backdated(file: Path) -> None:
    """Write as many bytes, and set the modification time back to what it was."""
    before = file.stat()
    file.write_text("54321")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def moved(file: Path) -> None:
    """Put another file in its place that was written at another time."""
    other = file.with_name("other")
    other.write_text("54321")
    other.replace(file)


@pytest.mark.parametrize("change", [lambda file: file.write_text("54321"), backdated, moved])
def test_a_file_that_has_changed_is_read_again(file: Path, memory: Memory[int], change: Callable[[Path], None]) -> None:
    change(file)
    assert memory.read(file)[0] == 54321


def test_a_changed_mode_is_noticed(file: Path, memory: Memory[int]) -> None:
    file.chmod(0o666)
    assert memory.read(file)[1] & 0o777 == 0o666


def test_a_file_that_was_changed_just_now_is_read_each_time(tmp_path: Path, memory: Memory[int]) -> None:
    """A file that changed just now is read each time, because its next change may have the same time."""
    path = tmp_path / "a.card"
    while True:
        path.write_text("1")
        memory.read(path)
        with opened(tmp_path) as names:
            memory.read(path)
        if time.time() - path.stat().st_ctime < SETTLED:  # else the machine was too slow
            break
    assert names == {"a.card"}


def test_an_error_in_a_file_is_not_remembered(file: Path, memory: Memory[int]) -> None:
    file.write_text("x")
    settle(file.parent)
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            memory.read(file)
    file.unlink()
    with pytest.raises(files.FileError, match="No such file"):
        memory.read(file)


def test_a_written_file_is_compared_and_not_parsed_again(tmp_path: Path) -> None:
    memory = Memory(lambda text: [text], 64)
    path, said = tmp_path / "a.card", ["parsed before"]
    path.write_text("1")
    memory.wrote(path, "1", said)
    assert memory.read(path)[0] is said
    path.write_text("2")
    assert memory.read(path)[0] == ["2"]
    memory.wrote(path, "1", said)
    assert memory.read(path)[0] == ["2"], "another has written there since"
