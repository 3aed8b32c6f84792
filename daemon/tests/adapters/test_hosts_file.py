"""/etc/hosts is replaced as a whole, and a program that changes it at the same time loses no line."""

import os
import select
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from meshsec import files
from meshsec.adapters.files import hosts_file
from meshsec.adapters.files.changes import Changes
from meshsec.core.formats import hosts

LINES = ("fc00::2 n2.mesh",)
LOCAL = b"127.0.0.1 localhost\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (path := tmp_path / "hosts").write_bytes(LOCAL)
    return path


def lines(path: Path) -> tuple[str, ...]:
    return hosts_file.parts(path).lines


def test_the_file_is_replaced_with_its_mode_and_owner_and_only_when_something_changes(path: Path) -> None:
    path.chmod(0o640)
    owner = (65534, 65534) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(path, *owner)
    before = path.stat()
    assert hosts_file.put(path, LINES)
    after = path.stat()
    assert path.read_bytes() == hosts.joined(LOCAL, LINES)
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, *owner)
    assert after.st_ino != before.st_ino, "a reader of the old file sees all of it"
    assert hosts_file.put(path, LINES)
    assert path.stat().st_ino == after.st_ino
    assert hosts_file.put(path, ())
    assert path.read_bytes() == LOCAL
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_file_is_made_and_a_link_is_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    assert hosts_file.put(tmp_path / "link", LINES)
    assert (tmp_path / "link").is_symlink()
    assert lines(path) == LINES
    assert hosts_file.put(made := tmp_path / "made", ())
    assert not made.exists()
    assert hosts_file.put(made, LINES)
    assert (lines(made), made.stat().st_mode & 0o777) == (LINES, 0o644)


def test_while_another_program_has_it_open_for_writing_nothing_is_changed(path: Path) -> None:
    with path.open("wb") as editor:  # an editor that has emptied the file, and not written it yet
        assert not hosts_file.put(path, LINES)
        editor.write(LOCAL + b"10.1.1.1 printer\n")
    assert hosts_file.put(path, LINES)
    assert hosts_file.parts(path).before == LOCAL + b"10.1.1.1 printer\n"


def meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
    """Let others do something after the new file was made, and just before it takes the old one's place."""
    exchange = hosts_file._exchange

    def worked(one: Path, other: Path) -> None:
        work()
        exchange(one, other)

    monkeypatch.setattr(hosts_file, "_exchange", worked)


def test_a_file_that_is_renamed_over_it_meanwhile_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, lambda: files.write(path, LOCAL + b"10.1.1.1 printer\n", 0o644))
    assert not hosts_file.put(path, LINES)
    assert path.read_bytes() == LOCAL + b"10.1.1.1 printer\n"
    assert list(path.parent.iterdir()) == [path]


def test_what_is_appended_meanwhile_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel makes the writer wait, so that it writes into the file that is put back."""
    writers: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        writers.append(subprocess.Popen(["/bin/sh", "-c", f"echo started; echo 10.1.1.1 printer >> {path}"], stdout=-1))
        assert writers[0].stdout
        assert writers[0].stdout.readline() == b"started\n"
        waiting = Path(f"/proc/{writers[0].pid}/wchan")
        while "lease" not in waiting.read_text() and writers[0].poll() is None:
            select.select([], [], [], 0.005)

    meanwhile(monkeypatch, begin)
    assert not hosts_file.put(path, LINES)
    writers[0].communicate(timeout=10)
    assert path.read_bytes() == LOCAL + b"10.1.1.1 printer\n"


def test_a_file_that_cannot_be_replaced_stays_and_the_error_names_it(path: Path) -> None:
    os.truncate(path, hosts_file.LIMIT + 1)
    with pytest.raises(files.FileError, match="is longer than"):
        hosts_file.put(path, LINES)
    with pytest.raises(files.FileError, match=r"Is a directory; nothing was changed"):
        hosts_file.put(path.parent, LINES)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_file_that_is_a_mount_as_in_containers_stays_and_the_error_says_so(path: Path) -> None:
    code = f"from meshsec.adapters.files import hosts_file as h; from pathlib import Path; h.put(Path('{path}'), ['x'])"
    script = f'mount --bind {path} {path}; exec {sys.executable} -c "{code}"'
    done = subprocess.run(["unshare", "--mount", "sh", "-ec", script], capture_output=True, text=True, check=False)
    assert done.stderr.endswith(f"{path}: Device or resource busy; nothing was changed\n")
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == LOCAL


def test_each_kind_of_change_is_noticed_and_others_are_not(path: Path, tmp_path: Path) -> None:
    changes = Changes([path, tmp_path / "later"])
    for work in (
        lambda: files.write(path, b"x", 0o644),
        lambda: path.write_bytes(b"y"),
        path.unlink,
        (tmp_path / "later").touch,
        lambda: (tmp_path / "later").rename(tmp_path / "other"),
    ):
        waiting = threading.Thread(target=changes.wait, args=[None], daemon=True)
        waiting.start()
        work()
        waiting.join(10)
        assert not waiting.is_alive()
        changes.wait(0.01)  # for what belongs to the same change
    (tmp_path / "unheard").touch()
    waiting = threading.Thread(target=changes.wait, args=[None], daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    path.touch()
    waiting.join(10)


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(files.FileError, match=f"{tmp_path}/none: No such file"):
        Changes([tmp_path / "none/hosts"])


def test_a_list_of_refused_names_takes_little_more_memory_than_twice_its_size(path: Path) -> None:
    """meshsec-names.service has MemoryMax=64M, of which Python takes a quarter."""
    line = b"0.0.0.0 advertisement.example.com\n"
    path.write_bytes(line * ((hosts_file.LIMIT - 4096) // len(line)))
    tracemalloc.start()
    try:
        for wanted in (LINES, ("fc00::3 n3.mesh", *LINES), ()):
            assert hosts_file.put(path, wanted)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * hosts_file.LIMIT
