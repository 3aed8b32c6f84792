"""A node's key and a TPM of the kernel, inside the guest. The host has the disk and the TPM, and looks on.

``python -m tests.guest.sealed_node seal|open SHARED``
"""

import json
import sys
import time
from pathlib import Path

from meshsec.adapters.files import key_store, secret_file, systemd_creds
from meshsec.files import FileError
from tests.lab.basics.shell import run

DISK = "/dev/vdb"
IN_USE, GO_ON, FOUND = "in-use", "go-on", "found"
"""Files by which guest and host wait for each other, and what the guest found."""
_STATE = Path("/var/lib/meshsec")
_TPM = Path("/dev/tpmrm0")


def main(what: str, shared: Path) -> None:
    """Seal a new key, or open what is on the disk, and say what came of it."""
    for place, options in ((_STATE, [DISK]), (secret_file.OPENED, ["-t", "ramfs", "-o", "mode=0700", "ramfs"])):
        place.mkdir(parents=True, exist_ok=True)
        run(["mount", *options, str(place)])
    found = _sealed(shared) if what == "seal" else _opened()
    (shared / FOUND).write_text(json.dumps(found), encoding="utf-8")
    run(["umount", str(_STATE)])


def _sealed(shared: Path) -> dict[str, str]:
    key = _STATE / "node.key"
    made = key_store.create(key)
    run(["sync"])
    (shared / IN_USE).write_text(made.seed().hex(), encoding="ascii")
    while not (shared / GO_ON).exists():
        time.sleep(0.5)
    secret_file.seal([key])
    with _TPM.open("r+b", buffering=0) as device:
        device.write(systemd_creds.SHUTDOWN)
        answer = device.read(4096)
    return {"public": key_store.load(key).public_key.hex(), "shutdown": answer.hex()}


def _opened() -> dict[str, str]:
    try:
        secret_file.open_all(_STATE)
        return {"public": key_store.load(_STATE / "node.key").public_key.hex()}
    except FileError as error:
        return {"refused": str(error)}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
