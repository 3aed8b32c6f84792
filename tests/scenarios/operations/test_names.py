"""A peer's name leads to it through the C library, from the trust on, until the trust ends, whoever else is alive.

The node's programs see an /etc of their own, because /etc/hosts is the machine's. Other programs change it meanwhile.
"""

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.basics import programs, shell
from tests.lab.basics.patience import patient
from tests.lab.basics.processes import Daemon
from tests.lab.faults.small_disk import small
from tests.lab.lab import Lab
from tests.lab.node.node import Node

SECONDS = 1.0
"""Time from `peer add` or `peer remove` to what programs see."""
LOCAL = "127.0.0.1 localhost\n"
EVIL = "203.0.113.66"
"""What the resolver outside answers to every question."""
PROGRAM_FILES = ("ld.so.cache", "passwd", "group", "host.conf", "services", "protocols")


class Machine:
    """What programs of a node's machine see: its network, and an /etc of its own in which the names are kept."""

    def __init__(self, node: Node, etc: Path) -> None:
        self.node, self.etc, self.hosts = node, etc, etc / "hosts"
        script = f'mount --make-rprivate / && mount --bind {etc} /etc && exec "$@"'
        keeper = [programs.meshsec(), "hosts", "--names", str(node.run_directory / "names/nodes")]
        self.keeper = Daemon(
            "names", node.namespace, ["sh", "-c", script, "sh", *keeper], logs=node.logs, sockets=node.run_directory
        )

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return shell.run(self._entered(argv), check=False)

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._entered(argv), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _entered(self, argv: Sequence[str]) -> list[str]:
        return ["nsenter", "--net", "--mount", f"--target={self.keeper.pid}", *argv]

    def addresses(self, name: str) -> list[str]:
        """Return what getaddrinfo(3) finds."""
        found = [line.split()[0] for line in self.run("getent", "ahosts", name).stdout.splitlines()]
        return list(dict.fromkeys(found))

    def name(self, address: str) -> str:
        """Return what getnameinfo(3) finds."""
        return "".join(self.run("getent", "hosts", address).stdout.split()[1:])


@contextmanager
def machine_of(node: Node, etc: Path) -> Iterator[tuple[Machine, Callable[[], None]]]:
    """Give a machine with a resolver outside that lies, and a function that fills its disk."""
    with small(etc) as fill:
        for name in PROGRAM_FILES:
            if Path("/etc", name).exists():
                shutil.copy(Path("/etc", name), etc)
        (etc / "hosts").write_text(LOCAL)
        (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
        (etc / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        made = Machine(node, etc)
        made.keeper.start()
        made.keeper.wait_ready()
        resolver = made.start(
            programs.dnsmasq(), "--keep-in-foreground", "--conf-file=", "--user=", "--pid-file=", "--no-resolv",
            "--no-hosts", "--listen-address=127.0.0.1", "--bind-interfaces", f"--address=/#/{EVIL}",
        )  # fmt: skip
        try:
            yield made, fill
        finally:
            resolver.terminate()
            resolver.wait()
            made.keeper.stop()


@pytest.fixture
def machine(mesh: Lab, tmp_path: Path) -> Iterator[Machine]:
    """Give node a's machine."""
    with machine_of(mesh["a"], tmp_path / "etc") as (made, _):
        soon("the names are there", lambda: "c.mesh" in made.hosts.read_text(), 10)
        yield made


def soon(what: str, condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Wait for something for at most ``seconds``."""
    deadline = time.monotonic() + patient(seconds)
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def both(node: Node) -> list[str]:
    return [node.address, node.ipv4]


def test_a_name_comes_with_the_trust_goes_with_it_and_needs_neither_meshsecd_nor_a_route(
    mesh: Lab, machine: Machine
) -> None:
    a, c = mesh["a"], mesh["c"]
    a.distrust(c)
    soon("the name goes", lambda: "c.mesh" not in machine.hosts.read_text())
    assert machine.addresses("c.mesh") in ([], [EVIL]), "nothing here says any more who that is"
    assert machine.name(c.address) == ""
    a.trust(c)
    soon("the name comes", lambda: sorted(machine.addresses("c.mesh")) == sorted(both(c)))
    assert {machine.name(one) for one in both(c)} == {"c.mesh"}
    assert machine.addresses("a.mesh")[0] in both(a)
    mesh.wait_full_mesh()
    assert machine.run("ping", "-6", "-c", "3", "-i", "0.2", "c.mesh").returncode == 0
    assert c.address in machine.run("python3", "-c", "import socket; print(socket.getaddrinfo('c.mesh', 22))").stdout
    refused = machine.run("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "c.mesh").stderr
    assert "connect to host c.mesh port 22" in refused
    a.daemons.agent.kill()
    mesh.link("a", "b").down()
    assert sorted(machine.addresses("c.mesh")) == sorted(both(c))
    machine.keeper.stop()
    assert "c.mesh" in machine.hosts.read_text()


def test_no_card_and_no_resolver_outside_takes_a_name(mesh: Lab, machine: Machine, tmp_path: Path) -> None:
    a, c = mesh["a"], mesh["c"]
    liars = {title: _card(tmp_path / title, said) for title, said in (("x1", "c"), ("x2", "localhost"), ("x3", "a"))}
    for title, card in liars.items():
        a.meshsec("peer", "add", title, card)
    try:
        soon("their names are there", lambda: all(f"{title}.mesh" in machine.hosts.read_text() for title in liars))
        for node in (a, c):
            assert sorted(machine.addresses(f"{node.name}.mesh")) == sorted(both(node))
        assert set(machine.addresses("localhost")) <= {"127.0.0.1", "::1"}
        kept = [line for line in machine.hosts.read_text().splitlines() if not line.endswith(".mesh")]
        assert kept[0] == LOCAL.strip()
        assert all(line.startswith("#") for line in kept[1:]), "no other name is there"
        assert machine.addresses("unknown.mesh") == [EVIL], "the resolver outside is asked, and lies"
        refused = a.meshsec("ssh", "unknown", check=False)
        assert (refused.returncode, "is the name of no peer" in refused.stderr) == (1, True)
    finally:
        for title in liars:
            a.meshsec("peer", "remove", title)


def _card(directory: Path, name: str) -> str:
    """Return the card of a stranger who gives his node this name."""
    directory.mkdir()
    config = directory / "meshsec.toml"
    config.write_text(
        f'[node]\nname = "{name}"\n[routing]\ninterfaces = ["mesh0"]\n'
        '[paths]\npeers = "peers"\nstate = "state"\nrun = "run"\n'
    )
    shell.run([programs.meshsec(), "--config", str(config), "init"])
    return str(
        json.loads(shell.run([programs.meshsec(), "--config", str(config), "key", "show", "--json"]).stdout)["card"]
    )


def test_what_the_administrator_and_other_programs_write_meanwhile_is_kept(mesh: Lab, machine: Machine) -> None:
    a, c = mesh["a"], mesh["c"]
    added = [f"10.2.{number // 250}.{number % 250} own{number}" for number in range(120)]

    def administer() -> None:
        """Append a line, or replace the file as sed -i and configuration management do."""
        for number, line in enumerate(added):
            if number % 2:
                shell.run(["sh", "-c", f"echo '{line}' >> {machine.hosts}"])
            else:
                shell.run(["sed", "-i", f"$a {line}", str(machine.hosts)])

    writer = threading.Thread(target=administer)
    writer.start()
    while writer.is_alive():
        a.distrust(c)
        a.trust(c)
    writer.join()
    others = [line for line in machine.hosts.read_text().splitlines() if ".mesh" not in line]
    machine.hosts.write_text("".join(f"{line}\n" for line in others))
    soon("the names are back", lambda: "c.mesh" in machine.hosts.read_text())
    lines = machine.hosts.read_text().splitlines()
    assert [line for line in lines if line.startswith("10.2.")] == added
    assert lines[0] == LOCAL.strip()


def test_a_full_disk_changes_nothing_and_the_name_comes_when_there_is_room(mesh: Lab, tmp_path: Path) -> None:
    a, c = mesh["a"], mesh["c"]
    with machine_of(a, tmp_path / "etc") as (machine, fill):
        soon("the names are there", lambda: "c.mesh" in machine.hosts.read_text(), 10)
        machine.hosts.chmod(0o640)
        fill()
        before = machine.hosts.read_text()
        a.distrust(c)
        soon("it is reported", lambda: "No space left" in machine.keeper.tail(), 10)
        assert machine.hosts.read_text() == before
        a.trust(c)
        a.distrust(c)
        (machine.etc / "filler").unlink()
        soon("the name goes", lambda: "c.mesh" not in machine.hosts.read_text(), 15)
        a.trust(c)
        soon("the name comes", lambda: "c.mesh" in machine.hosts.read_text())
        assert machine.hosts.stat().st_mode & 0o777 == 0o640
