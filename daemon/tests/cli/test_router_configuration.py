"""The unit of olsrv2d derives the router's configuration, by the script of its drop-in with the paths of a test."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Meshsec = Callable[..., Result]

SCRIPT = Path(__file__).parents[2] / "systemd/libexec/olsrv2d-configuration"
HAND_WRITTEN = 'originators = ["fd00::1"]\n'
NOTHING_TO_START_WITH = 78
OLSRV2D = """\
case "$1" in --check) ! grep -q refused "$3" || exit 2 ;; *) echo "runs with $2"; cat "$2" ;; esac
"""
"""Stands for the router. What it accepts is shown by the scenarios of olsrv2d's management."""


@pytest.fixture
def root(meshsec: Meshsec, tmp_path: Path) -> Path:
    """Give a tree of the node ``rescue-1`` with the real ``meshsec``, which no unit has written to yet."""
    for name in ("etc/olsrv2d", "usr/bin", "usr/libexec", "var/cache/olsrv2d"):
        (tmp_path / name).mkdir(parents=True)
    call = f'PYTHONPATH={":".join(sys.path)} exec {sys.executable} -c "from meshsec.cli import main; main()"'
    program(tmp_path, "meshsec", f'{call} --config {tmp_path}/a/meshsec.toml "$@"')
    program(tmp_path, "olsrv2d", OLSRV2D)
    moved = re.sub(r"(?<![\w.])/(etc|usr)/", rf"{tmp_path}/\1/", SCRIPT.read_text())
    (tmp_path / "usr/libexec/script").write_text(moved)
    return tmp_path


def program(root: Path, name: str, text: str) -> None:
    path = root / "usr/bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def unit(root: Path, what: str) -> subprocess.CompletedProcess[str]:
    """Run the script as the unit does."""
    environment = {"PATH": os.environ["PATH"], "CACHE_DIRECTORY": str(root / "var/cache/olsrv2d")}
    argv = ["/bin/sh", str(root / "usr/libexec/script"), what]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)


def used(root: Path) -> Path:
    return root / "var/cache/olsrv2d/olsrv2d.toml"


def own(root: Path) -> Path:
    return root / "etc/olsrv2d/olsrv2d.toml"


def change(root: Path, old: str, new: str) -> None:
    config = root / "a/meshsec.toml"
    config.write_text(config.read_text().replace(old, new))


def test_the_router_starts_with_what_meshsec_exports(root: Path, meshsec: Meshsec) -> None:
    started = unit(root, "start")
    assert started.stdout == f"runs with {used(root)}\n{meshsec('export', 'olsrv2d').stdout}"
    assert (started.returncode, started.stderr) == (0, "")


def test_a_reload_derives_again_and_starts_nothing(root: Path) -> None:
    unit(root, "start")
    change(root, '["mesh0"]', '["mesh0", "mesh1"]')
    reloaded = unit(root, "reload")
    assert (reloaded.returncode, reloaded.stdout) == (0, "")
    assert 'name = "mesh1"' in used(root).read_text()


def test_the_private_key_is_not_needed(root: Path) -> None:
    (key,) = (root / "a").rglob("node.key")
    key.unlink()
    assert unit(root, "start").returncode == 0


def test_a_reload_with_a_refused_configuration_fails_and_changes_nothing(root: Path) -> None:
    unit(root, "start")
    before = used(root).read_text()
    change(root, "interfaces", "interfacse")
    reloaded = unit(root, "reload")
    assert reloaded.returncode == NOTHING_TO_START_WITH
    assert "routing.interfacse: is not a known key" in reloaded.stderr
    assert used(root).read_text() == before


def test_a_router_that_starts_again_beside_a_refused_configuration_has_the_last_one(root: Path) -> None:
    unit(root, "start")
    before = used(root).read_text()
    change(root, "interfaces", "interfacse")
    again = unit(root, "start")
    assert again.stdout == f"runs with {used(root)}\n{before}"
    assert "<3>starts with the configuration that was in force last" in again.stderr


def test_without_any_configuration_the_unit_fails_once_and_says_why(root: Path) -> None:
    change(root, "interfaces", "interfacse")
    started = unit(root, "start")
    assert (started.returncode, started.stdout) == (NOTHING_TO_START_WITH, "")
    assert "interfacse" in started.stderr


def test_what_the_router_would_refuse_does_not_replace_what_it_accepts(root: Path) -> None:
    unit(root, "start")
    before = used(root).read_text()
    program(root, "olsrv2d", OLSRV2D.replace("grep -q refused", "grep -q originators"))
    assert unit(root, "reload").returncode == NOTHING_TO_START_WITH
    assert used(root).read_text() == before


def test_a_file_of_the_operators_comes_first_and_is_not_copied(root: Path) -> None:
    unit(root, "start")
    own(root).write_text(HAND_WRITTEN)
    assert unit(root, "reload").returncode == 0
    assert used(root).readlink() == own(root)
    assert unit(root, "start").stdout == f"runs with {used(root)}\n{HAND_WRITTEN}"
    own(root).unlink()
    assert unit(root, "start").stdout != f"runs with {used(root)}\n{HAND_WRITTEN}"
    assert not used(root).is_symlink()


def test_a_refused_file_of_the_operators_is_not_replaced_by_a_derived_one(root: Path) -> None:
    own(root).write_text("refused\n")
    assert unit(root, "start").returncode == NOTHING_TO_START_WITH
    assert not used(root).exists()


def test_an_operators_file_needs_no_meshsec(root: Path) -> None:
    (root / "usr/bin/meshsec").unlink()
    shutil.rmtree(root / "a")
    own(root).write_text(HAND_WRITTEN)
    assert unit(root, "start").stdout == f"runs with {used(root)}\n{HAND_WRITTEN}"


def test_a_file_of_an_earlier_export_is_replaced_and_reported(root: Path, meshsec: Meshsec) -> None:
    own(root).write_text(meshsec("export", "olsrv2d").stdout)
    change(root, '["mesh0"]', '["mesh1"]')
    started = unit(root, "start")
    assert 'name = "mesh1"' in started.stdout
    assert started.stderr.startswith(f"<4>{own(root)} is not used any more")
    assert own(root).exists(), "the operator's to remove"


def test_a_file_of_an_earlier_export_is_used_while_nothing_can_be_derived(root: Path, meshsec: Meshsec) -> None:
    own(root).write_text(exported := meshsec("export", "olsrv2d").stdout)
    change(root, "interfaces", "interfacse")
    started = unit(root, "start")
    assert started.stdout == f"runs with {used(root)}\n{exported}"
    assert f"<3>starts with {own(root)}" in started.stderr
    change(root, "interfacse", "interfaces")
    assert unit(root, "reload").returncode == 0
    assert not used(root).is_symlink()


def test_where_olsrd2_is_the_router_olsrv2d_does_not_start(root: Path) -> None:
    change(root, "[routing]\n", '[routing]\ndaemon = "olsrd2"\n')
    started = unit(root, "start")
    assert (started.returncode, started.stdout) == (NOTHING_TO_START_WITH, "")
    assert 'routing.daemon is "olsrd2", so olsrv2d must not run here: `systemctl mask olsrv2d`' in started.stderr
