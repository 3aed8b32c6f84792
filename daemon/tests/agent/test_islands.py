"""meshsecd with a link over the internet, without any other daemon."""

import json

from agent.test_meshsecd import Node, node
from meshsec.adapters.kernel.islands import PROTOCOL
from namespaces import ip, needs_root, wait_for

pytestmark = needs_root
__all__ = ["node"]

UPLINK, FAR_END = "eth1", "fd4d:534c::1"
LINK = f'[[link]]\npeer = "boat"\nuplinks = ["{UPLINK}"]\n'


def is_without_address(node: Node) -> bool:
    (link,) = node.ask("status")["result"]["links"]
    return f"{UPLINK} has no address" in link["problems"]


def test_until_the_sas_are_known_a_path_keeps_its_way(node: Node) -> None:
    """With ESP in the kernel, a path carries while meshsecd restarts, and for that its far end must have a route."""
    ip("-n", node.namespace, "link", "add", UPLINK, "type", "veth", "peer", "name", "far")
    for end in (UPLINK, "far"):
        ip("-n", node.namespace, "link", "set", end, "up")
    ways = ("-n", node.namespace, "-6", "-j", "route", "show", "proto", str(PROTOCOL))
    ip(*ways[:3], "route", "add", FAR_END, "dev", UPLINK, "proto", str(PROTOCOL), "metric", "1024")
    node.config.write_text(node.config.read_text() + LINK)
    node.start()
    for change in ("add", "del"):  # The second look begins when the first is over.
        ip("-n", node.namespace, "address", change, "192.0.2.1/24", "dev", UPLINK)
        wait_for(lambda: is_without_address(node) is (change == "del"), "a look at the uplink")  # noqa: B023
    assert FAR_END in [way["dst"] for way in json.loads(ip(*ways))]
