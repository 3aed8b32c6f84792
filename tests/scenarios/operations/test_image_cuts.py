"""The power is cut at many moments of an update: a whole version starts every time, and the update can be repeated.

All that a machine writes is logged while the update is written, and while it is tried, which the firmware counts on the
disk. What a cut at a moment may leave is made of the log; some of these disks are booted.
"""

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from image import release
from tests.lab.basics.places import BUILD
from tests.lab.basics.waiting import wait_until
from tests.lab.machines import disk_log, vehicle
from tests.lab.machines.disk_log import Log
from tests.lab.machines.image_disk import Signed, after_cuts, kernels, version_of, would_start
from tests.lab.machines.image_versions import Versions, make_key, packed
from tests.lab.machines.vehicle import Link, Vehicle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * 3600)]

BOOT = 1200.0
COMMAND = 900.0
MOMENTS = 200
"""Power cuts while the update is written, and as many while it is tried."""
PASSWORD = "correct horse"  # noqa: S105  known to this file's reader only
FIRST, NEXT = "1.0.0.20260101000000", "1.1.0.20260101000000"
PATIENT = "systemd.setenv=MESHSEC_TRIAL_SECONDS=3000"
READY = f"timeout {BOOT:.0f} sh -c 'until meshsec status >/dev/null 2>&1; do sleep 2; done'"
INSTALL = "mount -o ro /dev/disk/by-id/virtio-medium0 /mnt; meshsec-update install /mnt"


@dataclass(frozen=True)
class Cuts:
    """Makes disks that power cuts leave, and judges them."""

    directory: Path
    versions: dict[str, Signed]
    chance: random.Random

    def started(self, log: Log, what: str) -> set[str]:
        """Return which versions start after cuts at many moments, all of which are whole."""
        found = after_cuts(self.directory / "cut", log, MOMENTS, self.chance, self.versions)
        print(f"{len(found)} cuts of {len(log.entries)} writes and flushes while it was {what}")
        assert [one for one in found if one.faults] == []
        return {version_of(one.kernel) for one in found}

    def some(self, log: Log, number: int) -> Iterator[Path]:
        """Yield the disks of some moments, one after the other."""
        target = self.directory / "booted"
        moments = [self.chance.randrange(len(log.entries)) for _ in range(number)]
        for _ in disk_log.cuts(log, moments, self.chance, target):
            yield target


def test_a_power_cut_at_any_moment_leaves_a_whole_version(tmp_path: Path) -> None:
    if "MESHSEC_IMAGE_CUTS" not in os.environ:
        pytest.skip("power is cut by `make image-cuts` only: that takes half an hour and more")
    if obstacle := vehicle.obstacle():
        pytest.skip(obstacle)
    to_boot, seed = int(os.environ["MESHSEC_IMAGE_CUTS"]), int(os.environ.get("SEED") or random.randrange(1 << 32))
    print(f"SEED={seed}")
    versions = Versions(tmp_path / "versions", make_key(tmp_path / "key"))
    update, first = versions.make_update(NEXT), versions.make_disk(FIRST)
    cuts = Cuts(tmp_path, {version: versions.signed(version) for version in (FIRST, NEXT)}, random.Random(seed))
    shutil.rmtree(versions.tree)
    medium, logs = packed(update, tmp_path / "medium.img"), BUILD / "artifacts" / "image-cuts"
    again = Again(medium, tmp_path, logs)
    with Link() as link, Vehicle("a", link, tmp_path, logs, first) as a:
        a.media, a.is_logged = (medium,), True
        _boot(a)
        assert a.run(READY, BOOT + COMMAND) == (0, "")
        status, said = a.run(INSTALL, COMMAND)
        assert status == 0, said
        a.cut_power()
        assert cuts.started(a.log, "written") == {FIRST, NEXT}
        for disk in cuts.some(a.log, to_boot - to_boot // 2):
            again.boot(disk)
        a.start("b", _given(), PATIENT)
        kept = release.kernel_name(NEXT, vehicle.board().architecture)
        wait_until("the version is kept", lambda: kept in kernels(a.disk), [a.console], BOOT)
        a.cut_power()
        assert NEXT in cuts.started(a.log, "tried")  # A cut while its kernel is renamed may have the former one start.
        for disk in cuts.some(a.log, to_boot // 2):
            again.boot(disk)
        # What a rename on FAT may leave, which the tests above take for what systemd-boot passes over.
        empty = tmp_path / release.kernel_name("9.9.9.20260101000000", vehicle.board().architecture)
        empty.touch()
        a.give(empty, folder="EFI/Linux")
        again.boot(a.disk)


@dataclass(frozen=True)
class Again:
    """Boots disks that power cuts have left, and repeats the update there."""

    medium: Path
    directory: Path
    logs: Path

    def boot(self, disk: Path) -> None:
        """Boot a copy of this disk."""
        with Link() as link, Vehicle("a", link, self.directory / "again", self.logs, disk) as a:
            a.media = (self.medium,)
            _boot(a)
            assert a.run(READY, BOOT + COMMAND) == (0, "")
            runs = a.run("meshsec-update status | head -1", COMMAND)[1]
            if FIRST in runs:
                status, said = a.run(INSTALL, COMMAND)
                assert status == 0, said
                a.cut_power()
                assert would_start(a.disk).startswith(f"meshsec_{NEXT}_")
            else:
                assert NEXT in runs


def _boot(a: Vehicle) -> None:
    a.start("b", _given(), PATIENT)
    a.log_in(PASSWORD, BOOT)


def _given() -> dict[str, str]:
    password = {"meshsec.root-password": vehicle.password_hash(PASSWORD)}
    return {"meshsec.name": "a", "meshsec.interface": vehicle.INTERFACE} | password
