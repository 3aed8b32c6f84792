"""The network interfaces of this machine that could be in a mesh."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

_NET = Path("/sys/class/net")
_ETHERNET = "1"
"""ARPHRD_ETHER (if_arp.h): cables and radios; neither the loopback nor TUN devices."""
_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface, with the facts by which somebody decides whether it is for the mesh."""

    name: str
    wireless: bool
    has_default_route: bool
    up: bool


def present() -> list[Interface]:
    """Return the interfaces of this machine, without bridges and their ports."""
    outward = _with_default_route()
    directories = sorted(path for path in _NET.iterdir() if _could_be_in_a_mesh(path))
    return [
        Interface(path.name, (path / "phy80211").exists(), path.name in outward, _flags(path) & 1 == 1)
        for path in directories
    ]


def exists(name: str) -> bool:
    """Return whether this machine has an interface of that name, of whatever kind."""
    return "/" not in name and (_NET / name / "flags").is_file()


def _could_be_in_a_mesh(path: Path) -> bool:
    if (path / "bridge").exists() or (path / "brport").exists():
        return False
    return (path / "type").is_file() and (path / "type").read_text(encoding="ascii").strip() == _ETHERNET


def _flags(path: Path) -> int:
    """Return the flags of netdevice(7); the lowest is IFF_UP."""
    return int((path / "flags").read_text(encoding="ascii"), 16)


def _with_default_route() -> set[str]:
    """Return the names of the interfaces through which this machine reaches everything else."""
    names: set[str] = set()
    for version in ("-4", "-6"):
        argv = ["ip", "-json", version, "route", "show", "default"]
        said = subprocess.run(argv, capture_output=True, check=False, timeout=_SECONDS).stdout
        for route in json.loads(said or b"[]"):
            hops = [route, *route.get("nexthops", [])]
            names |= {hop["dev"] for hop in hops if "dev" in hop}
    return names
