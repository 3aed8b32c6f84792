"""A node of the test fleet is as bare as a machine before its first playbook, and has no way out."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.lab.basics.patience import patient
from tests.lab.machines import fleet, fleet_root
from tests.lab.machines.fleet import Fleet
from tests.lab.machines.fleet_controller import Controller
from tests.lab.machines.fleet_repository import SigningKey
from tests.lab.net import namespaces

RELEASES = {"trixie": "13", "bookworm": "12"}
SYS_TIME = 25  # linux/capability.h.

pytestmark = pytest.mark.timeout(600, func_only=True)
"""The time limit excludes the fixtures, because building the roots takes long."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Start one node of each release; the project has no packages for them."""
    if obstacle := fleet.obstacle():
        pytest.skip(obstacle)
    with Fleet(2, packages=tmp_path_factory.mktemp("none")) as booted:
        yield booted


@pytest.fixture(params=RELEASES)
def name(two: Fleet, request: pytest.FixtureRequest) -> str:
    """Return the name of the release's node."""
    return next(name for name, node in two.nodes.items() if node.suite == request.param)


def test_a_node_is_reached_by_ssh_and_has_nothing_of_the_project(two: Fleet, name: str) -> None:
    release = two.ssh(name, ". /etc/os-release; echo $VERSION_ID").stdout.strip()
    assert release == RELEASES[two.nodes[name].suite]
    assert two.ssh(name, "systemctl is-system-running --wait").stdout.strip() == "running"
    installed = set(two.ssh(name, "dpkg-query --show --showformat '${Package}\\n'").stdout.split())
    assert installed >= set(fleet_root.PREINSTALLED)
    assert installed.isdisjoint({"charon-systemd", "iproute2", "nftables", "meshsec"})


def test_a_node_cannot_set_this_machines_clock(two: Fleet, name: str) -> None:
    bounding = int(two.ssh(name, "sed -n 's/^CapBnd:\\s*//p' /proc/1/status").stdout, 16)
    assert not bounding >> SYS_TIME & 1
    assert bounding & 1  # The file was read and is not empty.


def test_no_host_key_is_taken_on_trust(two: Fleet, name: str) -> None:
    other = next(other for other in two.nodes if other != name)
    known = two.keys.hosts.read_text(encoding="ascii")
    swapped = known.replace(two.nodes[name].address, "x").replace(two.nodes[other].address, two.nodes[name].address)
    two.keys.hosts.write_text(swapped, encoding="ascii")
    try:
        assert "HOST IDENTIFICATION HAS CHANGED" in two.ssh(name, "true", check=False).stderr
    finally:
        two.keys.hosts.write_text(known, encoding="ascii")
    two.ssh(name, "true")


def test_there_is_no_way_out_of_the_management_network(two: Fleet, name: str) -> None:
    routes = two.ssh(name, "tail -n +2 /proc/net/route").stdout.split("\n")
    targets = {line.split()[1] for line in routes if line}
    assert targets == {"000012C6"}  # 198.18.0.0, as the kernel of a little-endian machine prints it.
    shown = subprocess.run(
        [*two.controller, "ip", "route", "show"], text=True, stdout=subprocess.PIPE, check=True, timeout=60
    ).stdout
    assert shown.startswith("198.18.0.0/24 dev bridge")
    assert len(shown.splitlines()) == 1


def test_a_bare_node_says_that_it_cannot_tell_what_would_change(two: Fleet, name: str) -> None:
    played = Controller(two).play("provision", "--check", "--limit", name, check=False)
    assert played.recap[name]["failed"] == 1, played.output
    assert "leave --check out the first time" in played.output
    assert "python3-apt" not in two.ssh(name, "dpkg-query --show --showformat '${Package}\\n'").stdout.split()


def test_a_node_installs_from_its_mirror(two: Fleet, name: str) -> None:
    two.ssh(name, "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install ethtool")
    assert "ethtool version" in two.ssh(name, "ethtool --version").stdout


def test_a_repository_signed_by_another_key_is_refused(two: Fleet, name: str) -> None:
    with SigningKey() as other:
        two.nodes[name].write("/etc/apt/keyrings/other.asc", other.public().decode())
    source = "/etc/apt/sources.list.d/mirror.sources"
    try:
        two.ssh(name, f"sed -i s/debian.asc/other.asc/ {source} && rm -r /var/lib/apt/lists")
        refused = two.ssh(name, "apt-get -q update --error-on=any", check=False)
    finally:
        two.ssh(name, f"sed -i s/other.asc/debian.asc/ {source}")
    assert refused.returncode != 0
    assert "not signed" in refused.stdout + refused.stderr
    two.ssh(name, "apt-get -q update --error-on=any")


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_fleet_that_is_ended_leaves_nothing_behind(two: Fleet, tmp_path: Path, ending: signal.Signals) -> None:
    link = tmp_path / "run"
    argv = [
        "env",
        "--ignore-signal=INT",  # As a shell starts background jobs.
        sys.executable,
        "-m",
        "tests.lab.machines.fleet",
        "--nodes",
        "2",
        "--packages",
        str(tmp_path),
        f"--handover={link}",
    ]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        said = list(iter_until(running.stderr, "run there"))
        own = f"{namespaces.PREFIX}{running.pid}."
        assert len(namespaces.existing(own)) == 3, said
        directory = link.resolve()
        assert (directory / "inventory/hosts.json").exists()
        os.kill(running.pid, ending)
        try:
            assert running.wait(patient(120)) == 0
        except subprocess.TimeoutExpired:
            running.terminate()
            raise
    assert not namespaces.existing(own)
    assert not directory.exists()
    assert not link.is_symlink()


def iter_until(lines: Iterable[str], last: str) -> Iterator[str]:
    """Yield the lines up to the first one that contains ``last``."""
    for line in lines:
        yield line
        if last in line:
            break
