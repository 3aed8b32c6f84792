"""With another version of the packages traffic goes on, or the first node that gets it is restored."""

import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fleet.longer import longer
from tests.lab.basics import shell
from tests.lab.basics.waiting import wait_until
from tests.lab.machines.fleet import Fleet
from tests.lab.machines.fleet_controller import Controller
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import wait_arrivals
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

pytestmark = pytest.mark.timeout(900, func_only=True)
"""The time limit excludes the fixtures, because provisioning a fleet takes long."""

GOOD, BROKEN = "7.1", "7.2"
_ENDS_AT_ONCE = "#!/bin/sh\nexit 1\n"


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the project's packages as versions GOOD and BROKEN, in ``VERSION/RELEASE``."""
    return tmp_path_factory.mktemp("newer")


@pytest.fixture
def offered(line: Fleet, newer: Path) -> Callable[[str], None]:
    """Return a function that offers a version in the repositories beside the one that was installed first."""

    def offer(version: str) -> None:
        for suite in {machine.suite for machine in line.nodes.values()}:
            made = newer / version / suite
            if not made.exists():
                made.mkdir(parents=True)
                for package in line.packages(suite):
                    _repack(package, f"{version}+{suite}", made, _spoil if version == BROKEN else None)
            beside = [path for other in (GOOD, BROKEN) for path in (newer / other / suite).glob("*.deb")]
            line.offer(suite, [*line.packages(suite), *beside])

    return offer


def test_a_newer_version_comes_to_all_nodes_and_traffic_goes_on(
    controller: Controller, line: Fleet, offered: Callable[[str], None]
) -> None:
    offered(GOOD)
    before = {name: _version(line, name) for name in line.nodes}
    ran = {name: _processes(line, name) for name in line.nodes}
    would = controller.play("upgrade", "--check")
    assert all(counts["changed"] for counts in would.recap.values())
    assert {name: _version(line, name) for name in line.nodes} == before

    with captured(line.lab, "upgrade") as captures:
        with flow(line.lab["a"], line.lab["c"]) as running:
            controller.play("upgrade", "-e", "upgrade_serial=1")
            wait_arrivals(running, 50)
        assert captures["b"].counts[Kind.ESP] > 0
    assert_nothing_clear(captures)
    print(f"user data in the upgrade of all nodes: {running.summary()}")
    for name, (ike, *daemons) in ran.items():
        still, *renewed = _processes(line, name)
        assert still == ike, f"charon of {name} was restarted, and its SAs are lost"
        assert not set(renewed) & set(daemons), f"{name} runs a daemon of the version before"
    assert {name: _version(line, name) for name in line.nodes} == {
        name: f"{GOOD}+{machine.suite}" for name, machine in line.nodes.items()
    }
    assert controller.play("upgrade").changed == 0


def test_a_version_that_does_not_run_is_taken_back_and_reaches_no_other_node(
    controller: Controller, line: Fleet, offered: Callable[[str], None]
) -> None:
    offered(BROKEN)
    before = {name: _version(line, name) for name in line.nodes}
    played = controller.play("upgrade", "-e", "upgrade_patience=30", check=False)
    assert played.status != 0
    assert "was taken back to" in played.output
    assert set(played.recap) == {"a"}, played.output
    assert {name: _version(line, name) for name in line.nodes} == before
    line.lab.wait_full_mesh()
    assert line.ssh("a", "systemctl list-units --failed --plain --no-legend").stdout == ""


@longer
def test_a_node_that_nobody_reaches_any_more_goes_back_to_its_packages_by_itself(
    line: Fleet, offered: Callable[[str], None]
) -> None:
    offered(BROKEN)
    before = _version(line, "a")
    line.ssh("a", f"rm -rf /root/back; mkdir /root/back; cd /root/back; apt-get -q download meshsec={before}")
    line.ssh(
        "a", f"meshsec-deadman arm 45 /root/back; apt-get -q update; apt-get -q -y install meshsec={_of(line, BROKEN)}"
    )
    assert line.ssh("a", "meshsec status", check=False).returncode != 0
    wait_until("the node goes back", lambda: _version(line, "a") == before, (), 240)
    line.lab.wait_full_mesh()


def test_a_version_that_the_repository_does_not_have_is_named(controller: Controller, line: Fleet) -> None:
    played = controller.play("upgrade", "-e", "upgrade_version=99", check=False)
    assert played.status != 0
    assert "cannot go to version 99" in played.output
    assert played.changed == 0


def _version(line: Fleet, name: str) -> str:
    return line.ssh(name, "dpkg-query --show --showformat '${Version}' meshsec").stdout


def _processes(line: Fleet, name: str) -> list[str]:
    """Return the main processes of charon, meshsecd and the router."""
    show = "for unit in meshsec-ike meshsecd olsrv2d; do systemctl show --property MainPID --value $unit; done"
    found = line.ssh(name, show).stdout.split()
    assert len(found) == 3, found
    assert "0" not in found, f"not everything runs on {name}: {found}"
    return found


def _of(line: Fleet, version: str) -> str:
    return f"{version}+{line.nodes['a'].suite}"


def _repack(package: Path, version: str, into: Path, spoil: Callable[[Path], None] | None) -> None:
    """Build the same package with another version and, if asked for, with changed content."""
    with tempfile.TemporaryDirectory(prefix="meshsec-repack-") as directory:
        tree = Path(directory) / "tree"
        shell.run(["dpkg-deb", "--raw-extract", str(package), str(tree)])
        control = tree / "DEBIAN" / "control"
        control.write_text(
            re.sub(r"^Version: .*$", f"Version: {version}", control.read_text("utf-8"), flags=re.MULTILINE), "utf-8"
        )
        if spoil:
            spoil(tree)
        kind = package.name.rpartition("_")[2]
        name = f"{package.name.partition('_')[0]}_{version}_{kind}"
        shell.run(["dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", str(tree), str(into / name)])
        shutil.rmtree(tree)


def _spoil(tree: Path) -> None:
    program = tree / "usr" / "bin" / "meshsecd"
    if program.exists():
        program.write_text(_ENDS_AT_ONCE, encoding="ascii")
