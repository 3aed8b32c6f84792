"""802.11s without hardware: radios of mac80211_hwsim in the nodes' namespaces, and which of them hear each other.

hwsim delivers a frame when sender and receiver have a bit in common: each link has one bit, which its two radios share
while they hear each other. As ``meshsec-radio`` sets it up, 802.11s only reaches neighbours and OLSRv2 routes.

The host's network manager may configure radios as soon as the module is loaded. So the lab loads it in its guest only;
on any other machine it takes the radios that are there.
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
"""Environment variable that says that the machine is the lab's own."""
DETERMINISTIC_VARIABLE = "MESHSEC_LAB_DETERMINISTIC"
"""Environment variable that says in the guest that its time follows the executed instructions."""
MONITOR = "mon0"
ONLY_NEIGHBOURS = {"mesh_fwding": "0", "mesh_nolearn": "1"}
"""Neither forwarding nor path discovery: a discovery that fails delays user data to a neighbour for seconds."""
_MODULE = "mac80211_hwsim"
_RADIOS = 8
"""As many radios as one lab of the scenarios takes, and some more for a test beside it."""
_LINKS = 31
"""Bits of a hearing group that every kernel has."""
_PHYS = Path("/sys/class/ieee80211")
_GROUPS = Path("/sys/kernel/debug/ieee80211")
_SYSCTLS = REPOSITORY / "daemon" / "systemd" / "sysctl.d" / "60-meshsec.conf"


class RadioMissingError(Exception):
    """There are fewer free radios than the lab wants."""


@dataclass(frozen=True)
class Channel:
    """How to join a mesh. ``rate``: the only bit rate that is used, in Mbit/s; 0 leaves the choice to the kernel."""

    mesh_id: str = "lab"
    frequency: int = 2412
    rate: int = 0

    def joining(self) -> list[str]:
        """Return the arguments of ``iw dev ... mesh join``."""
        rates = ["NOHT", "basic-rates", str(self.rate)] if self.rate else ["HT20"]
        return [self.mesh_id, "freq", str(self.frequency), *rates, "mcast-rate", str(self.rate or 6)]


FAST = Channel()
SLOW = Channel("slow", 2437, 1)
"""The slowest rate of 802.11, as over a long or bad link."""
ACCESS_BIT = 1 << 31
"""What access points and their clients share, beside the links of the mesh."""


@dataclass
class Radio:
    """One radio, with one mesh interface in a node's namespace."""

    phy: str
    address: str
    namespace: str
    interface: str
    bits: int = 0

    def make(self) -> None:
        """Make the mesh interface; it has not joined a mesh yet."""
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
        """Leave the mesh in order: the neighbours get a close frame."""
        self._iw("mesh", "leave")

    def hear(self, bits: int) -> None:
        """Share exactly these bits with other radios from now on."""
        self.bits = bits
        (_GROUPS / self.phy / "hwsim" / "group").write_text(f"{bits:#x}", encoding="ascii")

    def stations(self) -> dict[str, dict[str, str]]:
        """Return what the kernel knows of each neighbour, by its address, with the keys of ``iw`` (``mesh plink``,
        ...)."""
        found: dict[str, dict[str, str]] = {}
        for line in self._iw("station", "dump").splitlines():
            if line.startswith("Station "):
                found[line.split()[1]] = {}
            elif found:
                name, _, value = line.strip().partition(":")
                found[next(reversed(found))][name] = value.strip()
        return found

    def peers(self) -> set[str]:
        """Return the addresses of the stations with an established peering."""
        return {address for address, known in self.stations().items() if known.get("mesh plink") == "ESTAB"}

    def listen(self) -> str:
        """Add a monitor interface, which shows every frame that the radio can hear. Return its name."""
        self._all(
            ["iw", "phy", self.phy, "interface", "add", MONITOR, "type", "monitor"],
            [
                "sysctl",
                "-q",
                "-w",
                f"net.ipv6.conf.{MONITOR}.disable_ipv6=1",
            ],  # Else the kernel itself sends frames there.
            ["ip", "link", "set", MONITOR, "up"],
        )
        return MONITOR

    def give_back(self) -> None:
        """Stop the radio and return it to the machine. Whatever keeps its namespace alive has ended, or ends now."""
        self.hear(0)
        self._iw("del", check=False)
        self._iw("set", "netns", str(os.getpid()), of="phy", check=False)

    def _all(self, *commands: list[str]) -> None:
        """Run several programs in the namespace from one shell, because entering the namespace takes the time."""
        script = "\n".join(shlex.join(command) for command in commands)
        run(["ip", "netns", "exec", self.namespace, "sh", "-e"], stdin=script)

    def _iw(self, *arguments: str, of: str = "dev", check: bool = True) -> str:
        name = self.interface if of == "dev" else self.phy
        return run(["ip", "netns", "exec", self.namespace, "iw", of, name, *arguments], check=check).stdout


@dataclass(frozen=True)
class RadioLink(Link):
    """Two nodes that hear each other by radio. A radio has no carrier: no event says when a link ends."""

    radios: tuple[Radio, Radio]
    bit: int

    def up(self) -> None:
        """Let the nodes hear each other."""
        for radio in self.radios:
            radio.hear(radio.bits | self.bit)

    def cut(self) -> None:
        """Let the nodes hear each other no more."""
        for radio in self.radios:
            radio.hear(radio.bits & ~self.bit)

    def down(self) -> None:
        """Do what ``cut`` does."""
        self.cut()

    def lose(self, percent: int) -> None:
        """Lose this percentage of the packets in each direction, at random, at the receiver after the acknowledgement.

        Unlike a weak signal, this leaves rates, stations and their metric as they are.
        """
        for end, other in zip(self.ends, reversed(self.radios), strict=True):
            end.lose_from(other.address, percent)

    def fix(self) -> None:
        """Let the nodes hear each other without loss."""
        self.lose(0)
        self.up()


@dataclass
class Air:
    """The medium of a lab on radio: every node has one interface, ``mesh0``."""

    channel: Channel = FAST
    links: dict[frozenset[str], RadioLink] = field(default_factory=dict)
    radios: dict[str, Radio] = field(default_factory=dict)
    """The radio of each node's ``mesh0``."""
    _taken: list[Radio] = field(default_factory=list)
    _made: int = 0

    def equip(self, station: Station) -> None:
        """Give a node its radio, which hears no other yet."""
        # A relay sends packets out where they came in: without the product's settings the kernel sends redirects.
        run(["ip", "netns", "exec", station.namespace, "sysctl", "-q", "-p", str(_SYSCTLS)])
        self.radios[station.name] = self._radio(station, self.channel)

    def join(self, first: Station, second: Station) -> Link:
        """Make two nodes hear each other."""
        link = self._link(self.radios[first.name], self.radios[second.name])
        self.links[frozenset((first.name, second.name))] = link
        return link

    def hear(self, *pairs: Pair) -> None:
        """Let exactly these nodes hear each other, as if nodes had moved. Refuses pairs that never had a link."""
        wanted = [self.links[frozenset(pair)] for pair in pairs]
        for radio in self.radios.values():
            radio.hear(sum(link.bit for link in wanted if radio in link.radios))

    def second_link(self, first: Station, second: Station, channel: Channel) -> RadioLink:
        """Join two nodes by a second radio each, on a channel of its own."""
        radios = [self._radio(station, channel) for station in (first, second)]
        return self._link(*radios)

    def end(self) -> None:
        """Return all radios to the machine."""
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
    """Return why this machine has no radio, or None. In the guest, load the module."""
    if missing := [program for program in ("iw", "wpa_supplicant", "modprobe") if not find(program)]:
        return f"not installed: {' '.join(missing)}"
    if os.environ.get(GUEST_VARIABLE) and not _free():
        result = run(["modprobe", _MODULE, f"radios={_RADIOS}"], check=False)
        if result.returncode:
            return f"this kernel has no radios: {result.stderr.strip()}"
    if not _free():
        return f"the module {_MODULE} is not loaded here; the guest loads it and runs this there"
    return None if _GROUPS.is_dir() else f"debugfs is not mounted: {_GROUPS}"


def mesh_radio(namespace: str, interface: str, channel: Channel) -> Radio:
    """Give a namespace a radio with a mesh interface, which has joined and shares no bit with others."""
    radio = _take(namespace, interface)
    radio.hear(0)
    radio.make()
    radio.join(channel)
    return radio


def station_radio(namespace: str, interface: str) -> Radio:
    """Give a namespace a radio with an ordinary interface, which hears all others of this kind."""
    radio = _take(namespace, interface)
    radio.hear(ACCESS_BIT)
    run(["ip", "netns", "exec", namespace, "iw", "phy", radio.phy, "interface", "add", interface, "type", "managed"])
    return radio


def _take(namespace: str, interface: str) -> Radio:
    """Move a free radio into a namespace and remove the interface that it was made with."""
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
    """Return the radios that are in no node's namespace: sysfs shows only those of its own namespace."""
    driven = ((path.name, path / "device" / "driver") for path in sorted(_PHYS.glob("*")))
    return [name for name, driver in driven if driver.resolve().name == _MODULE]


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    RUN.mkdir(mode=0o755, exist_ok=True)
    with (RUN / ".radios").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
