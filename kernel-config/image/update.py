"""What makes a root one that can be updated: its version, the key that it trusts, and the program that does it."""

import shutil
from pathlib import Path

from image import release
from image.root import REPOSITORY
from image.shell import inside

PROGRAM = "meshsec_update"
KEYRING = "etc/systemd/import-pubring.gpg"
"""Where systemd-sysupdate looks for keys first."""
_VENDORS = "usr/lib/systemd/import-pubring.gpg"
"""Where it looks next. Debian's file has keys of other distributions, which sign nothing here."""
CLOCK = "usr/lib/clock-epoch"
"""Its time is that of all files in the image (systemd(1))."""
_LAUNCHER = f'#!/bin/sh\nexec python3 -I -m {PROGRAM} "$@"\n'


def prepare(root: Path, version: str, signer: release.Key | None) -> None:
    """Give ``root`` its version and what updates it. Without a key it accepts no update."""
    with (root / "usr/lib/os-release").open("a", encoding="ascii") as file:
        file.write(f"IMAGE_ID=meshsec\nIMAGE_VERSION={version}\n")
    (root / _VENDORS).unlink()
    # systemd sets a clock that is behind this file's time to that. So it is never behind the making of the key.
    (root / CLOCK).touch()
    if signer:
        (root / KEYRING).write_bytes(signer.public)
    package = root / "usr/lib/python3/dist-packages" / PROGRAM
    shutil.copytree(REPOSITORY / "kernel-config" / PROGRAM, package, ignore=shutil.ignore_patterns("__pycache__"))
    launcher = root / "usr/bin/meshsec-update"
    launcher.write_text(_LAUNCHER, encoding="ascii")
    launcher.chmod(0o755)
    inside(
        root,
        ["python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", f"/{package.relative_to(root)}"],
    )
