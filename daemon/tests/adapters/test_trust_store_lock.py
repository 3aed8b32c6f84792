"""The lock of the trust store is private, waits for a limited time, and names its holder."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from meshsec.adapters.files.trust_store.lock import LockError, holder, locked, prepare

LOCKS = """\
1: POSIX  ADVISORY  WRITE 11 00:19:7 0 EOF
2: FLOCK  ADVISORY  WRITE 22 fe:01:42 0 EOF
2: -> FLOCK  ADVISORY  WRITE 33 fe:01:7 0 EOF
3: FLOCK  ADVISORY  WRITE 44 00:19:7 0 EOF
4: FLOCK  ADVISORY  WRITE 55 fe:01:7 0 EOF
5: OFDLCK ADVISORY  READ -1 fe:01:8 0 EOF
6: FLOCK  ADVISORY  WRITE -1 fe:01:9 0 EOF
7: FLOCK  ADVISORY  WRITE 0 fe:01:10 0 EOF
8: FLOCK
"""
DEVICE = os.makedev(0xFE, 1)


@contextmanager
def held_by_another(path: Path) -> Iterator[int]:
    """Give the PID of a process that holds the lock."""
    code = f"import fcntl; f = open({str(path)!r}); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.communicate(b"\n")


def test_the_file_is_private_and_stays(tmp_path: Path) -> None:
    with locked(tmp_path):
        status = (tmp_path / ".lock").stat()
    assert status.st_mode & 0o7777 == 0o600
    with locked(tmp_path):
        assert (tmp_path / ".lock").stat().st_ino == status.st_ino, "two writers would hold two locks"


def test_it_is_made_before_it_is_needed_and_never_replaced(tmp_path: Path) -> None:
    prepare(tmp_path)
    status = (tmp_path / ".lock").stat()
    assert status.st_mode & 0o7777 == 0o600
    prepare(tmp_path)
    assert (tmp_path / ".lock").stat().st_ino == status.st_ino
    prepare(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_a_second_writer_is_refused_in_time_with_the_first_ones_name(tmp_path: Path) -> None:
    with locked(tmp_path):
        pass
    with held_by_another(tmp_path / ".lock") as pid:
        with pytest.raises(LockError) as refused, locked(tmp_path, 0.1):
            pytest.fail("two writers at once")
        assert f"process {pid} (" in str(refused.value)
        assert f"`kill {pid}`" in str(refused.value)
        assert str(tmp_path / ".lock") in str(refused.value)
    with locked(tmp_path, 0.1):
        pass


def test_a_writer_waits_for_the_one_before(tmp_path: Path) -> None:
    with locked(tmp_path):
        pass
    descriptor = os.open(tmp_path / ".lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    closer = subprocess.Popen(["sleep", "0.2"], pass_fds=[descriptor])
    os.close(descriptor)
    with locked(tmp_path, 30):
        assert closer.poll() is not None or closer.wait(1) == 0
    closer.wait()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o610])
def test_a_file_that_others_can_open_is_no_lock(mode: int, tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / ".lock").chmod(mode)
    with pytest.raises(LockError, match=rf"has mode {mode:04o}; allowed: .*0600 \(`rm "), locked(tmp_path, 0):
        pytest.fail("taken")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")
def test_a_file_of_another_account_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch(0o600)
    os.chown(tmp_path / ".lock", 65534, 65534)
    with pytest.raises(LockError, match="belongs to user 65534"), locked(tmp_path, 0):
        pytest.fail("taken")


def test_a_link_a_pipe_and_a_directory_are_no_lock_and_are_not_waited_for(tmp_path: Path) -> None:
    for name in ("link", "pipe", "directory"):
        (tmp_path / name).mkdir()
    (tmp_path / "link/.lock").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe/.lock", 0o600)
    (tmp_path / "directory/.lock").mkdir(0o700)
    for name, said in (("link", "symbolic link"), ("pipe", "no regular file"), ("directory", "Is a directory")):
        with pytest.raises(LockError, match=said), locked(tmp_path / name, 0):
            pytest.fail("taken")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(("inode", "pid"), [(7, 55), (42, 22), (8, None), (9, None), (10, None), (11, None)], ids=str)
def test_the_kernel_says_who_holds_a_lock(inode: int, pid: int | None) -> None:
    assert holder(LOCKS, DEVICE, inode) == pid
    assert holder("", DEVICE, inode) is None
