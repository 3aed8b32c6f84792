"""An account of the node can ask olsrv2d's text interface, but neither slow the router down nor make it grow."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.attacks.flooding import await_full, await_routes, flooded, tcs
from tests.lab.basics import programs
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.net import topology
from tests.lab.node.routers import Mesh, Router

CONVERGED = 60.0
PORT = 'management.telnet = "127.0.0.1:2009"'
NOBODY = "65534"
ASK = """
import socket, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect(sys.argv[1])
asked.send(b"/version\\n")
print(asked.recv(99))
"""


@pytest.fixture(scope="module")
def asked() -> Iterator[Mesh]:
    """Start two routers; ``a`` has the port, and tables that a flood of TCs has filled for some minutes."""
    with Mesh(topology.line(["a", "b"]), settings={"a": PORT}) as mesh:
        mesh.start()
        mesh.wait_converged(CONVERGED)
        with flooded(mesh, 2000, lambda _victim: tcs()):
            await_full(mesh["a"], "/olsrv2info node", 1000)
        yield mesh


def _processor_seconds(router: Router) -> float:
    fields = Path(f"/proc/{router.daemon.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _most_memory(router: Router) -> int:
    """Return the most bytes that the process ever had in memory."""
    status = Path(f"/proc/{router.daemon.pid}/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def _read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@contextmanager
def _greedy(router: Router, readers: int, question: bytes) -> Iterator[list[int]]:
    """Open connections that ask again and again over the port. Yield the bytes that each has read."""
    stop, read = threading.Event(), [0] * readers

    def ask(index: int) -> None:
        while not stop.is_set():
            with suppress(OSError), router.text.connect_port() as connection:
                connection.settimeout(1)
                connection.sendall(question)
                while not stop.is_set() and (data := connection.recv(1 << 16)):
                    read[index] += len(data)

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(readers)]
    for thread in threads:
        thread.start()
    try:
        yield read
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_without_a_word_there_is_no_port_and_the_socket_answers() -> None:
    with Mesh(topology.line(["a", "b"])) as mesh:
        a = mesh["a"]
        a.start()
        assert a.text.ask("/version").startswith("olsrv2d ")
        with pytest.raises(ConnectionRefusedError):
            a.text.connect_port()


def test_an_account_outside_the_group_is_refused_by_the_socket(asked: Mesh) -> None:
    path = asked["a"].directory / "query.sock"
    argv = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "/usr/bin/python3", "-c", ASK, str(path)]
    refused = run(argv, check=False)
    assert "PermissionError" in refused.stderr
    mode = path.stat().st_mode
    path.chmod(0o666)
    try:
        assert "olsrv2d" in run(argv).stdout, "the control: the mode alone keeps it out"
    finally:
        path.chmod(mode & 0o777)


@pytest.mark.parametrize("question", [b"/netjsoninfo graph route\n", b"/netjsoninfo graph" * 8 + b"\n", b"\n" * 4000])
def test_eight_greedy_connections_take_a_fifth_of_a_processor_and_no_memory(asked: Mesh, question: bytes) -> None:
    a = asked["a"]
    a.text.ask("/netjsoninfo graph")  # The memory for one answer does not count as growth.
    memory, used, start = _most_memory(a), _processor_seconds(a), time.monotonic()
    with _greedy(a, 8, question) as read:
        wait_until("10 s of questions", lambda: time.monotonic() > start + 10, [], CONVERGED)
        share = (_processor_seconds(a) - used) / (time.monotonic() - start)
        assert json.loads(a.text.ask("/olsrv2info json originator"))["originator"], "the socket answers meanwhile"
    grown = _most_memory(a) - memory
    print(f"{share:.0%} of a processor, {grown >> 20} MiB more, {sum(read) >> 10} KiB read")
    assert sum(read) > 0, "the control: they are answered"
    assert share < 0.2
    assert grown < 32 << 20
    await_routes(a, asked["b"].destinations)


def test_a_long_answer_is_complete(asked: Mesh) -> None:
    """The answer comes in portions, and nothing is lost between them."""
    a = asked["a"]
    documents = json.loads(a.text.ask("/netjsoninfo graph"))["collection"]
    assert [len(document["nodes"]) > 0 for document in documents] == [True, True]
    with a.text.connect_port() as connection:
        connection.sendall(b"/netjsoninfo route\n")
        assert json.loads(_read_all(connection))["type"] == "NetworkCollection"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (b"/version" * 9, b"Error, a line has at most 8 commands\n"),
        (b"x" * 300, b"Error, a line has at most 256 octets\n"),
        (b"/netjsoninfo" + b" graph" * 20, b"Error, more than 4 subjects of netjsoninfo\n"),
    ],
)
def test_a_line_that_asks_for_too_much_is_refused(asked: Mesh, question: bytes, answer: bytes) -> None:
    with asked["a"].text.connect_port() as connection:
        connection.sendall(question + b"\n")
        assert _read_all(connection) == answer


def test_who_does_not_read_is_closed(asked: Mesh) -> None:
    a = asked["a"]
    with a.text.connect_port() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"/netjsoninfo graph" * 8 + b"\n")
        assert _established(a)
        wait_until("the router closes its end", lambda: not _established(a), [], CONVERGED)


def _established(router: Router) -> bool:
    """Return whether the router's end of a connection to the port is established."""
    return bool(router.run("ss", "-Htn", "state", "established", "sport", "=", ":2009").stdout.strip())


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ('telnet = "0.0.0.0:2009"', 'management.telnet = "0.0.0.0:2009" is refused; allowed: "off", or a loopback'),
        ('query = "query.sock"', 'management.query = "query.sock" is refused; allowed: "off", or an absolute path'),
        ('socket = "/x"\nquery = "/x"', 'management.query = "/x" is refused; allowed: another path'),
    ],
)
def test_a_bad_setting_is_refused_by_file_and_line(tmp_path: Path, setting: str, refusal: str) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(f"[management]\n{setting}\n", encoding="utf-8")
    refused = run([programs.olsrv2d(), "--config", str(bad), "--check"], check=False)
    assert refused.returncode == 2
    assert f"{bad}:{1 + len(setting.splitlines())}: {refusal}" in refused.stderr
