"""A host behind a node, on a network of its own that is no part of the mesh."""

from dataclasses import dataclass

from tests.lab.basics.shell import run
from tests.lab.net.links import End, Link
from tests.lab.node.node import Node

NETWORK, NETWORK4 = "2001:db8:9::/64", "192.168.9.0/24"
INTERFACE = "lan0"
"""The node's interface to the host."""


@dataclass(frozen=True)
class Host:
    """The host: its namespace and its two addresses. The node is its gateway."""

    namespace: str
    address: str = "2001:db8:9::5"
    ipv4: str = "192.168.9.5"

    @classmethod
    def behind(cls, node: Node, namespace: str) -> "Host":
        """Connect a node to the host in this namespace, which has no interface yet, by a cable."""
        host = cls(namespace)
        Link.create(End(node.namespace, INTERFACE), End(host.namespace, "eth0"))
        ends = ((node.namespace, INTERFACE, 1), (host.namespace, "eth0", 5))
        for end, interface, suffix in ends:
            addresses = f"2001:db8:9::{suffix}/64", f"192.168.9.{suffix}/24"
            for address in addresses:
                run(["ip", "-n", end, "address", "add", address, "dev", interface])
        run(["ip", "-n", host.namespace, "route", "add", "default", "via", "192.168.9.1"])
        run(["ip", "-n", host.namespace, "route", "add", "default", "via", "2001:db8:9::1"])
        return host


def masquerade(node: Node) -> None:
    """Let packets from behind the node leave with the node's address, as a container engine does."""
    chain = f'type nat hook postrouting priority srcnat; iifname "{INTERFACE}" masquerade;'
    node.run("nft", f"table inet lab_nat {{ chain out {{ {chain} }}; }}")
