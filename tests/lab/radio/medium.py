"""Real 802.11s without hardware: mac80211_hwsim radios in the nodes' namespaces, and who hears whom, while they run.

hwsim delivers a frame when sender and receiver have a bit in common: each link has one bit, which its two radios share
while they hear each other. 802.11s only reaches neighbours, OLSRv2 routes, as ``meshsec-radio`` sets it up.

Radios stand before the network manager of whoever loads their module, so the lab does that in its guest only; on any
other machine it takes those that somebody has loaded.
"""

import fcntl
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.programs import find
from tests.lab.basics.shell import run
from tests.lab.net.instance import RUN
from tests.lab.net.links import End, Link, Station
from tests.lab.net.topology import Pair

GUEST_VARIABLE = "MESHSEC_LAB_GUEST"
"""Set where the machine is the lab's own."""
MONITOR = "mon0"
ONLY_NEIGHBOURS = {"mesh_fwding": "0", "mesh_nolearn": "1"}
"""No forwarding, and no discovery of paths to a neighbour: one that goes wrong holds user data back for seconds."""
_MODULE = "mac80211_hwsim"
_RADIOS = 8
"""As many as one lab of the scenarios takes, and some to spare for a test beside it."""
_LINKS = 32
"""Bits of a hearing group that every kernel has."""
_PHYS = Path("/sys/class/ieee80211")
_GROUPS = Path("/sys/kernel/debug/ieee80211")
_SYSCTLS = REPOSITORY / "daemon" / "systemd" / "sysctl.d" / "60-meshsec.conf"


class RadioMissingError(Exception):
    """There are fewer free radios than the lab wants."""


@dataclass(frozen=True)
class Channel:
    """How a mesh is joined. ``rate``: the only bit rate that is used, in Mbit/s; 0 leaves the choice to the kernel."""

    mesh_id: str = "lab"
    frequency: int = 2412
    rate: int = 0

    def joining(self) -> list[str]:
        """The arguments of ``iw dev ... mesh join``."""
        rates = ["NOHT", "basic-rates", str(self.rate)] if self.rate else ["HT20"]
        return [self.mesh_id, "freq", str(self.frequency), *rates, "mcast-rate", str(self.rate or 6)]


FAST = Channel()
SLOW = Channel("slow", 2437, 1)
"""The slowest that 802.11 has: a long way, or a bad one."""


@dataclass
class Radio:
    """One radio, with one mesh interface in a node's namespace."""

    phy: str
    address: str
    namespace: str
    interface: str
    bits: int = 0

    def make(self) -> None:
        """Make the mesh interface; it is in no mesh yet."""
        self._all(
            ["iw", "phy", self.phy, "interface", "add", self.interface, "type", "mp"],
            ["ip", "link", "set", self.interface, "up"],
        )

    def join(self, channel: Channel = FAST) -> None:
        """Join an open mesh."""
        device = ["iw", "dev", self.interface]
        rates = [[*device, "set", "bitrates", "legacy-2.4", str(channel.rate)]] if channel.rate else []
        self._all(
            [*device, "mesh", "join", *channel.joining()],
            *([*device, "set", "mesh_param", name, value] for name, value in ONLY_NEIGHBOURS.items()),
            *rates,
        )

    def leave(self) -> None:
        """Leave the mesh in good order: neighbours are told."""
        self._iw("mesh", "leave")

    def hear(self, bits: int) -> None:
        """Share exactly these bits from now on."""
        self.bits = bits
        (_GROUPS / self.phy / "hwsim" / "group").write_text(f"{bits:#x}", encoding="ascii")

    def stations(self) -> dict[str, dict[str, str]]:
        """What the kernel knows of each neighbour, by its address, as ``iw`` calls it (``mesh plink``, ...)."""
        found: dict[str, dict[str, str]] = {}
        for line in self._iw("station", "dump").splitlines():
            if line.startswith("Station "):
                found[line.split()[1]] = {}
            elif found:
                name, _, value = line.strip().partition(":")
                found[next(reversed(found))][name] = value.strip()
        return found

    def peers(self) -> set[str]:
        """The addresses of the stations that it has an established peering with."""
        return {address for address, known in self.stations().items() if known.get("mesh plink") == "ESTAB"}

    def listen(self) -> str:
        """A monitor interface, which shows every frame that the radio can hear; its name."""
        self._all(
            ["iw", "phy", self.phy, "interface", "add", MONITOR, "type", "monitor"],
            ["sysctl", "-q", "-w", f"net.ipv6.conf.{MONITOR}.disable_ipv6=1"],  # or the kernel itself speaks there
            ["ip", "link", "set", MONITOR, "up"],
        )
        return MONITOR

    def give_back(self) -> None:
        """Silence it and return it to the machine; what holds its namespace has gone, or goes now."""
        self.hear(0)
        self._iw("del", check=False)
        self._iw("set", "netns", str(os.getpid()), of="phy", check=False)

    def _all(self, *commands: list[str]) -> None:
        """Run several programs in the namespace by one shell: entering it is what takes time."""
        script = "\n".join(shlex.join(command) for command in commands)
        run(["ip", "netns", "exec", self.namespace, "sh", "-e"], stdin=script)

    def _iw(self, *arguments: str, of: str = "dev", check: bool = True) -> str:
        name = self.interface if of == "dev" else self.phy
        return run(["ip", "netns", "exec", self.namespace, "iw", of, name, *arguments], check=check).stdout


@dataclass(frozen=True)
class RadioLink(Link):
    """Two nodes that hear each other by radio. A radio has no carrier: nobody is told when hearing ends."""

    radios: tuple[Radio, Radio]
    bit: int

    def up(self) -> None:
        """They hear each other."""
        for radio in self.radios:
            radio.hear(radio.bits | self.bit)

    def cut(self) -> None:
        """They do not hear each other any more."""
        for radio in self.radios:
            radio.hear(radio.bits & ~self.bit)

    def down(self) -> None:
        """As ``cut``."""
        self.cut()

    def lose(self, percent: int) -> None:
        """Lose this share of the packets in each direction, at random, where they are received: after acknowledgement.

        So it is no weak signal, which the sender's radio would see: rates, stations and their metric stay as they are.
        """
        for end, other in zip(self.ends, reversed(self.radios), strict=True):
            end.lose_from(other.address, percent)

    def fix(self) -> None:
        """They hear each other, and lose nothing."""
        self.lose(0)
        self.up()


@dataclass
class Air:
    """The medium of a lab on radio: every node has one interface, ``mesh0``."""

    channel: Channel = FAST
    links: dict[frozenset[str], RadioLink] = field(default_factory=dict)
    radios: dict[str, Radio] = field(default_factory=dict)
    """By node: that of ``mesh0``."""
    _taken: list[Radio] = field(default_factory=list)
    _made: int = 0

    def equip(self, station: Station) -> None:
        """Give a node its radio; it hears nobody yet."""
        # A relay sends a packet out by where it came in: without the product's settings the kernel sends redirects.
        run(["ip", "netns", "exec", station.namespace, "sysctl", "-q", "-p", str(_SYSCTLS)])
        self.radios[station.name] = self._radio(station, self.channel)

    def join(self, first: Station, second: Station) -> Link:
        """Make two nodes hear each other."""
        link = self._link(self.radios[first.name], self.radios[second.name])
        self.links[frozenset((first.name, second.name))] = link
        return link

    def hear(self, *pairs: Pair) -> None:
        """From now on these nodes hear each other and no others: how nodes move. Links that never were are refused."""
        wanted = [self.links[frozenset(pair)] for pair in pairs]
        for radio in self.radios.values():
            radio.hear(sum(link.bit for link in wanted if radio in link.radios))

    def second_link(self, first: Station, second: Station, channel: Channel) -> RadioLink:
        """Join two nodes by a second radio each, on a channel of its own."""
        radios = [self._radio(station, channel) for station in (first, second)]
        return self._link(*radios)

    def end(self) -> None:
        """Return all radios."""
        for radio in self._taken:
            radio.give_back()
        self._taken = []

    def _radio(self, station: Station, channel: Channel) -> Radio:
        radio = _take(station.namespace, f"mesh{len(station.interfaces)}")
        self._taken.append(radio)
        radio.hear(0)
        radio.make()
        radio.join(channel)
        station.interfaces.append(radio.interface)
        return radio

    def _link(self, first: Radio, second: Radio) -> RadioLink:
        assert self._made < _LINKS, f"more than {_LINKS} links"
        ends = (End(first.namespace, first.interface), End(second.namespace, second.interface))
        link = RadioLink(ends, (first, second), 1 << self._made)
        self._made += 1
        link.up()
        return link


def obstacle() -> str | None:
    """Why there is no radio here, or None. In the guest it loads the module."""
    if missing := [program for program in ("iw", "wpa_supplicant", "modprobe") if not find(program)]:
        return f"not installed: {' '.join(missing)}"
    if os.environ.get(GUEST_VARIABLE) and not _free():
        result = run(["modprobe", _MODULE, f"radios={_RADIOS}"], check=False)
        if result.returncode:
            return f"this kernel has no radios: {result.stderr.strip()}"
    if not _free():
        return f"the module {_MODULE} is not loaded here; the guest loads it and runs this there"
    return None if _GROUPS.is_dir() else f"debugfs is not mounted: {_GROUPS}"


def _take(namespace: str, interface: str) -> Radio:
    """Move a free radio into a namespace and take away the interface that it was made with."""
    with _one_at_a_time():
        free = _free()
        if not free:
            raise RadioMissingError(f"no radio of {_MODULE} is free for {namespace}")
        phy = free[0]
        for made in sorted((_PHYS / phy / "device" / "net").glob("*")):
            run(["iw", "dev", made.name, "del"])
        address = (_PHYS / phy / "macaddress").read_text(encoding="ascii").strip()
        run(["iw", "phy", phy, "set", "netns", "name", namespace])
    return Radio(phy, address, namespace, interface)


def _free() -> list[str]:
    """Radios that are in no node's namespace: sysfs shows those of its own only."""
    driven = ((path.name, path / "device" / "driver") for path in sorted(_PHYS.glob("*")))
    return [name for name, driver in driven if driver.resolve().name == _MODULE]


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    RUN.mkdir(mode=0o755, exist_ok=True)
    with (RUN / ".radios").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
