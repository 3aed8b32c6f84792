"""Writes an update to the second disk and keeps it, inside the guest. The host logs what is written.

``python -m tests.guest.updated_node UPDATE RUNNING``: the update's directory, and the version that the disk has.
"""

import os
import shutil
import sys
from pathlib import Path

from meshsec_update import install, machine, release, trial
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.shell import run

DISK = Path("/dev/vdb")
_TRANSFERS = Path("usr/lib/sysupdate.d")


def main(update: Path, running: str) -> None:
    """Be a node of the version ``running`` that takes an update, and one of the new version that keeps it."""
    _give_image_files(update / "keyring")
    machine.ESP.mkdir(exist_ok=True)
    run(["mount", "-o", "ro,umask=0077", f"{DISK}1", str(machine.ESP)])
    _be(running)
    found = release.read(update, machine.image())
    release.check_content(update, found)
    install.write(update, found)
    _be(found.version)
    trial.keep()
    run(["umount", str(machine.ESP)])


def _give_image_files(keyring: Path) -> None:
    """Give systemd-sysupdate what the image has. There the disk is that of the root, which the guest's is not."""
    shutil.copy(keyring, release.KEYRING)
    target = Path("/") / _TRANSFERS
    target.mkdir(parents=True)
    for path in (REPOSITORY / "kernel-config/image/files" / _TRANSFERS).iterdir():
        text = path.read_text(encoding="utf-8")
        (target / path.name).write_text(text.replace("Path=auto", f"Path={DISK}"), encoding="utf-8")


def _be(version: str) -> None:
    lines = machine.OS_RELEASE.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("IMAGE_VERSION=")]
    machine.OS_RELEASE.write_text("\n".join([*kept, f"IMAGE_VERSION={version}", ""]), encoding="utf-8")


if __name__ == "__main__":
    os.umask(0o077)
    main(Path(sys.argv[1]), sys.argv[2])
