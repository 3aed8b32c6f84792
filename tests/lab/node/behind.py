"""A host behind a node, on a network of its own that is no part of the mesh."""

from dataclasses import dataclass

from tests.lab.basics.shell import run
from tests.lab.net.links import End, Link
from tests.lab.node.node import Node
from tests.lab.node.routers import Router

_WITHOUT_DAD = {True: ["nodad"], False: []}
INTERFACE = "lan0"
"""The node's interface to the host."""


@dataclass(frozen=True)
class Host:
    """The host: its namespace and the number of its networks. The node is its gateway."""

    namespace: str
    number: int = 9

    @property
    def networks(self) -> tuple[str, str]:
        """Return the networks that it shares with the node, IPv6 first."""
        return f"2001:db8:{self.number}::/64", f"192.168.{self.number}.0/24"

    @property
    def address(self) -> str:
        """Return its IPv6 address."""
        return f"2001:db8:{self.number}::5"

    @property
    def ipv4(self) -> str:
        """Return its IPv4 address."""
        return f"192.168.{self.number}.5"

    @classmethod
    def behind(cls, node: Node | Router, namespace: str, number: int = 9) -> "Host":
        """Connect a node to the host in this namespace, which has no interface yet, by a cable."""
        host = cls(namespace, number)
        Link.create(End(node.namespace, INTERFACE), End(host.namespace, "eth0"))
        ends = ((node.namespace, INTERFACE, 1), (host.namespace, "eth0", 5))
        for end, interface, suffix in ends:
            addresses = f"2001:db8:{number}::{suffix}/64", f"192.168.{number}.{suffix}/24"
            for address in addresses:
                run(["ip", "-n", end, "address", "add", address, "dev", interface, *_WITHOUT_DAD[":" in address]])
        run(["ip", "-n", host.namespace, "route", "add", "default", "via", f"192.168.{number}.1"])
        run(["ip", "-n", host.namespace, "route", "add", "default", "via", f"2001:db8:{number}::1"])
        return host


@dataclass(frozen=True)
class Container:
    """Addresses of a host behind a node in networks that the node announces to nobody: it translates them."""

    namespace: str
    ipv4: str = "172.17.0.5"
    address: str = "2001:db8:17::5"

    @classmethod
    def on(cls, node: Node, host: Host) -> "Container":
        """Give the host these addresses, and the node those beside them and the translation."""
        made = cls(host.namespace)
        for end, interface, suffix in ((node.namespace, INTERFACE, 1), (made.namespace, "eth0", 5)):
            for address in (f"172.17.0.{suffix}/16", f"2001:db8:17::{suffix}/64"):
                run(["ip", "-n", end, "address", "add", address, "dev", interface, *_WITHOUT_DAD[":" in address]])
        masquerade(node, "ip saddr 172.17.0.0/16", "ip6 saddr 2001:db8:17::/64")
        return made


def masquerade(node: Node, *sources: str) -> None:
    """Let packets from behind the node leave with the node's address, as a container engine does.

    ``sources`` are those concerned, as nft matches them; by default all.
    """
    rules = "; ".join(f'iifname "{INTERFACE}" {source} masquerade' for source in sources or ("",))
    chain = f"type nat hook postrouting priority srcnat; {rules};"
    node.run("nft", f"table inet lab_nat {{ chain out {{ {chain} }}; }}")
