"""meshsecd as a gateway: the operator's choice, what is offered, and what remains of it afterwards."""

from collections.abc import Callable
from typing import Any

import pytest

from agent.test_meshsecd import Node, node
from namespaces import ip, needs_root, wait_for

pytestmark = needs_root
__all__ = ["node"]

UPLINK = "eth1"


def connect(node: Node) -> None:
    """Give the node an uplink with default routes."""
    ip("-n", node.namespace, "link", "add", UPLINK, "type", "veth", "peer", "name", "far")
    for end in (UPLINK, "far"):
        ip("-n", node.namespace, "link", "set", end, "up")
    for version in ("-4", "-6"):
        ip("-n", node.namespace, version, "route", "add", "default", "dev", UPLINK)


def gateway(node: Node, **params: object) -> dict[str, Any]:
    found: dict[str, Any] = node.ask("gateway", **params)["result"]["gateway"]
    return found


def wait_offered(node: Node, *networks: str) -> None:
    wait_for(lambda: gateway(node)["offers"] == [*networks], f"an offer of {networks or 'nothing'}")


def tables(node: Node) -> str:
    return ip("netns", "exec", node.namespace, "nft", "list", "tables")


def test_the_choice_takes_effect_at_once_and_outlives_meshsecd(node: Node) -> None:
    connect(node)
    node.start()
    assert gateway(node) == {"uplink": None, "offers": [], "problems": []}
    assert "meshsec_uplink" not in tables(node)
    chosen = gateway(node, uplink=UPLINK)
    assert chosen == {"uplink": UPLINK, "offers": ["0.0.0.0/0", "::/0"], "problems": []}
    assert "meshsec_uplink" in tables(node)
    assert node.ask("status")["result"]["own_networks"] == ["0.0.0.0/0", "::/0"]
    node.stop()
    assert "meshsec_uplink" in tables(node), "clients keep their way out while meshsecd restarts"
    node.start()
    wait_offered(node, "0.0.0.0/0", "::/0")
    gateway(node, uplink="")
    assert gateway(node) == {"uplink": None, "offers": [], "problems": []}
    assert "meshsec_uplink" in tables(node), "packets still pass until others have heard of it"
    wait_for(lambda: "meshsec_uplink" not in tables(node), "the end of the table")
    assert node.ask("status")["result"]["own_networks"] == []


def test_a_table_that_a_predecessor_left_is_removed_where_the_node_is_no_gateway(node: Node) -> None:
    ip("netns", "exec", node.namespace, "nft", "add", "table", "inet", "meshsec_uplink")
    node.start()
    wait_for(lambda: "meshsec_uplink" not in tables(node), "the end of the table")


def test_each_ip_version_is_offered_while_its_default_route_leads_out_by_the_uplink(node: Node) -> None:
    connect(node)
    node.start()
    gateway(node, uplink=UPLINK)
    wait_offered(node, "0.0.0.0/0", "::/0")
    ip("-n", node.namespace, "-6", "route", "del", "default", "dev", UPLINK)
    wait_offered(node, "0.0.0.0/0")
    assert gateway(node)["problems"] == [f"no IPv6 default route leads out by {UPLINK}"]
    ip("-n", node.namespace, "link", "set", "far", "down")
    wait_offered(node)
    assert gateway(node)["problems"] == [f"{UPLINK} has no carrier"]
    ip("-n", node.namespace, "link", "del", UPLINK)
    wait_for(lambda: gateway(node)["problems"] == [f"there is no interface {UPLINK}"], "word of its end")
    (check,) = (one for one in node.ask("doctor")["result"]["checks"] if one["name"] == "gateway")
    assert check["level"] == "warn"
    assert check["found"] == f"there is no interface {UPLINK}"
    connect(node)
    wait_offered(node, "0.0.0.0/0", "::/0")


@pytest.mark.parametrize(
    ("uplink", "code", "message"),
    [
        ("mesh0", "refused", "uplink: mesh0 leads into the mesh"),
        ("meshsec-nets", "refused", "leads into the mesh"),
        ("a name", "bad_params", "uplink: 'a name' is not allowed"),
        (5, "bad_params", "uplink: 5 is not allowed"),
        (None, "bad_params", "uplink: None is not allowed"),
    ],
)
def test_an_impossible_uplink_is_refused_and_nothing_changes(
    node: Node, uplink: object, code: str, message: str
) -> None:
    node.start()
    error = node.ask("gateway", uplink=uplink)["error"]
    assert error["code"] == code
    assert message in error["message"]
    assert gateway(node)["uplink"] is None
    assert not (node.directory / "state/gateway.json").exists()


def _damaged(node: Node) -> None:
    (node.directory / "state/gateway.json").write_text('{"uplink": 5}')


def _a_directory(node: Node) -> None:
    (node.directory / "state/gateway.json").mkdir()


@pytest.mark.parametrize("damage", [_damaged, _a_directory])
def test_a_choice_that_cannot_be_read_is_reported_and_the_configuration_counts(
    node: Node, damage: Callable[[Node], None]
) -> None:
    damage(node)
    connect(node)
    node.config.write_text(f'{node.config.read_text()}\n[gateway]\nuplink = "{UPLINK}"\nipv6 = "off"\n')
    node.start()
    wait_offered(node, "0.0.0.0/0")
    (problem,) = gateway(node)["problems"]
    assert "gateway.json" in problem


def test_a_choice_that_cannot_be_saved_changes_nothing(node: Node) -> None:
    connect(node)
    node.start()
    _a_directory(node)
    error = node.ask("gateway", uplink=UPLINK)["error"]
    assert error["code"] == "failed"
    assert "gateway.json" in error["message"]
    assert gateway(node)["uplink"] is None
    assert "meshsec_uplink" not in tables(node)


def test_a_probe_that_does_not_answer_takes_its_ip_version_away(node: Node) -> None:
    connect(node)
    ip("-n", node.namespace, "address", "add", "192.0.2.77", "dev", "lo")
    with node.config.open("a") as config:
        config.write(f'\n[gateway]\nuplink = "{UPLINK}"\nprobe = ["192.0.2.77", "2001:db8::77"]\n')
    ip("netns", "exec", node.namespace, "sysctl", "-qw", "net.ipv4.ping_group_range=0 0")
    node.start()
    wait_offered(node, "0.0.0.0/0")
    assert gateway(node)["problems"] == ["no answer from 2001:db8::77"]
    ip("-n", node.namespace, "address", "add", "2001:db8::77", "dev", "lo")
    wait_offered(node, "0.0.0.0/0", "::/0")


def test_without_echo_requests_the_probe_and_the_watch_say_so(node: Node) -> None:
    connect(node)
    with node.config.open("a") as config:
        config.write(f'\n[gateway]\nuplink = "{UPLINK}"\nprobe = ["192.0.2.77"]\n')
    ip("netns", "exec", node.namespace, "sysctl", "-qw", "net.ipv4.ping_group_range=1 0")
    node.start()
    wait_offered(node, "0.0.0.0/0", "::/0")
    view = node.ask("gateway")["result"]
    assert "ping_group_range" in view["unwatched"]
    assert any("ping_group_range" in one for one in view["gateway"]["problems"])
    found = {one["name"]: one["level"] for one in node.ask("doctor")["result"]["checks"]}
    assert (found["watch of gateways"], found["gateway"]) == ("warn", "warn")
