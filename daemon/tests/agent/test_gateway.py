"""meshsecd as a gateway: the operator's choice, what is offered, and what remains of it afterwards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agent.test_meshsecd import Node, node
from meshsec.adapters.kernel.held_rules import HeldRules
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


UPLINK_TABLE, CLIENTS_TABLE = "meshsec_uplink", "meshsec_access"


@contextmanager
def taken(table: str) -> Iterator[None]:
    """Have another program put an empty table in the place of one of meshsecd's, which it alone may change."""
    other = HeldRules((table, ""), {})
    other.apply("table inet {0}\ndelete table inet {0}\ntable inet {0} {{ flags owner; }}\n".format)
    try:
        yield
    finally:
        other.close()


def of_tables(node: Node) -> tuple[list[str], list[str]]:
    """Return what drift and doctor say of the tables that meshsecd has beside the fail-closed rules."""
    differences = node.ask("drift")["result"]["differences"]
    checks = node.ask("doctor")["result"]["checks"]
    return (
        [one["is"] for one in differences if one["what"] == "tables" and one["mend"]],
        [one["found"] for one in checks if one["name"] == "tables of networks" and one["level"] == "fail"],
    )


def test_a_rule_that_another_program_flushed_in_the_uplinks_table_comes_back(node: Node) -> None:
    connect(node)
    node.start()
    gateway(node, uplink=UPLINK)
    wait_offered(node, "0.0.0.0/0", "::/0")
    assert of_tables(node) == ([], [])
    ip("netns", "exec", node.namespace, "nft", "flush", "chain", "inet", UPLINK_TABLE, "forward")
    wait_for(lambda: "from_outside" in forwarded(node), "the rule")


def test_a_table_that_another_program_keeps_from_meshsecd_is_reported_until_it_lets_go(node: Node) -> None:
    connect(node)
    with node.config.open("a") as config:
        config.write('\n[access]\nnetworks = ["10.130.0.0/16"]\n')
    node.start()
    gateway(node, uplink=UPLINK)
    wait_offered(node, "0.0.0.0/0", "::/0")
    with taken(UPLINK_TABLE), taken(CLIENTS_TABLE):
        by_drift, by_doctor = of_tables(node)
        lost = "the chain forward of the table inet {} is not there as it was applied"
        assert {lost.format(UPLINK_TABLE), lost.format(CLIENTS_TABLE)} <= {*by_drift}
        assert by_doctor == ["; ".join(by_drift)]
        assert "from_outside" not in forwarded(node)
    # The kernel reports no end of a table whose owner has ended. Any other change has meshsecd look.
    ip("netns", "exec", node.namespace, "nft", "add", "table", "inet", "another")
    wait_for(lambda: "from_outside" in forwarded(node), "the rule")
    assert of_tables(node) == ([], [])


def forwarded(node: Node) -> str:
    """Return the chain of the uplink's table that judges what is forwarded."""
    return ip("netns", "exec", node.namespace, "nft", "list", "chain", "inet", UPLINK_TABLE, "forward", check=False)


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
