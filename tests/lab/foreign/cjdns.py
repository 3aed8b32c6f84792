"""Overlay routers in network namespaces, of either make: cjdroute, and this project's overlayd."""

import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from meshsec.core.trust import identity
from tests.lab.basics import programs
from tests.lab.basics.patience import patient
from tests.lab.basics.processes import Daemon
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.foreign.cjdns_admin import ADDRESS, PASSWORD, AdminClient, AdminError, decode, encode
from tests.lab.net import topology
from tests.lab.node.routers import Mesh, Router
from tests.lab.observe.kernel_events import RouteEvents

PORT = 5000
"""UDP port on which every router listens for its neighbours."""
BEACON_PORT = 64512
BEACON_WORDS = ("off", "accept", "send")
_BASE32 = "0123456789bcdfghjklmnpqrstuvwxyz"
_TUN = "overlay"
_RUNS = " Pathfinder.c:"
"""What cjdroute logs when its event loop runs."""


@dataclass(frozen=True)
class Secret:
    """What a router shows to its neighbour: a password, which names itself or comes with a login."""

    password: str
    login: str = ""


@dataclass(frozen=True)
class Neighbour:
    """A neighbour to connect to: ``ADDRESS:PORT`` over UDP, or a hardware address on an Ethernet ``device``."""

    address: str
    key: str
    secret: Secret
    device: str = ""


@dataclass
class Plan:
    """The neighbours of a router. ``beacon``: 0 none, 1 accept those of others, 2 send beacons as well."""

    users: list[Secret] = field(default_factory=list)
    neighbours: list[Neighbour] = field(default_factory=list)
    udp_beacon: int = 0
    ethernet: dict[str, int] = field(default_factory=dict)

    def neighbours_by(self, device: str) -> list[Neighbour]:
        """Return the neighbours on an Ethernet device, or for "" those over UDP."""
        return [neighbour for neighbour in self.neighbours if neighbour.device == device]


class OverlayRouter(Router):
    """What both makes have in common. ``configure`` writes all files."""

    def __init__(self, name: str, number: int, namespace: str, directory: Path) -> None:
        super().__init__(name, number, namespace, directory)
        self.seed = identity.generate(lambda: os.urandom(identity.KEY_LENGTH))
        self.plan = Plan()
        self.admin = AdminClient(namespace)

    @cached_property
    def key(self) -> str:
        """Return the public key as cjdns writes it."""
        return base32(self._public) + ".k"

    @cached_property
    def address(self) -> str:
        """Return the address in the overlay."""
        return str(identity.address_of(self._public))

    def start(self) -> None:
        """Start the router; wait until it answers and has its address."""
        super().start()
        self._wait_up()

    def _wait_up(self) -> None:
        with closing(RouteEvents(self.namespace)) as routes:
            wait_until(f"{self.name} ({self.make}) runs", self._is_up, [routes], 30, last=lambda: self.daemon.tail(30))

    def states(self) -> dict[str, str]:
        """Return the state of the link to every neighbour, by the neighbour's key."""
        try:
            peers = self.admin.call("InterfaceController_peerStats", page=0)["peers"]
        except AdminError:
            return {}
        return {_key_of(peer["addr"]): peer["state"] for peer in peers}

    def wait_neighbour(self, other: "OverlayRouter", seconds: float = 60) -> None:
        """Wait until the link with a neighbour is established."""
        who = f"{self.name} ({self.make}): the link with {other.name}"
        wait_until(who, lambda: self.states().get(other.key) == "ESTABLISHED", [], seconds, last=self.states)

    def wait_ping(self, other: "OverlayRouter", seconds: float = 45) -> None:
        """Wait for an answer to an echo over the overlay."""
        argv = ["ping", "-n", "-q", "-c", "1", "-i", "0.2", "-w", f"{patient(seconds):.0f}", other.address]
        run(["ip", "netns", "exec", self.namespace, *argv], timeout=seconds + 15)

    @property
    def _public(self) -> bytes:
        return identity.x25519_public(identity.public_key_of(self.seed))

    def _is_up(self) -> bool:
        shown = self.ip("-j", "-6", "address", "show", "to", self.address, check=False).stdout
        return any(entry for entry in json.loads(shown or "[]")) and self.admin.ping()


class Cjdroute(OverlayRouter):
    """A node with the core of cjdroute. The core gets its key over a socket and all else through its admin API.

    The program that usually does this (``cjdroute --nobg``) loses the core's first answer when the machine is busy.
    """

    make = "cjdroute"

    def configure(self, settings: str = "", interfaces: Iterable[str] | None = None, each: str = "") -> None:
        """Do nothing: this router reads no file."""

    def start(self) -> None:
        """Start the core, configure it and wait until it runs."""
        self._pipe.unlink(missing_ok=True)
        begin = self.daemon.log.stat().st_size if self.daemon.log.exists() else 0
        self.daemon.start()
        who = f"{self.name} ({self.make})"
        wait_until(f"{who} takes its key", self._give_key, [], 30, last=self.daemon.tail)
        # A call while the core registers its functions is lost, and all later calls with it.
        wait_until(f"{who} takes commands", lambda: _RUNS in self._said(begin), [], 30, last=self.daemon.tail)
        self._set_up()
        self._wait_up()

    def _said(self, begin: int) -> str:
        return self.daemon.log.read_bytes()[begin:].decode(errors="replace")

    @property
    def _pipe(self) -> Path:
        return self.directory / "core.sock"

    def _give_key(self) -> bool:
        admin = {"bind": ":".join(map(str, ADDRESS)), "pass": PASSWORD}
        key = identity.x25519_private(self.seed).hex()
        settings = encode({"privateKey": key, "admin": admin, "logging": {"logTo": "stdout"}})
        with socket.socket(socket.AF_UNIX) as pipe, suppress(OSError):
            pipe.settimeout(patient(1))
            pipe.connect(str(self._pipe))
            pipe.send(settings)
            return bool(decode(pipe.recv(4096))["error"] == "none")
        return False

    def _set_up(self) -> None:
        call = self.admin.call
        for user in self.plan.users:
            call("AuthorizedPasswords_add", **_user(user))
        beacon = {"beaconPort": BEACON_PORT} if self.plan.udp_beacon else {}
        udp = call("UDPInterface_new", bindAddress=f"0.0.0.0:{PORT}", **beacon)["interfaceNumber"]
        if beacon:
            call("UDPInterface_setBroadcastDevices", interfaceNumber=udp, devices=["all"])
            call("UDPInterface_beacon", interfaceNumber=udp, state=self.plan.udp_beacon)
        for neighbour in self.plan.neighbours_by(""):
            call("UDPInterface_beginConnection", interfaceNumber=udp, **_shown(neighbour))
        for device, state in self.plan.ethernet.items():
            number = call("ETHInterface_new", bindDevice=device)["interfaceNumber"]
            call("ETHInterface_beacon", interfaceNumber=number, state=state)
            for neighbour in self.plan.neighbours_by(device):
                shown = _shown(neighbour)
                call("ETHInterface_beginConnection", interfaceNumber=number, macAddress=shown.pop("address"), **shown)
        call("Core_initTunnel", desiredTunName=_TUN)
        call("Security_setupComplete")

    def _daemon(self) -> Daemon:
        argv = [programs.cjdroute(), "core", str(self._pipe)]
        return Daemon(
            f"{self.make}-{self.name}",
            self.namespace,
            argv,
            logs=self.directory,
            sockets=self.directory,
            env={"RUST_BACKTRACE": "0"},
            notifies=False,
        )


class Overlayd(OverlayRouter):
    """A node with overlayd."""

    make = "overlayd"

    def configure(self, settings: str = "", interfaces: Iterable[str] | None = None, each: str = "") -> None:
        """Write the key and the configuration, readable for root only."""
        private = Ed25519PrivateKey.from_private_bytes(self.seed)
        self._key_file.touch(mode=0o600)
        self._key_file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self.config.touch(mode=0o600)
        super().configure(settings, interfaces, each)

    def _configuration(self, settings: str, interfaces: Iterable[str], each: str) -> str:
        del settings, interfaces, each  # the plan says everything
        return self._text()

    def _text(self) -> str:
        """Return the configuration file."""
        parts = [
            f'key = "{self._key_file}"\npermit = "anybody"',
            f'[tun]\nname = "{_TUN}"',
            f'[admin]\nbind = "127.0.0.1:11234"\npassword = "{PASSWORD}"',
            f'[control]\nsocket = "{self.socket}"',
            *(f"[[user]]\n{_toml(_named(user))}" for user in self.plan.users),
            f'[[udp]]\nbind = "0.0.0.0:{PORT}"\n{self._beacon()}',
            *self._connections("udp", ""),
        ]
        for device, beacon in self.plan.ethernet.items():
            parts.append(f'[[ethernet]]\ndevice = "{device}"\nbeacon = "{BEACON_WORDS[beacon]}"')
            parts += self._connections("ethernet", device)
        return "\n".join(parts) + "\n"

    @property
    def _key_file(self) -> Path:
        return self.directory / "node.key"

    def _beacon(self) -> str:
        word = BEACON_WORDS[self.plan.udp_beacon]
        return f'beacon = "{word}"\nbeacon_port = {BEACON_PORT}\nbeacon_devices = ["all"]' if word != "off" else ""

    def _connections(self, table: str, device: str) -> list[str]:
        def entry(neighbour: Neighbour) -> str:
            shown = _shown(neighbour)
            return _toml({"address": shown["address"], "key": shown.pop("publicKey"), **shown})

        return [f"[[{table}.peer]]\n{entry(neighbour)}" for neighbour in self.plan.neighbours_by(device)]

    def _daemon(self) -> Daemon:
        argv = [programs.overlayd(), "--config", str(self.config), "--log-level", "debug"]
        return Daemon(f"{self.make}-{self.name}", self.namespace, argv, logs=self.directory, sockets=self.directory)


@contextmanager
def line(makes: Sequence[type[OverlayRouter]]) -> Iterator[list[OverlayRouter]]:
    """Yield routers of these makes in a line, neither configured nor started, with IPv4 addresses on their links."""
    names = topology.names(len(makes))
    with addressed(topology.line(names), dict(zip(names, makes, strict=True))) as mesh:
        yield [router for router in mesh.routers.values() if isinstance(router, OverlayRouter)]


@contextmanager
def addressed(pairs: Sequence[topology.Pair], makes: Mapping[str, type[OverlayRouter]]) -> Iterator[Mesh]:
    """Yield routers as ``line`` does, in any shape. A link's number is its position in ``pairs``."""
    with Mesh(pairs, makes=makes) as mesh:
        for number, (left, right) in enumerate(pairs, start=1):
            for host, (node, other) in enumerate(((left, right), (right, left)), start=1):
                address = ["address", "add", f"10.78.{number}.{host}/24", "broadcast", "+"]
                mesh[node].ip(*address, "dev", f"mesh-{other}")
        yield mesh


def connect(number: int, initiator: OverlayRouter, responder: OverlayRouter, secret: Secret, host: int) -> None:
    """Give the initiator of link ``number`` the address of the responder, whose ``host`` is 1 (left) or 2 (right)."""
    if secret not in responder.plan.users:
        responder.plan.users.append(secret)
    initiator.plan.neighbours.append(Neighbour(f"10.78.{number}.{host}:{PORT}", responder.key, secret))


def start(routers: Iterable[OverlayRouter]) -> None:
    """Configure and start all routers; wait until they run."""
    for router in routers:
        router.configure()
        router.start()


def hardware_address(router: OverlayRouter, device: str) -> str:
    """Return the hardware address of one of a router's interfaces."""
    (shown,) = json.loads(router.ip("-j", "link", "show", device).stdout)
    return str(shown["address"])


def base32(octets: bytes) -> str:
    """Encode in the base32 of cjdns: the lowest bits first, digits and consonants."""
    number, digits = int.from_bytes(octets, "little"), -(-8 * len(octets) // 5)
    return "".join(_BASE32[number >> 5 * digit & 31] for digit in range(digits))


def _key_of(address: str) -> str:
    """Return the key in ``v22.0000.0000.0000.0013.KEY.k``."""
    return ".".join(address.split(".")[-2:])


def _user(user: Secret) -> dict[str, str]:
    return {"password": user.password} | ({"user": user.login} if user.login else {})


def _named(user: Secret) -> dict[str, str]:
    return {"name": user.login or "somebody", "password": user.password}


def _shown(neighbour: Neighbour) -> dict[str, str]:
    secret = neighbour.secret
    shown = {"address": neighbour.address, "publicKey": neighbour.key, "password": secret.password}
    return shown | ({"login": secret.login} if secret.login else {})


def _toml(entries: dict[str, str]) -> str:
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in entries.items())
