"""A key that a TPM of the kernel has sealed is 0 times on the disk, and another TPM does not open it.

The guest's TPM is swtpm behind the kernel's own driver; its disk is a file of this machine. `make guest` runs this: the
same with swtpm behind the units is `test_sealed_keys.py`.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.guest import sealed_node
from tests.guest.test_guest import ALL
from tests.guest.test_lost_node import counts
from tests.lab.basics.places import BUILD
from tests.lab.machines import guest, tpm

SECONDS = 900.0
SUCCESS = "80010000000a00000000"
"""The TPM's answer to a command that it has carried out."""


@pytest.mark.slow
@pytest.mark.skipif(ALL not in os.environ, reason="three boots of the guest: `make guest` runs it")
@pytest.mark.timeout(4 * SECONDS, func_only=True)
@pytest.mark.flaky(reruns=1, only_rerun="GuestDiedError")
def test_a_disk_has_no_key_and_is_opened_by_its_own_tpm_alone(tmp_path: Path) -> None:
    if obstacle := guest.obstacle() or tpm.obstacle():
        pytest.skip(obstacle)
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(disk)], check=True)
    for name in ("own", "other"):
        tpm.make(tmp_path / name)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(_booted, "seal", disk, tmp_path / "own")
        results = BUILD / "artifacts" / "guest-sealed"
        while not (results / sealed_node.IN_USE).exists() and not running.done():
            time.sleep(0.5)
        wanted = _forms(bytes.fromhex((results / sealed_node.IN_USE).read_text(encoding="ascii")))
        # The negative case: the same search finds what is there.
        before = counts(disk, wanted)
        (results / sealed_node.GO_ON).touch()
        sealed = running.result()
    after = counts(disk, wanted)
    copy = Path(shutil.copyfile(disk, tmp_path / "copy"))
    refused = _booted("open", copy, tmp_path / "other")
    opened = _booted("open", disk, tmp_path / "own")
    print(f"before {before}, sealed {after}: {sealed}\nother TPM: {refused}\nown TPM: {opened}")
    assert before["PEM"], "the key is not on the disk: the search is no use"
    assert not any(after.values())
    assert sealed["shutdown"] == SUCCESS
    assert "the TPM refuses (systemd-creds decrypt: " in refused["refused"]
    assert opened == {"public": sealed["public"]}


def _booted(what: str, disk: Path, state: Path) -> Mapping[str, str]:
    """Boot the guest with this disk and this TPM, and return what it found."""
    results = BUILD / "artifacts" / "guest-sealed"
    for name in (sealed_node.IN_USE, sealed_node.GO_ON, sealed_node.FOUND):
        (results / name).unlink(missing_ok=True)
    command = f"exec .venv/bin/python -m tests.guest.sealed_node {what} /results"
    with _chip(state) as devices:
        devices += ["-drive", f"file={disk},if=virtio,format=raw"]
        outcome = guest.run_in_guest(command, results, seconds=SECONDS, kernel="generic", devices=devices)
    if outcome.status is None:
        raise guest.GuestDiedError(f"{outcome.output}\n{outcome.console}")
    assert outcome.status == 0, outcome.output
    found: Mapping[str, str] = json.loads((results / sealed_node.FOUND).read_text(encoding="utf-8"))
    return found


@contextmanager
def _chip(state: Path) -> Iterator[list[str]]:
    """Yield QEMU's options for the TPM in that directory, which is on while the block runs."""
    path = state / "control"
    argv = ["setpriv", "--pdeathsig", "KILL", "swtpm", "socket", "--tpm2", "--tpmstate", f"dir={state}"]
    with subprocess.Popen([*argv, "--ctrl", f"type=unixio,path={path}"]) as chip:
        while not path.exists():
            time.sleep(0.1)
        try:
            yield [
                *("-chardev", f"socket,id=chip,path={path}", "-tpmdev", "emulator,id=tpm,chardev=chip"),
                *("-device", "tpm-tis,tpmdev=tpm"),
            ]
        finally:
            chip.terminate()


def _forms(seed: bytes) -> dict[str, bytes]:
    """Return the forms of the key: the file's, without what is the same for all keys, and RFC 8032's seed."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {"PEM": pem.splitlines()[1][24:], "seed": seed}
