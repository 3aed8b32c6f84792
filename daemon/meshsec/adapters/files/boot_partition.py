"""The first partition of a machine that was made from the image, where people put its passwords."""

from pathlib import Path

from meshsec.adapters.files.destroying import Failure

PLACE = Path("/efi")
DEVICE = Path("/dev/disk/by-partlabel/meshsec-esp")
OS_RELEASE = Path("/usr/lib/os-release")
_IMAGE = "IMAGE_ID=meshsec"


def unreachable() -> list[Failure]:
    """Return a failure when the partition is not mounted, so that nobody looked for passwords on it.

    A disk with such a partition on another machine is none of its business.
    """
    try:
        if _IMAGE not in OS_RELEASE.read_text(encoding="utf-8").splitlines() or PLACE.is_mount():
            return []
    except (OSError, UnicodeDecodeError):
        return []
    if not DEVICE.exists():
        return []
    return [Failure(str(DEVICE), f"is not mounted and may have passwords: `mount {PLACE}`, and run this again")]
