"""What the machine offers, probed in a namespace that is thrown away."""

import os
import shutil
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tests.lab import namespaces
from tests.lab.shell import run

_KEY_AND_SALT = "0x000102030405060708090a0b0c0d0e0f10111213"
_ESP_STATE = f"src ::1 dst ::2 proto esp spi 0x1000 mode transport aead rfc4106(gcm(aes)) {_KEY_AND_SALT} 128"


@dataclass(frozen=True)
class Ground:
    """``esp`` is ``kernel`` or ``libipsec``; the rest says what the machine has."""

    esp: str
    tun: bool
    netem: bool
    olsrd2: bool
    root: bool

    def missing(self) -> list[str]:
        """What a lab cannot do without."""
        programs = ("ip", "nft", "ping", "sysctl", "charon-systemd")
        lacking = [program for program in programs if not find(program)]
        if not self.root:
            lacking.append("root rights")
        if self.esp == "libipsec" and not self.tun:
            lacking.append("/dev/net/tun (the kernel has no ESP either)")
        return lacking

    def as_dict(self) -> dict[str, object]:
        """For reports."""
        return asdict(self)


def find(program: str) -> str | None:
    """Where a program is, /usr/sbin included."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin")


@cache
def probe() -> Ground:
    """Probe once."""
    root = os.geteuid() == 0
    esp, netem = _in_namespace() if root else (False, False)
    return Ground(
        esp="kernel" if esp else "libipsec",
        tun=Path("/dev/net/tun").exists(),
        netem=netem,
        olsrd2=find("olsrd2") is not None,
        root=root,
    )


def _in_namespace() -> tuple[bool, bool]:
    name = f"{namespaces.PREFIX}probe{os.getpid()}"
    namespaces.create(name)
    try:
        esp = run(["ip", "-n", name, "xfrm", "state", "add", *_ESP_STATE.split()], check=False)
        netem = run(["tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"], check=False)
    finally:
        namespaces.destroy(name)
    return esp.returncode == 0, netem.returncode == 0
