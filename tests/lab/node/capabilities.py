"""What the machine offers, probed in a namespace that is deleted afterwards."""

import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tests.lab.basics.programs import find
from tests.lab.basics.shell import CommandError, run
from tests.lab.net import namespaces

REQUIRED = "MESHSEC_LAB_REQUIRED"
"""Environment variable that `make scenarios` sets: everything that can be installed must be there. Without it, tests
that lack something are skipped."""

_PACKAGES = {
    "ip": "iproute2",
    "nft": "nftables",
    "ping": "iputils-ping",
    "sysctl": "procps",
    "charon-systemd": "charon-systemd",
}
_TUN = "/dev/net/tun (modprobe tun; in a container --device=/dev/net/tun)"
_NAMESPACES = "network namespaces (CONFIG_NET_NS; in a container --privileged)"
_KEY_AND_SALT = "0x000102030405060708090a0b0c0d0e0f10111213"
_ESP_STATE = f"src ::1 dst ::2 proto esp spi 0x1000 mode transport aead rfc4106(gcm(aes)) {_KEY_AND_SALT} 128"


@dataclass(frozen=True)
class Capabilities:
    """``esp`` is ``kernel`` or ``libipsec``; the rest says what the machine has."""

    esp: str
    tun: bool
    netem: bool
    olsrd2: bool
    root: bool
    namespaces: bool

    def missing(self) -> list[str]:
        """Return what a lab cannot do without and the machine lacks, each with what provides it."""
        lacking = [f"{program} (package {package})" for program, package in _PACKAGES.items() if not find(program)]
        if not self.root:
            lacking.append("root rights")
        elif find("ip") and not self.namespaces:
            lacking.append(_NAMESPACES)
        if self.esp == "libipsec" and not self.tun:
            lacking.append(_TUN)
        return lacking

    def missing_for_all(self) -> list[str]:
        """Return what the machine lacks and a run needs so that no test is skipped."""
        return list(dict.fromkeys([*self.missing(), *([] if self.tun else [_TUN])]))

    def as_dict(self) -> dict[str, object]:
        """Return them as a dict, for reports."""
        return asdict(self)


@cache
def probe() -> Capabilities:
    """Probe once."""
    root = os.geteuid() == 0
    namespaces_work, esp, netem = _in_namespace() if root and find("ip") else (False, False, False)
    return Capabilities(
        esp="kernel" if esp else "libipsec",
        tun=Path("/dev/net/tun").exists(),
        netem=netem,
        olsrd2=find("olsrd2") is not None,
        root=root,
        namespaces=namespaces_work,
    )


def _in_namespace() -> tuple[bool, bool, bool]:
    """Return whether a namespace can be made, and whether ESP and netem work in it."""
    name = f"{namespaces.PREFIX}probe{os.getpid()}"
    try:
        namespaces.create(name)
        esp = run(["ip", "-n", name, "xfrm", "state", "add", *_ESP_STATE.split()], check=False)
        netem = run(["tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"], check=False)
    except (CommandError, OSError):
        return False, False, False
    finally:
        namespaces.destroy(name)
    return True, esp.returncode == 0, netem.returncode == 0
