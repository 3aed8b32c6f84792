"""Fixtures for the adapters' tests: network namespaces, and a real charon in each."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec.adapters.files.key_store import NodeKey
from meshsec.adapters.ike import strongswan_conf
from meshsec.core.trust import identity
from meshsec.core.values.model import Card, ChildSpec, ConnectionSpec, EspBackend
from namespaces import inside, ip, new_namespace, wait_for

CHARON = shutil.which("charon-systemd") or "/usr/sbin/charon-systemd"
__all__ = ["inside", "new_namespace"]


@dataclass
class IkeNode:
    """A node with its namespace, key and card, and a charon that tests can kill and start again."""

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
        """Return whether one echo request from this node's address to the peer's was answered."""
        argv = ["ping", "-c1", "-w30", "-I", str(self.card.address), str(peer.card.address)]
        command = ["ip", "netns", "exec", self.namespace, *argv]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def start(self) -> None:
        plugins = strongswan_conf.installed_plugins()
        text = strongswan_conf.render(EspBackend.LIBIPSEC, self.vici, self.directory / "charon.log", plugins=plugins)
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
        """Return the connection to a peer in tunnel mode between the locators; ``changes`` replace fields."""
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


def new_key() -> NodeKey:
    return NodeKey(Ed25519PrivateKey.from_private_bytes(identity.generate(lambda: os.urandom(32))))


@pytest.fixture
def ike_pair(new_namespace: Callable[[], str]) -> Iterator[tuple[IkeNode, IkeNode]]:
    """Give two nodes on one link, each with a running charon and a route to the other's locator."""
    with contextlib.ExitStack() as stack:
        nodes = []
        for name in ("alpha", "charlie"):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meshsec-")))
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
