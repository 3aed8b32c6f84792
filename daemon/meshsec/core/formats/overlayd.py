"""What ``overlayd.toml`` says, and its text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv6Address

from meshsec.core.config.overlay_settings import OverlaySettings
from meshsec.core.config.settings import Paths, Settings
from meshsec.core.formats import toml
from meshsec.core.networks.mtu import OVERLAY


class Beacons(StrEnum):
    """What an interface does with beacons, by which neighbours find each other."""

    OFF = "off"
    ACCEPT = "accept"
    SEND = "send"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may connect."""

    password: str = field(repr=False)
    name: str | None = None
    address: IPv6Address | None = None
    """The neighbour's address; None: any key is taken."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A node to connect to."""

    address: str
    """ADDRESS:PORT, or six octets in hexadecimal digits."""
    key: str
    password: str | None = field(default=None, repr=False)
    login: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Udp:
    """A UDP socket."""

    bind: str
    beacon: Beacons = Beacons.OFF
    beacon_port: int | None = None
    beacon_devices: tuple[str, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, slots=True)
class Ethernet:
    """An Ethernet device."""

    device: str
    beacon: Beacons = Beacons.OFF
    neighbours: tuple[Neighbour, ...] = ()


_UNDER_MESHSECD: Mapping[str, int] = {"mtu": OVERLAY, "address": False}
"""Of the TUN device: meshsecd sets the routes, and what hosts behind nodes send has the tunnel's headers around it."""


@dataclass(frozen=True, slots=True)
class Admin:
    """The admin API."""

    bind: str
    password: str | None = field(default=None, repr=False)
    """The password of the admin interface; None: only what needs no authentication is allowed."""


@dataclass(frozen=True, slots=True)
class OverlayConf:
    """All of it but the node's key."""

    users: tuple[User, ...] = ()
    udp: tuple[Udp, ...] = ()
    ethernet: tuple[Ethernet, ...] = ()
    admin: Admin | None = None
    tun: str | None = None
    anybody: bool = False
    """Whether user data is exchanged with every node, not only with those that are named later."""
    by_meshsecd: bool = False
    """meshsecd names those with whom user data is exchanged, and routes to them."""
    socket: str | None = None
    """Path of the control socket; None: the usual one."""

    @property
    def neighbours(self) -> int:
        """How many there are, by all interfaces."""
        return sum(len(one.neighbours) for one in self.udp) + sum(len(one.neighbours) for one in self.ethernet)


def of_mesh(settings: Settings) -> OverlayConf:
    """Return the settings of a node under meshsecd: neighbours find each other by beacons on the mesh interfaces."""
    overlay = settings.overlay
    return OverlayConf(
        ethernet=tuple(Ethernet(device, Beacons.SEND) for device in settings.routing.interfaces),
        tun=overlay.device,
        by_meshsecd=True,
        socket=None if overlay.socket == OverlaySettings().socket else overlay.socket,
    )


def render(conf: OverlayConf, key: str, comment: str) -> str:
    """Return the text of ``overlayd.toml``; ``key`` is the file of the node's key. With passwords in it: mode 0600.

    A key where everybody expects it is not named: overlayd's unit gives it a copy, for it may not read that file.
    """
    elsewhere = None if key == Paths().key else key
    permit = "control" if conf.by_meshsecd else "anybody" if conf.anybody else None
    lines = [f"# {comment}", *_values(key=elsewhere, permit=permit)]
    if conf.tun is not None:
        lines += ["", "[tun]", *_values(name=conf.tun, **(_UNDER_MESHSECD if conf.by_meshsecd else {}))]
    if conf.socket is not None:
        lines += ["", "[control]", *_values(socket=conf.socket)]
    if conf.admin is not None:
        lines += ["", "[admin]", *_values(bind=conf.admin.bind, password=conf.admin.password)]
    for user in conf.users:
        address = None if user.address is None else str(user.address)
        lines += ["", "[[user]]", *_values(name=user.name, password=user.password, address=address)]
    for udp in conf.udp:
        lines += ["", "[[udp]]", *_values(bind=udp.bind, beacon=udp.beacon, beacon_port=udp.beacon_port)]
        lines += _values(beacon_devices=udp.beacon_devices or None)
        lines += _neighbours("udp", udp.neighbours)
    for ethernet in conf.ethernet:
        lines += ["", "[[ethernet]]", *_values(device=ethernet.device, beacon=ethernet.beacon)]
        lines += _neighbours("ethernet", ethernet.neighbours)
    return "\n".join(lines) + "\n"


def _neighbours(kind: str, neighbours: tuple[Neighbour, ...]) -> Iterator[str]:
    for one in neighbours:
        yield from ("", f"[[{kind}.peer]]")
        yield from _values(address=one.address, key=one.key, password=one.password, login=one.login, name=one.name)


def _values(**values: str | int | tuple[str, ...] | None) -> list[str]:
    """Return the lines of the keys that are set."""
    return [f"{key} = {toml.encode(value)}" for key, value in values.items() if value is not None]
