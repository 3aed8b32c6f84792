"""The shell texts of the units, run by a shell with the paths of a test."""

import os
import re
import shutil
import subprocess
from ipaddress import ip_network
from pathlib import Path

import pytest

from meshsec.adapters.files import credential
from meshsec.agent.sides.joining import NODES

UNITS = Path(__file__).parents[2] / "systemd"


def script(unit: str, setting: str, directory: Path) -> str:
    """Return the shell text of a setting as systemd runs it, with the absolute paths below ``directory``."""
    text = (UNITS / unit).read_text().replace("\\\n", " ")
    found = re.search(rf"^{setting}=-?/bin/sh -e?c '(.*)'$", text, re.MULTILINE)
    assert found
    moved = re.sub(r"(?<![\w.])/(run|etc|usr)/", rf"{directory}/\1/", found[1])
    return moved.replace("$$", "$").replace("%%", "%").replace("\\\\", "\\")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a tree with a configuration, and programs that record their calls."""
    for name in ("run/meshsec", "etc/meshsec", "usr/bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "etc/meshsec/meshsec.toml").touch()
    program(tmp_path, "meshsec", "echo made >> $ROOT/made; echo text of $2")
    program(tmp_path, "nft", "cat $([ $2 = - ] || echo $2) >> $ROOT/loaded")
    closed = tmp_path / "usr/share/meshsec/nftables/closed.nft"
    closed.parent.mkdir(parents=True)
    closed.write_text("closed\n")
    return tmp_path


def program(root: Path, name: str, text: str) -> None:
    path = root / "usr/bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(root: Path, text: str) -> int:
    environment = {"PATH": f"{root}/usr/bin:{os.environ['PATH']}", "ROOT": str(root)}
    return subprocess.run(["/bin/sh", "-ec", text], env=environment, check=False).returncode


def made(root: Path) -> int:
    return len((root / "made").read_text().splitlines())


def test_charons_configuration_is_made_at_the_first_start_and_after_changes(root: Path) -> None:
    text = script("meshsec-ike.service", "ExecStartPre", root)
    for _ in range(2):
        assert run(root, text) == 0
        assert made(root) == 1
    configuration = root / "run/meshsec/strongswan.conf"
    assert configuration.read_text() == "text of strongswan\n"
    assert configuration.stat().st_mode & 0o077 == 0
    os.utime(configuration, (1, 1))
    assert run(root, text) == 0
    assert made(root) == 2


def test_a_configuration_that_cannot_be_made_leaves_the_one_before(root: Path) -> None:
    text = script("meshsec-ike.service", "ExecStartPre", root)
    configuration = root / "run/meshsec/strongswan.conf"
    configuration.write_text("before\n")
    os.utime(configuration, (1, 1))
    program(root, "meshsec", "exit 1")
    assert run(root, text) != 0
    assert configuration.read_text() == "before\n"


def test_the_rules_are_loaded_whole_or_everything_is_closed(root: Path) -> None:
    text = script("meshsec-firewall.service", "ExecStart", root)
    assert run(root, text) == 0
    assert (root / "loaded").read_text() == "text of nftables\n"
    (root / "loaded").unlink()
    program(root, "meshsec", "echo half; exit 1")
    assert run(root, text) == 0
    assert (root / "loaded").read_text() == "closed\n"


def test_classes_that_a_killed_meshsecd_left_are_restored_and_nothing_else_is_started(root: Path) -> None:
    text = script("meshsecd.service", "ExecStopPost", root)
    program(root, "meshsecd", "echo $* >> $ROOT/restored")
    assert run(root, text) == 0
    assert not (root / "restored").exists(), "an orderly end has left no journal"
    (root / "run/meshsec/scheduling.json").touch()
    assert run(root, text) == 0
    assert (root / "restored").read_text() == f"--config {root}/etc/meshsec/meshsec.toml --restore-scheduling\n"


def setting(unit: str, name: str) -> list[str]:
    """Return all values of a setting."""
    return re.findall(rf"^{name}=(.*)$", (UNITS / unit).read_text(), re.MULTILINE)


def test_meshsecd_may_send_wherever_a_node_asks_to_join() -> None:
    """Routers announce locators, and not mesh addresses, where ESP is in user space."""
    text = (UNITS / "meshsecd.service").read_text()
    (allowed,) = re.findall(r"^IPAddressAllow=(.*)$", text, re.MULTILINE)
    assert NODES in [ip_network(one) for one in allowed.split() if one != "localhost"]
    assert "IPAddressDeny=any" in text.splitlines()


def test_the_radio_comes_after_the_drop_rules_and_before_the_router() -> None:
    unit = "meshsec-radio@.service"
    after, before = (" ".join(setting(unit, name)).split() for name in ("After", "Before"))
    assert "meshsec-firewall.service" in after
    assert {"olsrv2d.service", "meshsecd.service"} <= set(before)


def test_the_radio_gets_its_password_as_a_credential_and_may_do_nothing_but_its_work() -> None:
    unit = "meshsec-radio@.service"
    assert setting(unit, "LoadCredential") == [credential.SAE_PASSWORD]
    assert setting(unit, "ExecStart") == ["/usr/bin/meshsec-radio --config /etc/meshsec/meshsec.toml %i"]
    assert setting(unit, "RuntimeDirectoryMode") == ["0700"]
    assert setting(unit, "DynamicUser") == setting(unit, "NoNewPrivileges") == ["yes"]
    capabilities = {"CAP_NET_ADMIN CAP_NET_RAW"}
    assert {*setting(unit, "AmbientCapabilities"), *setting(unit, "CapabilityBoundingSet")} == capabilities


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_radios_unit() -> None:
    """systemd may miss the programs, which are not installed here, and nothing else."""
    unit = UNITS / "meshsec-radio@.service"
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if "meshsec-radio@" in line]
    assert [line for line in complaints if "is not executable" not in line] == []
