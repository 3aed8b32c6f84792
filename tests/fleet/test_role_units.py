"""The units that roles write are confined, as this machine's systemd judges their text. No node is reached."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lab.basics.places import REPOSITORY
from tests.lab.machines.exposure import LOOK

jinja2 = pytest.importorskip("jinja2", reason="not installed: Jinja, which comes with Ansible")

_ROLES = REPOSITORY / "ansible" / "roles"
_VALUES = {"monitoring_hook": "/usr/local/bin/hear", "monitoring_directory": "/var/lib/prometheus/node-exporter"}
UNITS = ("meshsec-hook", "meshsec-metrics")
"""Without meshsec-deadman, which restores packages, files and services and so needs root (docs/reference/systemd.md).
"""

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_of_a_role_is_exposed_less_than_3(unit: str, tmp_path: Path) -> None:
    assert _kept(tmp_path, unit, _text(unit))


@pytest.mark.parametrize("unit", UNITS)
def test_one_that_loses_its_confinement_is_seen(unit: str, tmp_path: Path) -> None:
    taken = r"^(Capability|DynamicUser|Private|Protect|Restrict|SystemCall).*\n"
    assert not _kept(tmp_path, unit, re.sub(taken, "", _text(unit), flags=re.MULTILINE))


def _text(unit: str) -> str:
    loader = jinja2.FileSystemLoader(_ROLES / "monitoring/templates")
    environment = jinja2.Environment(loader=loader, autoescape=False, undefined=jinja2.StrictUndefined)
    return str(environment.get_template(f"{unit}.service.j2").render(_VALUES))


def _kept(directory: Path, unit: str, text: str) -> bool:
    file = directory / f"{unit}.service"
    file.write_text(text, encoding="utf-8")
    argv = [*LOOK, "--offline=true", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith("["), done.stderr
    return done.returncode == 0
