"""The units' confinement, as systemd-analyze judges it, agrees with docs/reference/systemd.md."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lab.machines import exposure
from tests.lab.machines.exposure import IMAGE_UNITS, UNITS, WAIVERS, WaiverError

OWN = exposure.own_units()
FILES = [UNITS / f"{unit}.service" for unit in OWN] + [
    IMAGE_UNITS / f"{unit}.service" for unit in exposure.image_units()
]

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


each_unit = pytest.mark.parametrize("unit", FILES, ids=lambda path: path.stem)


def look(directory: Path, unit: str, text: str) -> tuple[bool, frozenset[str]]:
    """Return whether a unit of that text keeps the threshold, and the settings that count against it."""
    file = directory / f"{unit}{'x' if unit.endswith('@') else ''}.service"
    file.write_text(text)
    argv = [*exposure.LOOK, "--offline=true", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith("["), done.stderr
    return done.returncode == 0, exposure.charged(done.stdout)


@needs_systemd
@each_unit
def test_a_unit_is_exposed_less_than_3_and_each_remaining_exposure_has_a_reason(tmp_path: Path, unit: Path) -> None:
    kept, charges = look(tmp_path, unit.stem, unit.read_text())
    assert exposure.differences(charges, exposure.reasons()[unit.stem]) == []
    assert kept


@needs_systemd
@each_unit
def test_a_unit_that_loses_its_confinement_is_seen(tmp_path: Path, unit: Path) -> None:
    """Negative case: without its confinement the same unit fails."""
    taken = r"^(Capability|Private|Protect|Restrict|SystemCall|User|DynamicUser).*\n"
    kept, charges = look(tmp_path, unit.stem, re.sub(taken, "", unit.read_text(), flags=re.MULTILINE))
    assert not kept
    assert exposure.differences(charges, exposure.reasons()[unit.stem]) != []


def test_a_needless_waiver_and_a_missing_one_are_refused() -> None:
    waiver = '[[waiver]]\nchecks = ["UMask="]\nunits = ["meshsecd"]\nreason = "none"\n'
    of = exposure.waived(waiver, OWN)["meshsecd"]
    assert exposure.differences(frozenset(), of) == ["UMask= has a waiver, and is not charged"]
    assert exposure.differences(of | {"NoNewPrivileges="}, of) == [
        "NoNewPrivileges= is charged, and no waiver says why"
    ]


@pytest.mark.parametrize(
    ("further", "complaint"),
    [
        ('checks = ["UMask="]\nunits = ["meshsec"]\nreason = "x"\n', "no unit of ours is called 'meshsec'"),
        ('checks = ["UMask="]\nunits = ["meshsecd"]\nreason = ""\n', "needed: checks, units, reason"),
        ('checks = ["UMask="]\nunits = ["meshsecd"]\n', "needed: checks, units, reason"),
        ('checks = ["ProtectProc="]\nunits = ["meshsecd"]\nreason = "x"\n', "has a reason for ProtectProc= already"),
    ],
)
def test_a_waiver_without_a_unit_or_a_reason_is_refused(further: str, complaint: str) -> None:
    with pytest.raises(WaiverError, match=re.escape(complaint)):
        exposure.waived(f"{WAIVERS.read_text()}\n[[waiver]]\n{further}", [path.stem for path in FILES])


def setting(unit: str, name: str) -> set[str]:
    """Return the words of all values of a setting."""
    return set(" ".join(re.findall(rf"^{name}=(.*)$", (UNITS / unit).read_text(), re.MULTILINE)).split())


@pytest.mark.parametrize("unit", [unit for unit in OWN if unit != "meshsec-firewall"])
def test_the_rules_are_loaded_before_the_network_and_every_daemon_starts_after_it(unit: str) -> None:
    assert "network-pre.target" in setting("meshsec-firewall.service", "Before")
    assert {"network-pre.target", "meshsec-firewall.service"} & setting(f"{unit}.service", "After")
    other = {"meshsec-dnsmasq": "exec", "meshsec-hostapd": "exec", "meshsec-keys": "oneshot"}
    assert setting(f"{unit}.service", "Type") == {other.get(unit, "notify")}
