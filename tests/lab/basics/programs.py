"""Where the programs under test are."""

import os
import shutil
import sys
from pathlib import Path

from tests.lab.basics.places import REPOSITORY


class ProgramMissingError(Exception):
    """A program that the lab starts is not installed."""


def find(program: str) -> str | None:
    """Return the path of a program on PATH or in /usr/sbin; None when there is none."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin")


def meshsec() -> str:
    """Return the path of the command line of this Python environment."""
    return str(Path(sys.executable).parent / "meshsec")


def meshsecd() -> str:
    """Return the path of the orchestrator of this Python environment."""
    return str(Path(sys.executable).parent / "meshsecd")


def meshsec_page() -> str:
    """Return the path of the page's server of this Python environment."""
    return str(Path(sys.executable).parent / "meshsec-page")


def charon() -> str:
    """Return the path of strongSwan's IKE daemon."""
    return _found("charon-systemd")


def dnsmasq() -> str:
    """Return the path of the program that gives clients addresses and names."""
    return _found("dnsmasq")


def busybox() -> str:
    """Return the path of the program that has a DHCP client."""
    return _found("busybox")


def olsrd2() -> str:
    """Return the path of olsrd2, the other OLSRv2 router."""
    return _found("olsrd2")


def cjdroute() -> str:
    """Return the path of the router of cjdns."""
    return _found("cjdroute")


def olsrv2d() -> str:
    """Return the path of this project's OLSRv2 router."""
    return _built("olsrv2d")


def olsrv2_signer() -> str:
    """Return the path of the program that signs the messages of this project's OLSRv2 router."""
    return _built("olsrv2-signer")


def overlayd() -> str:
    """Return the path of this project's overlay router."""
    return _built("overlayd")


def airmedium() -> str:
    """Return the path of this project's medium for radios of mac80211_hwsim."""
    return _built("airmedium")


def _built(program: str) -> str:
    """Return the path of the newest build of a program, or of the installed one where there is no build."""
    cargo = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "daemon" / "target"))
    places = (REPOSITORY / "build" / "bin", cargo / "release", cargo / "debug")
    built = [path for place in places if (path := place / program).exists()]
    return str(max(built, key=lambda path: path.stat().st_mtime)) if built else _found(program)


def _found(program: str) -> str:
    if path := find(program):
        return path
    raise ProgramMissingError(f"{program} is neither built nor on PATH")
