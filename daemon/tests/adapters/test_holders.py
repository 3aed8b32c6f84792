"""Who holds the keys is found in /proc, and ended whatever it does. Nobody else is."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from children import child
from meshsec.adapters import holders
from meshsec.adapters.holders import Marks

LISTENING = """\
import signal, socket, subprocess, sys
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
sock = socket.socket(socket.AF_UNIX)
sock.bind(sys.argv[1])
sock.listen()
subprocess.Popen(["sleep", "60"], start_new_session=True)
print("ready", flush=True)
signal.pause()
"""


LOOKING = """\
import sys
from meshsec.adapters import holders
print(holders.find(holders.Marks((), (sys.argv[1],), ())))
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def started() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listening(stack: ExitStack, path: Path, *more: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", LISTENING, str(path), *more], stdout=subprocess.PIPE)
    stack.enter_context(process)
    stack.callback(process.kill)
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    return process


def marks(*sockets: Path, arguments: tuple[str, ...] = ()) -> Marks:
    return Marks([str(path) for path in sockets], arguments, ())


def test_who_listens_there_is_found_with_its_children_and_nobody_else(started: ExitStack, tmp_path: Path) -> None:
    for name in ("run", "running"):
        (tmp_path / name).mkdir()
    ours = listening(started, tmp_path / "run/control.sock")
    other = listening(started, tmp_path / "running/control.sock")
    found = holders.find(marks(tmp_path / "run"))
    assert found[0].pid == ours.pid
    assert [holder.name for holder in found[1:]] == ["sleep"]
    ended, left = holders.end(marks(tmp_path / "run"), 1.0, 2.0)
    assert ({*ended}, left) == ({*found}, [])
    assert ours.wait(5) == -signal.SIGTERM
    assert other.poll() is None
    for holder in holders.find(marks(tmp_path / "running")):
        os.kill(holder.pid, signal.SIGKILL)


@pytest.mark.parametrize("how", ["deaf", "stopped"])
def test_who_does_not_listen_to_reason_is_killed(started: ExitStack, tmp_path: Path, how: str) -> None:
    process = listening(started, tmp_path / "control.sock", how)
    if how == "stopped":
        process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    ended, left = holders.end(marks(tmp_path / "control.sock"), 0.1, 2.0)
    assert (len(ended), left) == (2, [])
    assert 0.1 <= time.monotonic() - began < 2.0
    assert process.wait(5) == -signal.SIGKILL


def test_a_file_of_the_node_on_the_command_line_marks_a_process(started: ExitStack, tmp_path: Path) -> None:
    process = listening(started, tmp_path / "sock", "/etc/of/the/node.toml")
    assert process.pid in [holder.pid for holder in holders.find(marks(arguments=("/etc/of/the/node.toml",)))]
    assert holders.find(marks(arguments=("/etc/of/the/node",))) == []
    assert len(holders.end(marks(tmp_path / "sock"), 1, 2)[0]) == 2


def test_who_looks_and_what_started_it_are_spared(tmp_path: Path) -> None:
    script = tmp_path / "looking.py"
    script.write_text(LOOKING)
    argv = ["sh", "-c", f"{sys.executable} {script} $0; exit $?", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_who_has_ended_is_not_found_although_nobody_has_asked_for_its_status(started: ExitStack) -> None:
    everybody = Marks((), (), ("0::",))  # the beginning of /proc/PID/cgroup
    process = started.enter_context(child(subprocess.Popen(["sleep", "60"])))
    assert process.pid in [holder.pid for holder in holders.find(everybody)]
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process.pid not in [holder.pid for holder in holders.find(everybody)]


def test_without_marks_nobody_is_found() -> None:
    assert holders.find(Marks((), (), ())) == []
    assert holders.end(Marks((), (), ()), 1, 1) == ([], [])
