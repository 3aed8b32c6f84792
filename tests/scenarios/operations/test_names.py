"""A peer's name leads to it through the C library, from the trust on, until the trust ends, whoever else is alive.

The node's programs see an /etc of their own, because /etc/hosts is the machine's. Other programs change it meanwhile.
"""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.basics import programs, shell
from tests.lab.lab import Lab
from tests.lab.node.node import Node
from tests.scenarios.machine import EVIL, LOCAL, Machine, machine_of, soon


@pytest.fixture
def machine(mesh: Lab, tmp_path: Path) -> Iterator[Machine]:
    """Give node a's machine."""
    with machine_of(mesh["a"], tmp_path / "etc") as (made, _):
        soon("the names are there", lambda: "c.mesh" in made.hosts.read_text(), 10)
        yield made


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


def test_where_etc_cannot_be_written_the_names_are_in_the_file_to_which_its_hosts_leads(
    mesh: Lab, tmp_path: Path
) -> None:
    a, c, state = mesh["a"], mesh["c"], tmp_path / "state"
    state.mkdir()
    with machine_of(a, tmp_path / "etc", state=state) as (machine, _):
        soon("the names are there", lambda: sorted(machine.addresses("c.mesh")) == sorted(both(c)), 10)
        assert "Read-only file system" in machine.run("touch", "/etc/written").stderr
        a.distrust(c)
        soon("the name goes", lambda: "c.mesh" not in machine.hosts.read_text())
        a.trust(c)
        soon("the name comes", lambda: sorted(machine.addresses("c.mesh")) == sorted(both(c)))
        (state / "hosts").write_text(f"{LOCAL}10.2.0.1 own\n")
        soon("the names are back, and the line of others stays", lambda: "c.mesh" in machine.hosts.read_text())
        assert machine.addresses("own") == ["10.2.0.1"]
        assert machine.hosts.is_symlink()
