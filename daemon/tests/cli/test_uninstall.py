"""``meshsec uninstall`` in a network namespace: it says what it would do, does that alone, and names what fails.

A booted machine shows the whole (tests/scenarios/operations/test_uninstall.py).
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from cli.answering import answering
from meshsec.adapters import systemd
from meshsec.adapters.files import credential, drop_in_files, hosts_file, replaced_units, sysctl_d
from meshsec.adapters.files.replaced_units import Was
from meshsec.adapters.kernel.held_rules import HeldRules
from meshsec.adapters.kernel.nftables import BLOCK_PRIORITY, OPEN_PRIORITY
from meshsec.cli import uninstall
from meshsec.core.channels.nft_rules import HELD_TABLES
from meshsec.core.formats import hosts
from namespaces import inside, ip, new_namespace

__all__ = ["inside", "new_namespace"]

Meshsec = Callable[..., Result]
YES = "--yes"
MINE = b"127.0.0.1 localhost\n"
ADDRESS = ("10.77.0.1/32", "dev", "lo")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may undo it"),
    pytest.mark.usefixtures("inside"),  # It takes the rules of the namespace that it runs in away.
]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the files of the node ``a`` those of the machine, which has no systemd, and let something of it be left."""
    monkeypatch.setattr(uninstall, "SYSTEM_CONFIG", tmp_path / "a/meshsec.toml")
    monkeypatch.setattr(systemd, "BOOTED", tmp_path / "none")
    monkeypatch.setattr(sysctl_d, "ROOT", tmp_path / "root")
    monkeypatch.setattr(drop_in_files, "DIRECTORY", tmp_path / "system")
    monkeypatch.setattr(credential, "STORE", tmp_path / "credstore")
    monkeypatch.setattr(hosts_file, "HOSTS", tmp_path / "hosts")
    hosts_file.HOSTS.write_bytes(hosts.joined(MINE, ["fc00::2 b.mesh"]))
    nft("add table inet meshsec; add table inet mine")
    ip("address", "add", *ADDRESS)
    ip("address", "add", "10.66.0.1/32", "dev", "lo")
    ip("route", "add", "10.9.0.0/24", "dev", "lo", "proto", "100")
    ip("route", "add", "10.67.0.0/24", "dev", "lo", "proto", "static")
    return tmp_path / "a"


def nft(text: str) -> None:
    subprocess.run(["nft", text], check=True)


def tables() -> set[str]:
    said = subprocess.run(["nft", "list", "tables"], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in said.splitlines()}


def left() -> tuple[set[str], str, str, bytes]:
    return tables(), ip("address", "show", "lo"), ip("route"), hosts_file.HOSTS.read_bytes()


def test_it_says_what_it_would_do_and_does_it_with_yes_alone(meshsec: Meshsec, node: Path) -> None:
    before = left()
    said = meshsec("uninstall")
    assert said.exit_code == 0, said.output
    assert said.stdout.splitlines()[:4] == [
        "meshsec hosts --remove",
        "ip -4 route flush table all proto 100",
        "ip address delete 10.77.0.1/32 dev lo",
        "nft delete table inet meshsec",
    ]
    assert f"{node}/state/node.key" in said.stdout
    assert left() == before

    done = meshsec("uninstall", YES)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.count("done: ") == 4
    found, addresses, routes, names = left()
    assert (found, names) == ({"mine"}, MINE)
    assert "10.77.0.1" not in addresses
    assert "10.66.0.1/32" in addresses
    assert routes == "10.67.0.0/24 dev lo proto static scope link \n"
    assert (node / "state/node.key").exists()
    assert "There is nothing to undo." in meshsec("uninstall").stdout


def test_a_step_that_fails_is_named_and_the_others_are_done(meshsec: Meshsec, node: Path) -> None:
    held = HeldRules(HELD_TABLES, {})
    held.apply(lambda table: f"add table inet {table} {{ flags owner; }}\n")
    try:
        done = meshsec("uninstall", YES)
    finally:
        held.close()
    assert done.exit_code == 1
    assert done.stderr.startswith(f"FAILED: nft delete table inet {HELD_TABLES[0]}: ")
    assert "Operation not permitted" in done.stderr
    assert done.stderr.count("FAILED") == 1
    assert "done: nft delete table inet meshsec\n" in done.stdout
    assert meshsec("uninstall", YES).exit_code == 0, "its owner has ended"


def test_policies_of_the_kernel_go_and_those_of_others_stay(meshsec: Meshsec, node: Path) -> None:
    def add(source: str, priority: int) -> None:
        ends = ("src", source, "dst", "fc13::2/128")
        ip("xfrm", "policy", "add", *ends, "dir", "out", "action", "block", "priority", str(priority))

    try:
        add("fd13::1/128", 7)
    except subprocess.CalledProcessError:
        pytest.skip("this kernel has no XFRM")
    add("fd13::/64", BLOCK_PRIORITY)
    add("fd13::2/127", OPEN_PRIORITY)
    assert meshsec("uninstall", YES).exit_code == 0
    assert [line for line in ip("xfrm", "policy").splitlines() if "src" in line] == ["src fd13::1/128 dst fc13::2/128 "]


def test_a_refused_configuration_is_named_and_the_rest_is_undone(meshsec: Meshsec, node: Path) -> None:
    config = node / "meshsec.toml"
    config.write_text(f"nonsense = true\n{config.read_text()}")
    done = meshsec("uninstall", YES)
    assert done.exit_code == 1
    assert "nonsense: is not a known key" in done.stderr
    assert "IPv4 address, interfaces, router and own paths are not known" in done.stderr
    assert tables() == {"mine"}


def test_without_a_configuration_it_works_too(meshsec: Meshsec, node: Path) -> None:
    (node / "meshsec.toml").unlink()
    done = meshsec("uninstall", YES)
    assert (done.exit_code, done.stderr) == (0, "")
    assert tables() == {"mine"}


def test_routes_of_olsrd2_are_its_own(meshsec: Meshsec, node: Path) -> None:
    config = node / "meshsec.toml"
    config.write_text(config.read_text().replace("[routing]\n", '[routing]\ndaemon = "olsrd2"\n'))
    assert meshsec("uninstall", YES).exit_code == 0
    assert "10.9.0.0/24" in ip("route")


def test_while_meshsecd_runs_without_systemd_nothing_is_undone(meshsec: Meshsec, node: Path) -> None:
    before = left()
    (node / "run").mkdir()
    with answering(node / "run/control.sock", lambda _method, _params: {}):
        refused = meshsec("uninstall", YES)
    assert refused.exit_code == 1
    assert "meshsecd runs" in refused.output
    assert left() == before


def test_another_nodes_configuration_is_refused(meshsec: Meshsec, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = meshsec("uninstall")
    assert refused.exit_code == 1
    assert "/etc/meshsec/meshsec.toml" in refused.output


@pytest.fixture
def record(node: Path) -> Path:
    """Write down that `meshsec up` has disabled strongSwan, as it does."""
    replaced_units.add(node / "state", {"strongswan.service": Was(enabled=True, active=True)})
    return replaced_units.path(node / "state")


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that puts a systemctl in place of the machine's, and returns the file of its arguments."""
    (programs := tmp_path / "programs").mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def put(status: int = 0, enabled: str = "disabled") -> Path:
        shown = f"Id=strongswan.service\\nLoadState=loaded\\nActiveState=inactive\\nUnitFileState={enabled}\\n"
        lines = [
            "#!/bin/sh",
            f"[ $1 = show ] && printf '{shown}' && exit",
            f"[ $1$2 = is-enabledstrongswan.service ] && echo {enabled}",
            "[ $1 = is-enabled ] && exit 1",
            f'echo "$*" >>{programs}/done',
            "echo refused >&2",
            f"exit {status}",
        ]
        (programs / "systemctl").write_text("\n".join(lines) + "\n")
        (programs / "systemctl").chmod(0o755)
        return programs / "done"

    return put


def test_the_record_stays_until_another_ike_daemon_is_back(
    meshsec: Meshsec, record: Path, play: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "BOOTED", record.parent)
    play(1)
    done = meshsec("uninstall", YES)
    assert done.exit_code == 1
    assert done.stderr == (
        "FAILED: systemctl enable --now strongswan.service: `systemctl enable --now strongswan.service`: refused\n"
        f"FAILED: rm {record}: it stays, so that another run can do what failed\n"
    )
    assert tables() == {"mine"}
    play(0)
    assert meshsec("uninstall", YES).exit_code == 0
    assert not record.exists()


def test_without_systemd_another_ike_daemon_is_enabled_for_when_there_is_one(
    meshsec: Meshsec, record: Path, play: Callable[..., Path]
) -> None:
    """As in a root that is somewhere in a directory."""
    carried_out = play()
    done = meshsec("uninstall", YES)
    assert (done.exit_code, done.stderr) == (0, "")
    assert carried_out.read_text() == "enable strongswan.service\n"
    assert not record.exists()
    carried_out.unlink()
    record.write_text("damaged")
    assert meshsec("uninstall", YES).exit_code == 1
    assert record.read_text() == "damaged", "what cannot be read is not thrown away"
    assert not carried_out.exists()


def test_what_concerns_others_comes_back_and_nothing_opens(
    meshsec: Meshsec, record: Path, play: Callable[..., Path]
) -> None:
    """Only names and the IKE daemon, also while meshsecd runs."""
    carried_out = play()
    before = left()
    said = meshsec("uninstall", "--others")
    assert said.stdout.splitlines() == [
        "meshsec hosts --remove",
        "systemctl enable strongswan.service",
        f"rm {record}",
        "`meshsec uninstall --others --yes` does this.",
    ]
    assert left() == before
    with answering(record.parents[1] / "run/control.sock", lambda _method, _params: {}):
        done = meshsec("uninstall", "--others", YES)
    assert (done.exit_code, done.stderr) == (0, "")
    assert carried_out.read_text() == "enable strongswan.service\n"
    assert left() == (*before[:3], MINE)
    assert tables() == {"meshsec", "mine"}


def test_a_unit_that_is_disabled_by_whom_is_not_known_is_named(
    meshsec: Meshsec, node: Path, play: Callable[..., Path]
) -> None:
    carried_out = play()
    done = meshsec("uninstall", "--others", YES)
    assert "stays: strongswan.service is disabled, and `meshsec up` did not write down" in done.stdout
    play(enabled="enabled")
    assert "strongswan" not in meshsec("uninstall", "--others").stdout
    play(enabled="masked")
    assert "strongswan" not in meshsec("uninstall", "--others").stdout
    assert not carried_out.exists()
