"""The power is cut at many moments while an update is written and kept: a whole version starts every time.

The guest writes the update once, by the programs of the image. Its disk's log then shows what any power cut may leave:
sectors that were written after the last flush may be missing. `make image-cuts` does that with a whole image.
"""

import os
import random
from pathlib import Path

import pytest

from image import disk, release
from image.architecture import AMD64
from image.disk import Identity
from image.release import Key
from tests.lab.basics.places import BUILD
from tests.lab.machines import disk_log, guest
from tests.lab.machines.disk_log import Log
from tests.lab.machines.image_disk import Signed, after_cuts, signed
from tests.lab.machines.image_versions import make_key

SECONDS = 900.0
FIRST, NEXT = "1.0.0.20260101000000", "1.1.0.20260101000000"
MOMENTS = 100
ROOT, KERNEL = 4 * disk.MIB, disk.MIB
"""Sizes in bytes: small ones, which nothing starts."""


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS, func_only=True)
@pytest.mark.flaky(reruns=1, only_rerun="GuestDiedError")
def test_a_power_cut_at_any_moment_leaves_a_whole_version(tmp_path: Path) -> None:
    if obstacle := guest.obstacle():
        pytest.skip(obstacle)
    results, seed = BUILD / "artifacts" / "guest-update", int(os.environ.get("SEED") or random.randrange(1 << 32))
    before, versions = _made(tmp_path, results / "update")
    log = _updated(before, tmp_path, results)
    chance, target = random.Random(seed), tmp_path / "cut"
    found = after_cuts(target, log, MOMENTS, chance, versions)
    print(f"SEED={seed}: {len(log.entries)} writes and flushes; {len(found)} cuts")
    assert [one for one in found if one.faults] == []
    assert found[0].kernel == release.kernel_name(FIRST, AMD64)
    assert found[-1].kernel == release.kernel_name(NEXT, AMD64)
    assert any("+2-0" in one.kernel for one in found), "it was never seen before it was kept"
    # The negative case: the same search finds what a disk that does not heed flushes does.
    assert any(one.faults for one in after_cuts(target, log, MOMENTS, chance, versions, is_flushed=False))


def _made(directory: Path, update: Path) -> tuple[Path, dict[str, Signed]]:
    """Make a disk with the first version as `make image` does, and the update to the next one."""
    loader, esp, made, first = (directory / name for name in ("loader", "esp", "disk", "first"))
    loader.write_bytes(os.urandom(1000))
    update.parent.mkdir(parents=True, exist_ok=True)
    with release.key(make_key(directory / "key")) as key:
        assert key is not None
        _make_update(directory, NEXT, update, key)
        identity, root, kernel = _make_update(directory, FIRST, first, key)
        (update / "keyring").write_bytes(key.public)
    disk.make_esp(loader, kernel, esp, identity, AMD64, first)
    disk.assemble(esp, root, made, identity, AMD64)
    return made, {FIRST: signed(first), NEXT: signed(update)}


def _make_update(directory: Path, version: str, target: Path, key: Key) -> tuple[Identity, Path, Path]:
    identity = Identity(version, 1_700_000_000, version)
    root, kernel = directory / f"{version}.root", directory / f"{version}.efi"
    root.write_bytes(os.urandom(ROOT))
    kernel.write_bytes(os.urandom(KERNEL))
    root_name = release.root_name(version, identity.uuid("root"), AMD64)
    release.make_update({root_name: root, release.kernel_name(version, AMD64): kernel}, target, key)
    return identity, root, kernel


def _updated(before: Path, directory: Path, results: Path) -> Log:
    """Have the guest write the update to a copy of the disk, and return what it wrote."""
    copy, log = directory / "written", directory / "log"
    disk_log.copy(before, copy)
    devices = disk_log.options(copy, log, "if=virtio")
    command = f"PYTHONPATH=.:kernel-config exec .venv/bin/python -m tests.guest.updated_node /results/update {FIRST}"
    outcome = guest.run_in_guest(command, results, seconds=SECONDS, kernel="generic", devices=devices)
    if outcome.status is None:
        raise guest.GuestDiedError(f"{outcome.output}\n{outcome.console}")
    assert outcome.status == 0, outcome.output
    return disk_log.read(before, log)
