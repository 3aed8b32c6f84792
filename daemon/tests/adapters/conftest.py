"""Real outside systems for the adapters' tests: network namespaces of their own, and a charon in each."""

import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pyroute2 import netns

from meshsec.adapters import strongswan_conf
from meshsec.adapters.key_store import NodeKey
from meshsec.core import identity
from meshsec.core.model import Card, ChildSpec, ConnectionSpec, EspGround

_serial = itertools.count()

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
CHARON = shutil.which("charon-systemd") or "/usr/sbin/charon-systemd"


def ip(*arguments: str, check: bool = True) -> str:
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True).stdout


@pytest.fixture
def new_namespace() -> Iterator[Callable[[], str]]:
    """Makes network namespaces with an up loopback device; they are gone afterwards."""
    made: list[str] = []

    def make() -> str:
        name = f"p2-{os.getpid()}-{next(_serial)}"
        ip("netns", "add", name)
        made.append(name)
        ip("-n", name, "link", "set", "lo", "up")
        return name

    yield make
    for name in made:
        ip("netns", "delete", name, check=False)


@pytest.fixture
def inside(new_namespace: Callable[[], str]) -> Iterator[str]:
    """The test itself runs in a namespace of its own."""
    name = new_namespace()
    netns.pushns(name)
    yield name
    netns.popns()


@dataclass
class IkeNode:
    """A node of the test: a namespace, keys and addresses, and a charon that can be killed and started again."""

    name: str
    namespace: str
    directory: Path
    key: NodeKey
    card: Card
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def vici(self) -> Path:
        return self.directory / "vici"

    @property
    def log(self) -> str:
        return (self.directory / "charon.log").read_text()

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def send(self, peer: "IkeNode") -> bool:
        """One echo request from address to address; whether it was answered."""
        argv = ["ping", "-c1", "-W2", "-I", str(self.card.address), str(peer.card.address)]
        command = ["ip", "netns", "exec", self.namespace, *argv]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def start(self) -> None:
        plugins = strongswan_conf.installed_plugins()
        text = strongswan_conf.render(EspGround.LIBIPSEC, self.vici, self.directory / "charon.log", plugins=plugins)
        configuration = self.directory / "strongswan.conf"
        configuration.write_text(text)
        self.vici.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, CHARON],
            env=dict(os.environ, STRONGSWAN_CONF=str(configuration)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self.vici.exists, f"charon of {self.name} to listen")

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def towards(self, peer: "IkeNode", **changes: object) -> ConnectionSpec:
        """The connection to a peer, in tunnel mode between the locators; ``changes`` replace fields."""
        selector = ChildSpec(
            name="mesh",
            mode="tunnel",
            local_ts=(IPv6Network(self.card.address),),
            remote_ts=(IPv6Network(peer.card.address),),
            esp_proposals=("aes256gcm16-x25519",),
        )
        values: dict[str, object] = {
            "name": peer.name,
            "local_address": self.card.locator,
            "remote_address": peer.card.locator,
            "local_id": self.card.address,
            "remote_id": peer.card.address,
            "local_public_key": self.card.public_key,
            "remote_public_key": peer.card.public_key,
            "ike_proposals": ("aes256gcm16-prfsha256-x25519",),
            "children": (selector,),
            "encapsulate": True,
            "ike_rekey_time": 14400,
            "child_rekey_time": 3600,
        }
        return ConnectionSpec(**(values | changes))  # type: ignore[arg-type]


def wait_for(ready: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    """Look every few milliseconds until it is so."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.005)


def new_key() -> NodeKey:
    return NodeKey(Ed25519PrivateKey.from_private_bytes(identity.generate(lambda: os.urandom(32))))


@pytest.fixture
def ike_pair(new_namespace: Callable[[], str]) -> Iterator[tuple[IkeNode, IkeNode]]:
    """Two nodes on one link, each with a running charon and a route to the other's locator."""
    with contextlib.ExitStack() as stack:
        nodes = []
        for name in ("alpha", "charlie"):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="p2-")))
            key = new_key()
            nodes.append(IkeNode(name, new_namespace(), directory, key, identity.make_card(name, key.public_key)))
        _connect(*nodes)
        for node in nodes:
            stack.callback(node.stop)
            node.start()
        yield nodes[0], nodes[1]


def _connect(one: IkeNode, other: IkeNode) -> None:
    ip(
        "link",
        "add",
        "mesh0",
        "netns",
        one.namespace,
        "type",
        "veth",
        "peer",
        "name",
        "mesh0",
        "netns",
        other.namespace,
    )
    for number, (node, peer) in enumerate(((one, other), (other, one)), start=1):
        space = node.namespace
        ip("-n", space, "link", "set", "mesh0", "up")
        ip("-n", space, "addr", "add", f"fe80::{number}/64", "dev", "mesh0", "nodad")
        for address in (node.card.address, node.card.locator):
            ip("-n", space, "addr", "add", f"{address}/128", "dev", "lo", "nodad")
        gateway = IPv6Address(f"fe80::{3 - number}")
        ip("-n", space, "route", "add", f"{peer.card.locator}/128", "via", str(gateway), "dev", "mesh0", "onlink",
           "src", str(node.card.locator))  # fmt: skip
