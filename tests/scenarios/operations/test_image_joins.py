"""A vehicle joins a fleet at its first boot by a QR code on its disk, with a clock that is ten years ahead.

Vehicle d is the fleet's operator. e is given a picture on its first partition, and nobody types anything at it until it
is a member. Then somebody lays the file of another fleet there, and a password. At last e destroys what is secret.
"""

import json
import mmap
import re
from pathlib import Path

import pytest
import segno

from meshsec.core.trust.fleets import Fleet, fleet_text
from tests.lab.basics.places import BUILD
from tests.lab.machines import vehicle
from tests.lab.machines.vehicle import Link, Vehicle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

BOOT = 1800.0
"""Seconds for what takes a minute on two free cores."""
COMMAND = 600.0
PASSWORD = "correct horse"  # noqa: S105  known to this file's reader only
SECRET = "a secret that nobody may find on the disk"  # noqa: S105  of this test only
CARD = r"card +(meshsec1\w+)$"
ADDRESS = r"address +(fc[0-9a-f:]+)$"
WORDS = r"who approves this node: ([a-z ]+)$"
AHEAD = "systemd.clock_usec=2082758400000000"
"""The kernel's word for the year 2036: a PREEMPT_RT kernel on arm64 does not ask UEFI for the time."""


def test_a_file_on_the_disk_lets_a_vehicle_join_once(tmp_path: Path) -> None:
    if obstacle := vehicle.obstacle():
        pytest.skip(obstacle)
    logs = BUILD / "artifacts" / "image-joins"
    with Link() as link, Vehicle("d", link, tmp_path, logs) as d, Vehicle("e", link, tmp_path, logs) as e:
        d.start("e", _credentials("d"))
        d.log_in(PASSWORD, BOOT)
        fleet = _make_fleet(d)

        picture = tmp_path / "meshsec.join.png"
        segno.make_qr(fleet, error="m").save(str(picture), scale=8)
        e.give(picture)
        e.start("d", _credentials("e"), AHEAD)
        words = e.console.wait(WORDS, BOOT)[1].strip()
        address = e.console.wait(ADDRESS, BOOT)[1]
        _wait(d, 'meshsec fleet requests | grep -q "^e "')
        assert d.run(f"meshsec fleet approve {words}", COMMAND)[0] == 0
        _wait(d, f"ping -6 -q -c 1 -w 10 {address} >/dev/null")
        assert _peers(d) == {"e": "protected"}
        e.log_in(PASSWORD, BOOT)
        assert e.run("date +%Y; systemctl is-system-running --wait", BOOT) == (0, "2036\nrunning")

        e.cut_power()
        text = tmp_path / "meshsec.join"
        text.write_text(fleet_text(Fleet("other", bytes(range(32)))), encoding="ascii")
        password = tmp_path / "meshsec.sae-password"
        password.write_text(SECRET, encoding="ascii")
        e.give(text, password)
        e.start("d", _credentials("e"), AHEAD)
        e.console.wait(r"join: meshsec\.join is another one than this node has taken before.*stays as it was", BOOT)
        e.log_in(PASSWORD, BOOT)
        assert e.run("systemctl is-system-running --wait", BOOT) == (1, "degraded")
        failed = e.run("systemctl list-units --failed --plain --no-legend | cut -d' ' -f1", COMMAND)
        assert failed == (0, "meshsec-join.service")
        fleets = json.loads(e.run("meshsec fleet status --json", COMMAND)[1])["fleets"]
        assert [(one["name"], one["member"]["standing"]) for one in fleets] == [("rescue", "member")]
        _wait(d, f"ping -6 -q -c 1 -w 10 {address} >/dev/null")
        assert _peers(e) == {"d": "protected"}, "it is a member as before"
        _assert_destroys_its_password(e)


def _assert_destroys_its_password(e: Vehicle) -> None:
    """The first partition is mounted read-only, before and afterwards."""
    assert _is_on_disk(e, SECRET), "the search finds nothing"
    said = e.run("meshsec zeroize --yes-destroy-keys", COMMAND)[1]
    assert "Files destroyed: " in said
    assert re.search(r"/efi|meshsec-esp", said) is None, said  # An emulated machine may be slow to end its units.
    left = "ls /efi/meshsec | grep -c password; ls /efi/meshsec/meshsec.join; findmnt -no OPTIONS /efi | cut -c1-2"
    assert e.run(left, COMMAND)[1].split() == ["0", "/efi/meshsec/meshsec.join", "ro"]
    e.cut_power()
    assert not _is_on_disk(e, SECRET)


def _is_on_disk(node: Vehicle, text: str) -> bool:
    with node.disk.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as disk:
        return disk.find(text.encode()) >= 0


def _credentials(name: str) -> dict[str, str]:
    return {
        "meshsec.name": name,
        "meshsec.interface": vehicle.INTERFACE,
        "meshsec.root-password": vehicle.password_hash(PASSWORD),
    }


def _make_fleet(d: Vehicle) -> str:
    """Make a fleet's key on d, whose root is its first member. Return the fleet's card."""
    status, said = d.run("export MESHSEC_FLEET=/run/fleet; meshsec fleet init rescue", COMMAND)
    assert status == 0, said
    found = re.search(r"meshsec-fleet1:\S+", said)
    assert found, said
    card = d.console.wait(CARD, BOOT)[1]
    for words in (f"meshsec fleet join {found[0]}", f"meshsec fleet approve {card}"):
        status, said = d.run(words, COMMAND)
        assert status == 0, said
    return found[0]


def _wait(node: Vehicle, command: str) -> None:
    status, said = node.run(f"timeout {BOOT:.0f} sh -c 'until {command}; do sleep 1; done'", BOOT + COMMAND)
    assert status == 0, said + node.run("meshsec status; meshsec doctor; meshsec fleet status", COMMAND)[1]


def _peers(node: Vehicle) -> dict[str, str]:
    peers = json.loads(node.run("meshsec status --json", COMMAND)[1])["peers"]
    return {peer["name"]: peer["state"] for peer in peers}
