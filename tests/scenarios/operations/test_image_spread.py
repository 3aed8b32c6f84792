"""A vehicle without any other connection gets the newer version of its neighbour, through their protected channel."""

from pathlib import Path

import pytest

from tests.lab.basics.places import BUILD
from tests.lab.machines import vehicle
from tests.lab.machines.image_versions import Versions, make_key
from tests.lab.machines.vehicle import Link, Vehicle
from tests.lab.net.packets import Kind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400)]

BOOT = 1200.0
COMMAND = 1200.0
PASSWORD = "correct horse"  # noqa: S105  known to this file's reader only
OLD, NEW = "1.0.0.20260101000000", "1.1.0.20260101000000"
CARD = r"card +(meshsec1\w+)$"


def test_a_vehicle_gets_the_version_of_its_neighbour(tmp_path: Path) -> None:
    if obstacle := vehicle.obstacle():
        pytest.skip(obstacle)
    versions, logs = Versions(tmp_path / "versions", make_key(tmp_path / "key")), BUILD / "artifacts" / "image-spread"
    disks = {name: versions.make_disk(version) for name, version in (("a", NEW), ("b", OLD))}
    with (
        Link() as link,
        Vehicle("a", link, tmp_path, logs, disks["a"]) as a,
        Vehicle("b", link, tmp_path, logs, disks["b"]) as b,
    ):
        for one, other in ((a, "b"), (b, "a")):
            given = {"meshsec.name": one.name, "meshsec.interface": vehicle.INTERFACE}
            one.start(other, given | {"meshsec.root-password": vehicle.password_hash(PASSWORD)})
        for one in (a, b):
            one.log_in(PASSWORD, BOOT)
        for one, other_vehicle in ((a, b), (b, a)):
            card = other_vehicle.console.wait(CARD, BOOT)[1]
            assert one.run(vehicle.quoted("meshsec", "peer", "add", other_vehicle.name, card), COMMAND)[0] == 0
        protected = "until meshsec status | grep -q protected; do sleep 2; done"
        assert b.run(f"timeout {BOOT:.0f} sh -c '{protected}'", BOOT + COMMAND) == (0, "")
        assert a.run("systemctl is-active meshsec-offer meshsec-fetch.timer", COMMAND) == (0, "active\nactive")
        status, said = b.run("systemctl start meshsec-fetch", COMMAND)
        journal = b.run("journalctl --no-pager --output cat --unit meshsec-fetch --unit meshsec-take", COMMAND)[1]
        assert status == 0, said + journal
        assert f"version {NEW} is installed" in journal
        fetched = f"/efi/EFI/Linux/meshsec_{NEW}_{vehicle.board().architecture.systemd}+2-0.efi"
        assert b.run(f"ls {fetched}; ls /var/lib/meshsec-update", COMMAND) == (0, fetched)
        again = "systemctl start meshsec-fetch; journalctl -o cat -n 20 -u meshsec-fetch | grep -c 'here already'"
        assert b.run(again, COMMAND) == (0, "1")
        carried = b.sent_and_received()
        assert carried[Kind.ESP] > 100_000, carried
        assert carried[Kind.CLEAR] == 0, carried
