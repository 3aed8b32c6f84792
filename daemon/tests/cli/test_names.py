"""``ip``, ``ping`` and ``ssh`` go by the trust store, and ``doctor`` by what /etc/hosts says."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

from cli.test_daemon import Daemon, running
from cli.test_process import PROGRAM
from meshsec.adapters import systemd
from meshsec.adapters.files import hosts_file
from meshsec.cli import hosts as hosts_keeper
from meshsec.cli import names_check
from meshsec.core.formats import hosts
from meshsec.core.trust import card as cards

Meshsec = Callable[..., Result]
SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/meshsec-names-1.json"


@pytest.fixture
def address(meshsec: Meshsec, boat: Meshsec) -> str:
    """Trust the node boat under the name ``bravo``, and give its address."""
    card: str = json.loads(boat("key", "show", "--json").stdout)["card"]
    assert meshsec("peer", "add", "bravo", card).exit_code == 0
    return str(cards.parse(card).address)


def test_the_addresses_of_a_peer_are_printed_by_the_name_that_it_has_here(meshsec: Meshsec, address: str) -> None:
    assert meshsec("ip", "bravo").stdout == meshsec("ip", "bravo.mesh").stdout == f"{address}\n10.77.0.2\n"
    everybody = json.loads(meshsec("ip", "--json").stdout)
    jsonschema.validate(everybody, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert [one["name"] for one in everybody["names"]] == ["rescue-1.mesh", "bravo.mesh"]
    assert meshsec("ip").stdout.splitlines()[2].split() == ["bravo.mesh", f"{address},", "10.77.0.2"]


@pytest.mark.parametrize("command", ["ip", "ping", "ssh"])
def test_a_name_that_is_no_peers_is_refused_and_the_commands_are_named(
    meshsec: Meshsec, address: str, command: str
) -> None:
    assert "perhaps 'bravo' is meant" in meshsec(command, "brav").stderr
    for name in ("boat", "localhost", "8.8.8.8", "bravo.mesh.mesh"):  # the first is what its own card says
        refused = meshsec(command, name)
        assert refused.exit_code == 1
        assert f"{name!r} is the name of no peer" in refused.stderr
        assert "`meshsec peer list`" in refused.stderr


def become(tmp_path: Path, *arguments: str, programs: str = "ping ssh") -> subprocess.CompletedProcess[str]:
    """Run a command with programs that print what they are called with."""
    (directory := tmp_path / "bin").mkdir(exist_ok=True)
    for name in programs.split():
        (directory / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (directory / name).chmod(0o755)
    environment = {**os.environ, "PATH": str(directory)}
    argv = [*PROGRAM, "--config", str(tmp_path / "a/meshsec.toml"), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)


def test_ping_and_ssh_run_the_systems_programs_with_the_address(tmp_path: Path, meshsec: Meshsec, address: str) -> None:
    assert become(tmp_path, "ping", "bravo", "-c", "3").stdout == f"ping -c 3 {address}\n"
    known = f"ssh -o HostName={address} -o HostKeyAlias=bravo.mesh"
    assert become(tmp_path, "ssh", "bravo").stdout == f"{known} bravo.mesh\n"
    assert become(tmp_path, "ssh", "root@bravo.mesh", "ls", "-l").stdout == f"{known} root@bravo.mesh ls -l\n"
    assert "meshsecd does not answer" in become(tmp_path, "ssh", "bravo").stderr


def test_a_program_that_is_missing_is_named_with_its_package(tmp_path: Path, meshsec: Meshsec, address: str) -> None:
    done = become(tmp_path, "ping", "bravo", programs="")
    assert (done.returncode, "ping is not installed: apt install iputils-ping" in done.stderr) == (1, True)


@pytest.fixture
def daemon(tmp_path: Path, meshsec: Meshsec) -> Iterator[Daemon]:
    (tmp_path / "a/run").mkdir()
    with running(tmp_path / "a/run/control.sock", made := Daemon()):
        yield made


@pytest.mark.parametrize(("name", "told"), [("n2", False), ("n3", True)])
def test_a_peer_that_cannot_answer_is_tried_all_the_same_and_the_reason_is_said(
    tmp_path: Path, boat: Meshsec, daemon: Daemon, name: str, *, told: bool
) -> None:
    (tmp_path / "a/peers").mkdir(exist_ok=True)
    card = json.loads(boat("key", "show", "--json").stdout)["card"]
    (tmp_path / f"a/peers/{name}.card").write_text(f"{card}\n")
    done = become(tmp_path, "ping", name)
    assert done.stdout == f"ping {cards.parse(card).address}\n"
    assert (f"{name} does not answer now, its state is no-route" in done.stderr) == told
    assert (f"`meshsec explain {name}` says more" in done.stderr) == told


def test_doctor_compares_etc_hosts_with_what_meshsecd_wants(
    tmp_path: Path, meshsec: Meshsec, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> list[tuple[str, str, str]]:
        checks = json.loads(meshsec("doctor", "--json").stdout)["checks"]
        return [(one["level"], one["found"], one["mend"]) for one in checks if one["name"].startswith("name")]

    monkeypatch.setattr(hosts_file, "HOSTS", path := tmp_path / "hosts")
    monkeypatch.setattr(names_check, "_SWITCH", switch := tmp_path / "nsswitch.conf")
    assert found() == [], "meshsecd has said nothing yet"
    (tmp_path / "a/run/names").mkdir()
    (wanted := tmp_path / "a/run/names/nodes").write_text("fc00::2 n2.mesh\n")
    assert found() == [], "this node is not the machine's own"
    monkeypatch.setattr(hosts_keeper, "NAMES", wanted)
    ((level, missing, fix),) = found()
    assert (level, missing) == ("warn", "not in /etc/hosts: n2.mesh")
    assert "meshsec" in fix
    hosts_file.put(path, ["fc00::2 n2.mesh"])
    assert found() == [("ok", "/etc/hosts has those of this node and its peers", "")]
    switch.write_text("hosts: dns\n")
    path.write_bytes(hosts.joined(b"10.1.1.1 n2.mesh\n", ["fc00::2 n2.mesh"]))
    assert [level for level, *_ in found()] == ["ok", "warn", "warn"]
    wanted.write_text("fc00::2 localhost\n")
    ((level, refused, _),) = found()
    assert (level, f"{wanted}: line 1 is 'fc00::2 localhost'" in refused) == ("warn", True)


def test_doctor_says_what_can_be_done_where_etc_hosts_is_a_mount_or_there_is_no_systemd(
    tmp_path: Path, meshsec: Meshsec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fix() -> str:
        checks = json.loads(meshsec("doctor", "--json").stdout)["checks"]
        return next(str(one["mend"]) for one in checks if one["name"] == "names")

    (tmp_path / "a/run/names").mkdir(parents=True)
    (wanted := tmp_path / "a/run/names/nodes").write_text("fc00::2 n2.mesh\n")
    monkeypatch.setattr(hosts_keeper, "NAMES", wanted)
    monkeypatch.setattr(hosts_file, "HOSTS", path := tmp_path / "hosts")
    monkeypatch.setattr(systemd, "BOOTED", tmp_path / "none")
    monkeypatch.setattr(names_check, "_MOUNTS", mounts := tmp_path / "mountinfo")
    mounts.write_text("30 1 0:26 / /etc rw - ext4 /dev/sda1 rw\n")
    assert fix() == "as root: meshsec hosts &"
    mounts.write_text(f"30 1 0:26 / {path} rw - ext4 /dev/sda1 rw\n")
    assert "is a mount, as in containers" in fix()


def test_names_of_clients_alone_are_written_at_a_pace_and_those_of_nodes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_file, "HOSTS", path := tmp_path / "hosts")
    path.write_bytes(b"127.0.0.1 localhost\n")
    names = tmp_path / "nodes"
    kept = hosts_keeper._Kept(names)
    assert kept.put(0.0) is None
    assert hosts_file.parts(path).lines == (), "meshsecd has said nothing yet"
    node, written, seconds = "fc00::2 n2.mesh\n", set(), None
    for number in range(100):
        names.write_text(f"{node}10.130.0.2 phone-{number}.n2.mesh\n")
        seconds = kept.put(float(number))
        written.add(path.read_bytes())
    assert 1 < len(written) <= 12
    assert seconds is not None
    assert 0 < seconds <= 60
    path.write_bytes(b"127.0.0.1 localhost\n")
    assert kept.put(99.0) is not None
    assert "fc00::2 n2.mesh" in hosts_file.parts(path).lines, "what another program removed is there again"
    names.write_text(f"{node}fc00::3 n3.mesh\n10.130.0.2 last.n2.mesh\n")
    assert kept.put(99.0) is None
    assert hosts_file.parts(path).lines == ("fc00::2 n2.mesh", "fc00::3 n3.mesh", "10.130.0.2 last.n2.mesh")
    names.write_text(f"{node}fc00::3 n3.mesh\n10.130.0.2 later.n2.mesh\n")
    waited = kept.put(99.0)
    assert waited is not None
    assert kept.put(99.0 + waited) is None
    assert "10.130.0.2 later.n2.mesh" in hosts_file.parts(path).lines
