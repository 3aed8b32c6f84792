"""After `meshsec zeroize` no octet of the node's key is in the memory of its machine or on its disk.

The guest's memory is a file of this machine, and so is its disk. Both are searched while the key is in use, where it
must be found, and afterwards, while the guest runs on.
"""

import hashlib
import mmap
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from tests.guest import lost_node
from tests.guest.test_guest import ALL
from tests.lab.basics.patience import VARIABLE
from tests.lab.basics.places import BUILD
from tests.lab.machines import guest
from tests.lab.machines.guest import Outcome

SECONDS = 1800.0
PATIENCE = 6
PRESSED = "daemon/tests/cli/test_zeroize_watch.py::test_a_key_of_a_device_that_is_plugged_in_later_must_be_held"
COMMAND = f"""\
modprobe tun
mkdir -p build/artifacts
mount --bind /results build/artifacts
export {VARIABLE}={PATIENCE}
.venv/bin/python -m tests.guest.lost_node /results || exit
# The host may have no uinput, by which this test presses a key.
modprobe -a evdev uinput && exec .venv/bin/pytest -p no:hypothesispytest {PRESSED}
"""


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS, func_only=True)
@pytest.mark.flaky(reruns=1, only_rerun="GuestDiedError")
@pytest.mark.parametrize(
    "is_wiped",
    [True, pytest.param(False, marks=pytest.mark.skipif(ALL not in os.environ, reason="another boot: `make guest`"))],
    ids=["wiped", "as-it-was-freed"],
)
def test_the_key_is_nowhere_in_memory_and_on_disk(is_wiped: bool, tmp_path: Path) -> None:
    """A kernel that does not wipe what is freed keeps the key in memory: its option is what takes it away."""
    if obstacle := guest.obstacle():
        pytest.skip(obstacle)
    results = BUILD / "artifacts" / "guest-lost"
    memory, disk = tmp_path / "memory", _disk(tmp_path / "disk")
    for name in (lost_node.IN_USE, lost_node.GO_ON, lost_node.DESTROYED, lost_node.END):
        (results / name).unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(_run, results, memory, disk, is_wiped=is_wiped)
        in_use_as = _awaited(running, results / lost_node.IN_USE)
        if not in_use_as:  # The claim is about what comes then: a machine without time may get no SA.
            raise guest.GuestDiedError(f"it ended before the key was in use: {running.result()}")
        wanted = _forms(_dumped(disk, in_use_as))
        in_use = counts(memory, wanted), counts(disk, wanted)
        (results / lost_node.GO_ON).touch()
        said = _awaited(running, results / lost_node.DESTROYED)
        assert said, running.result()
        after = counts(memory, wanted), counts(disk, wanted)
        (results / lost_node.END).touch()
        outcome = running.result()
    print(f"in use {in_use}\nafterwards {after}\n{said}")
    assert outcome.status == 0, outcome.output
    # The negative case: the same search finds what is there.
    assert all(in_use[0].values()), f"the key is not in the memory: the search is no use: {in_use[0]}"
    assert in_use[1]["PEM"], "the key is not on the disk: the search is no use"
    assert not any(after[1].values()), f"on the disk: {after[1]}"
    assert any(after[0].values()) != is_wiped, f"in the memory: {after[0]}"


def counts(path: Path, wanted: Mapping[str, bytes]) -> dict[str, int]:
    """Return how often each is in a file."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return {name: _count(content.find, octets) for name, octets in wanted.items()}


def _count(find: Callable[[bytes, int], int], octets: bytes) -> int:
    found, place = 0, find(octets, 0)
    while place >= 0:
        found, place = found + 1, find(octets, place + 1)
    return found


def _run(results: Path, memory: Path, disk: Path, *, is_wiped: bool) -> Outcome:
    devices = ["-object", f"memory-backend-file,id=ram,size={guest.MEMORY_MIB}M,mem-path={memory},share=on"]
    devices += ["-machine", "memory-backend=ram", "-drive", f"file={disk},if=virtio,format=raw"]
    arguments = [f"init_on_free={int(is_wiped)}"]
    outcome = guest.run_in_guest(
        COMMAND, results, seconds=SECONDS, kernel="generic", arguments=arguments, devices=devices
    )
    if outcome.status is None:
        raise guest.GuestDiedError(f"{outcome.output}\n{outcome.console}")
    return outcome


def _disk(path: Path) -> Path:
    with path.open("wb") as file:
        file.truncate(256 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(path)], check=True)
    return path


def _awaited(running: Future[Outcome], path: Path) -> str:
    """Return what the guest wrote there; empty if it ended without that."""
    while not running.done():
        if path.exists() and (text := path.read_text(encoding="utf-8")):
            return text
        time.sleep(0.5)
    return ""


def _dumped(disk: Path, name: str) -> bytes:
    """Return a file of the guest's disk, read from outside: in the guest that would leave a copy in its memory."""
    argv = ["debugfs", "-R", f"cat /{name}", str(disk)]
    return subprocess.run(argv, check=True, capture_output=True).stdout


def _forms(pem: bytes) -> dict[str, bytes]:
    """Return the forms in which programs keep the key: the file's, RFC 8032's seed, and the overlay's X25519 key."""
    key = load_pem_private_key(pem, None)
    assert isinstance(key, Ed25519PrivateKey)
    seed = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    digest = hashlib.sha512(seed).digest()
    overlay = bytes([digest[0] & 248, *digest[1:31], digest[31] & 127 | 64])
    # What comes first in PEM is the same for all keys.
    return {"PEM": pem.splitlines()[1][24:], "seed": seed, "overlay": overlay}
