"""An update is written beside what runs, and left when it does not work; one that is not for this node is refused."""

import os
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from image import release
from tests.lab.basics.places import BUILD
from tests.lab.basics.waiting import wait_until
from tests.lab.machines import vehicle
from tests.lab.machines.image_disk import Signed, after_cuts, kernels, version_of
from tests.lab.machines.image_versions import Versions, make_key, packed
from tests.lab.machines.vehicle import Link, Vehicle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400)]

BOOT = 1200.0
MOMENTS = 40
"""Power cuts of one start; `make image-cuts` has more."""
LEFT_SECONDS = 90.0
"""From the start of a version that does not work to its end. With a start of half a minute that makes two minutes."""
COMMAND = 600.0
PASSWORD = "correct horse"  # noqa: S105  known to this file's reader only
FIRST, GOOD, BROKEN, OLD = (f"{number}.20260101000000" for number in ("1.0.0", "1.1.0", "1.2.0", "0.9.0"))
BETWEEN = {"before-good": "1.0.5.20260101000000", "before-broken": "1.1.5.20260101000000"}
"""Newer than what runs, and older than what is on the disk by then."""
MEDIUM = "mount -o ro /dev/disk/by-id/virtio-medium0 /mnt"
STATE = "ls -l /efi/EFI/Linux; grep -h PARTNAME /sys/class/block/vda*/uevent"
"""What an update changes."""


def _kernel(version: str, counter: str = "") -> str:
    return f"meshsec_{version}_{_here()}{counter}.efi"


def _here() -> str:
    return vehicle.board().architecture.systemd


def _elsewhere() -> str:
    return "arm64" if _here() == "x86-64" else "x86-64"


def patient(seconds: int) -> str:
    """Return the kernel words that give a version so long: an emulated machine starts slowly."""
    return f"systemd.setenv=MESHSEC_TRIAL_SECONDS={seconds}"


@dataclass(frozen=True)
class Node:
    """A vehicle with the first version, a medium that has updates, and what versions must be."""

    vehicle: Vehicle
    versions: Mapping[str, Signed]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Boot the first version, with a medium that has updates, and log in."""
    if obstacle := vehicle.obstacle():
        pytest.skip(obstacle)
    directory, logs = tmp_path_factory.mktemp("updates"), BUILD / "artifacts" / "image-update"
    versions = Versions(directory / "versions", make_key(directory / "mine"))
    first = versions.make_disk(FIRST)
    medium = _medium(directory, versions)
    expected = {version: versions.signed(version) for version in (FIRST, GOOD)}
    with Link() as link, Vehicle("a", link, directory, logs, first) as a:
        a.media, a.is_logged = (medium,), True
        _boot(a, "")
        yield Node(a, expected)


def _boot(a: Vehicle, words: str, options: Sequence[str] = ()) -> None:
    _start(a, words, options)
    _log_in(a)


def _start(a: Vehicle, words: str, options: Sequence[str] = ()) -> None:
    given = {"meshsec.name": "a", "meshsec.interface": vehicle.INTERFACE}
    a.start("b", given | {"meshsec.root-password": vehicle.password_hash(PASSWORD)}, words, options)


def _has_clock() -> bool:
    """Return whether the kernel finds the machine's clock. Without it, as on many boards, it begins with the image."""
    return vehicle.architecture() == "amd64"


def _log_in(a: Vehicle) -> None:
    a.log_in(PASSWORD, BOOT)
    assert a.run(MEDIUM, COMMAND) == (0, "")


def _medium(directory: Path, versions: Versions) -> Path:
    """Make a disk with a good update, one that does not work, and those that are to be refused."""
    content = directory / "content"
    content.mkdir()
    good = versions.make_update(GOOD)
    broken = versions.make_update(BROKEN, _break)
    shutil.copytree(good, content / "good", copy_function=os.link)
    shutil.copytree(broken, content / "broken", copy_function=os.link)
    for name in ("truncated", "forged", "changed"):
        (content / name).mkdir()
        for sums in good.glob("SHA256SUMS*"):
            shutil.copy2(sums, content / name)
    (root,) = good.glob("*.root")
    with root.open("rb") as whole:
        (content / "truncated" / root.name).write_bytes(whole.read(100_000))
    with release.key(make_key(directory / "other")) as other:
        assert other is not None
        other.sign(content / "forged" / "SHA256SUMS")
    (content / "changed/SHA256SUMS").write_text(
        (good / "SHA256SUMS").read_text(encoding="ascii") + "#\n", encoding="ascii"
    )
    with release.key(directory / "mine/key") as mine:
        assert mine is not None
        unfit = {"older": (OLD, _here()), "foreign": (GOOD, _elsewhere())}
        unfit |= {name: (version, _here()) for name, version in BETWEEN.items()}
        for name, (version, architecture) in unfit.items():
            (content / name).mkdir()
            uuid = "00000000-0000-0000-0000-000000000000"
            names = (f"meshsec_{version}_{uuid}_{architecture}.root", f"meshsec_{version}_{architecture}.efi")
            listed = "".join(f"{'0' * 64}  {file}\n" for file in names)
            (content / name / "SHA256SUMS").write_text(listed, encoding="ascii")
            mine.sign(content / name / "SHA256SUMS")
    return packed(content, directory / "medium.img")


def _break(tree: Path) -> None:
    program = tree / "usr/bin/meshsecd"
    program.unlink()
    program.write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    program.chmod(0o755)


def test_what_is_not_for_this_node_is_refused_and_nothing_changes(node: Node) -> None:
    a = node.vehicle
    before = a.run(STATE, COMMAND)
    assert "PARTNAME=_empty" in before[1]
    wanted = {
        "truncated": "truncated or changed",
        "forged": "not signed by the key of this image",
        "changed": "not signed by the key of this image",
        "older": f"version {OLD} is older than {FIRST}, which runs",
        "foreign": f"the update is for {_elsewhere()}; this machine is {_here()}",
        "absent": "an update is a directory that `make image` writes",
    }
    for name, message in wanted.items():
        _assert_refused(a, name, message)
    assert a.run(STATE, COMMAND) == before


def _assert_refused(a: Vehicle, name: str, message: str) -> None:
    status, said = a.run(f"meshsec-update install /mnt/{name}", COMMAND)
    assert (status, message in said.replace("\n", "")) == (1, True), (name, said)


def test_an_update_is_written_beside_what_runs_and_kept_when_it_works(node: Node) -> None:
    a = node.vehicle
    ready = f"timeout {BOOT:.0f} sh -c 'until meshsec status >/dev/null 2>&1; do sleep 2; done'"
    assert a.run(ready, BOOT + COMMAND) == (0, "")
    a.run("dd if=/dev/zero of=/var/full bs=1M; sync", COMMAND)
    status, said = a.run("meshsec-update install /mnt/good", COMMAND)
    assert status == 0, f"{said}\na full state partition is no obstacle"
    a.run("rm /var/full; sync", COMMAND)
    assert a.run(f"cd /efi/EFI/Linux && ls {_kernel(GOOD, '+2-0')} {_kernel(FIRST)}", COMMAND)[0] == 0
    _assert_refused(a, "before-good", f"is older than {GOOD}, which waits for its trial")
    a.cut_power()  # at once: what was said to be installed is
    assert _started(node) == {FIRST, GOOD}, "by a cut at some moment"
    _start(a, patient(3000))
    wait_until("it is kept", lambda: _kernel(GOOD) in kernels(a.disk), [a.console], BOOT)
    a.cut_power()
    assert GOOD in _started(node)  # A cut while its kernel is renamed may have the former one start.
    a.is_logged = False
    _boot(a, "")
    assert a.run("meshsec-update status | head -1", COMMAND) == (0, f"runs      {GOOD} ({_here()})")
    assert a.run(f"ls /efi/EFI/Linux/{_kernel(GOOD)}", COMMAND)[0] == 0
    assert a.run("findmnt -no OPTIONS /efi | cut -c1-2", COMMAND) == (0, "ro")


def _started(node: Node) -> set[str]:
    """Return which versions start after power cuts at moments of the last start, all of which are whole."""
    log, target = node.vehicle.log, node.vehicle.disk.with_suffix(".cut")
    chance = random.Random(seed := random.randrange(1 << 32))
    found = after_cuts(target, log, MOMENTS, chance, node.versions)
    print(f"seed {seed}: {len(log.entries)} writes and flushes")
    assert [one for one in found if one.faults] == []
    return {version_of(one.kernel) for one in found}


def test_a_version_that_does_not_work_is_left_and_the_former_one_runs(node: Node) -> None:
    a = node.vehicle
    status, said = a.run("meshsec-update install /mnt/broken", COMMAND)
    assert status == 0, said
    a.console.type("systemctl reboot\n")
    a.wait_restart(BOOT)
    _start(a, "", _paced(day=1))
    a.wait_restart(BOOT)
    assert _kernel(BROKEN, "+0-1") in kernels(a.disk), "one start was enough for the verdict"
    _boot(a, "", _paced(day=2))
    assert a.run("systemctl is-system-running --wait", BOOT) == (0, "running")
    if _has_clock():
        left = _second(a, "-b -1 -u meshsec-trial", "does not work", day=1)
        back = _second(a, "-b _PID=1", "Reached target .*multi-user", day=2)
        print(f"left {left:.0f} s after its start; the former one works {back:.0f} s after its own")
        assert left <= LEFT_SECONDS
    shown = a.run("meshsec-update status", COMMAND)[1]
    assert f"runs      {GOOD} ({_here()})" in shown
    assert f"can start {BROKEN} (did not work here)" in shown
    _assert_refused(a, "before-broken", f"is older than {BROKEN}, which did not work here")
    told = "journalctl --no-pager --unit meshsec-trial | grep -c 'does not work'"
    assert a.run(told, COMMAND) == (0, "1"), "the journal of the version that was left is kept"


def _paced(day: int) -> Sequence[str]:
    """Return QEMU's options for a machine whose time follows its instructions, 10^9 in a second, from that day on."""
    return ("-icount", "shift=0", "-rtc", f"base=2036-01-{day:02}T00:00:00,clock=vm") if _has_clock() else ()


def _second(a: Vehicle, where: str, what: str, day: int) -> float:
    """Return when the journal says something, in seconds from that day's start."""
    status, said = a.run(f"journalctl --no-pager -o short-unix {where} | grep '{what}' | tail -1", COMMAND)
    assert status == 0, said
    return float(said.split()[0]) - datetime(2036, 1, day, tzinfo=UTC).timestamp()
