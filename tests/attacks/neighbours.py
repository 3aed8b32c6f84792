"""Two nodes that are neighbours by radio, and an attacker's radio beside them, in the guest's own network namespace."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.basics.waiting import wait_until
from tests.lab.forge import wireless
from tests.lab.forge.wireless import Ear, Frames, Name
from tests.lab.radio import hwsim
from tests.lab.radio.meshsec_radio import OPEN, PASSWORD, SECONDS, Program, Ticks, stations

MESH_ID = str(OPEN["mesh_id"])
AGAIN = 60.0
"""Seconds until two nodes are neighbours."""
_FREQUENCY = 2412


@dataclass
class Scene:
    """``a`` and ``b`` are neighbours; ``m`` is the attacker, and ``ear`` listens beside ``a``."""

    a: str
    b: str
    m: Ear
    ear: Ear
    one: Program
    other: Program
    ticks: Ticks

    @property
    def name(self) -> Name:
        """Return the name of a frame from b to a."""
        return Name.of(address(self.b), address(self.a))

    @property
    def peered(self) -> bool:
        """Return whether each is a neighbour for the other."""
        return established(self.a, self.b) and established(self.b, self.a)

    def wait_peered(self, seconds: float = AGAIN) -> float:
        """Wait until they are neighbours. Return how many seconds it took."""
        began = time.monotonic()
        wait_until("neighbours", lambda: self.peered, [self.ticks], seconds, last=lambda: stations(self.a))
        return time.monotonic() - began

    def wait_parted(self) -> None:
        """Wait until one end at least has lost its neighbour. Each frame in the air causes a check."""
        wait_until("an end of the peering", lambda: not self.peered, [self.ticks, Frames(self.m)], SECONDS)


@contextmanager
def neighbours(settings: dict[str, object], directory: Path) -> Iterator[Scene]:
    """Start both nodes by meshsec-radio with these settings; the attacker hears them from the start."""
    with ExitStack() as stack:
        a, b = (stack.enter_context(hwsim.radio(f"msr{n}", f"mesh{n}")) for n in (7, 8))
        stack.enter_context(hwsim.radio("msr9", "mesh9"))
        m = stack.enter_context(wireless.stranger("msr9", "mon9", _FREQUENCY))
        one, other = (stack.enter_context(started(directory, each, settings)) for each in (a, b))
        ticks = stack.enter_context(Ticks())
        one.wait_ready()
        other.wait_ready()
        ear = stack.enter_context(Ear.on("msr7", "mon7"))
        found = Scene(a, b, m, ear, one, other, ticks)
        found.wait_peered()
        yield found


def started(directory: Path, interface: str, settings: dict[str, object]) -> Program:
    """Return meshsec-radio for an interface; it runs in its ``with`` block."""
    own = directory / interface
    own.mkdir(mode=0o700)
    return Program(interface, own, settings, PASSWORD if settings["security"] == "sae" else "")


def address(interface: str) -> str:
    """Return the hardware address of an interface."""
    return Path("/sys/class/net", interface, "address").read_text().strip()


def established(interface: str, other: str) -> bool:
    """Whether an interface has an established peering with another."""
    found = [part for part in stations(interface).split("Station ") if part.startswith(address(other))]
    return any("mesh plink: ESTAB" in part for part in found)
