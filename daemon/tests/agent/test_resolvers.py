"""What doctor of an access node says of the resolvers by which it answers its clients."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.test_meshsecd import Node, node
from meshsec.core.networks.networks import DEVICE
from namespaces import ip, needs_root, wait_for

pytestmark = needs_root
__all__ = ["node"]

RESOLVER = "192.0.2.53"
ACCESS = '\n[access]\nnetworks = ["10.130.0.0/16"]\n'


@pytest.fixture
def resolv_conf(node: Node) -> Iterator[Path]:
    """Give the node a ``resolv.conf`` of its own, which `ip netns exec` puts in the place of the machine's."""
    directory = Path("/etc/netns", node.namespace)
    directory.mkdir(parents=True)
    made = directory / "resolv.conf"
    made.write_text(f"# the resolver\nnameserver {RESOLVER}\noptions edns0\nnameserver\n")
    yield made
    shutil.rmtree(directory)


def found(node: Node) -> list[tuple[str, str]]:
    checks = node.ask("doctor")["result"]["checks"]
    return [(one["level"], one["found"]) for one in checks if one["name"] == "resolvers" and one["mend"]]


def lost(*resolvers: str) -> list[tuple[str, str]]:
    why = "clients get no names: this node has no IPv4 address in the mesh, and cannot ask"
    return [("warn", f"{why} {', '.join(resolvers)}")]


def start(node: Node, more: str) -> None:
    with node.config.open("a") as config:
        config.write(more)
    node.start()


def test_resolvers_that_a_node_without_an_ipv4_address_cannot_ask_are_named(node: Node, resolv_conf: Path) -> None:
    routing = node.config.read_text().replace("[paths]", 'attached = [{ prefix = "10.9.0.0/16" }]\n[paths]')
    node.config.write_text(routing)
    start(node, ACCESS)
    assert found(node) == lost(RESOLVER), "there is no route"
    wait_for(lambda: DEVICE in ip("link"), "the tunnel")
    ip("address", "add", "10.130.0.1/32", "dev", "lo")
    ip("route", "add", RESOLVER, "dev", DEVICE)
    assert found(node) == lost(RESOLVER), "its packets would have the address that all access nodes have"
    resolv_conf.write_text(f"nameserver {RESOLVER}\nnameserver 192.0.2.54\n")
    assert found(node) == lost(RESOLVER, "192.0.2.54")
    for other in ("2001:db8::53", "fe80::1%mesh0", "127.0.0.53"):
        resolv_conf.write_text(f"nameserver {RESOLVER}\nnameserver {other}\n")
        assert found(node) == []
    resolv_conf.write_text(f"nameserver {RESOLVER}\nnameserver 192.0.2.54\n")
    ip("address", "add", "10.9.0.1/32", "dev", "lo")
    ip("route", "replace", RESOLVER, "dev", DEVICE, "src", "10.9.0.1")
    assert found(node) == [], "its packets have an address of a network behind it"
    ip("route", "replace", RESOLVER, "dev", "lo", "src", "10.130.0.1")
    assert found(node) == [], "it is asked past the tunnel"
    resolv_conf.write_text("search example\n")
    assert found(node) == []
    resolv_conf.unlink()
    assert found(node) == []


@pytest.mark.parametrize(
    ("address", "more"),
    [("", ""), ("", f'{ACCESS}resolvers = ["{RESOLVER}"]\n'), ('ipv4 = "10.77.0.1"\n', ACCESS)],
    ids=["no access node", "clients ask themselves", "with an IPv4 address"],
)
def test_where_the_node_need_not_ask_or_has_an_address_nothing_is_said(
    node: Node, resolv_conf: Path, address: str, more: str
) -> None:
    node.config.write_text(node.config.read_text().replace("[routing]", f"{address}[routing]"))
    start(node, more)
    assert found(node) == []
