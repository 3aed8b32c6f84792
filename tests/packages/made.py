"""Our Debian packages, made by ``tools/deb`` for a test."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from tests.lab.basics import shell
from tests.lab.basics.places import BUILD, REPOSITORY
from tests.lab.machines import fleet_root

PACKAGES = ("meshsec", "meshsec-olsrv2d", "meshsec-overlayd")
ALL = "MESHSEC_PACKAGES_ALL" in os.environ
OWN_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")
COMMIT = {"VERSION": "1.2.3", "SOURCE_DATE_EPOCH": "1700000000"}
"""Given in place of those of a commit, because there may be another one meanwhile."""
AUDIT = BUILD / "audit/tools/bin/python"
"""The Python that has CycloneDX's library."""
KERNEL = "linux-image-9.9-meshsec"


def own_release() -> str:
    """Return the code name of this machine's Debian."""
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


RELEASES = tuple(suite for suite in fleet_root.SUITES if ALL or suite == own_release())


def made(release: str, architecture: str, place: Path, settings: Mapping[str, str] = COMMIT) -> dict[str, Path]:
    """Make our packages in ``place`` and return them by name. For armhf there are those of programs alone."""
    environment = {**os.environ, "OUT": str(place), **settings}
    shell.run([str(REPOSITORY / "tools/deb"), release, architecture], env=environment, timeout=900)
    return {path.name.partition("_")[0]: path for path in place.glob(f"meshsec*_{architecture}.deb")}


def kernel(directory: Path) -> Path:
    """Make an empty package with the name of one of `make kernel`."""
    control = directory / "tree/DEBIAN/control"
    control.parent.mkdir(parents=True)
    fields = {
        "Package": KERNEL,
        "Version": "9.9-1",
        "Architecture": OWN_ARCHITECTURE,
        "Maintainer": "nobody <nobody@localhost.invalid>",
        "Description": "a kernel's name",
    }
    control.write_text("".join(f"{name}: {value}\n" for name, value in fields.items()), encoding="ascii")
    package = directory / "kernel.deb"
    shell.run(["dpkg-deb", "--root-owner-group", "--build", str(directory / "tree"), str(package)])
    return package
