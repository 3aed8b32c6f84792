"""Prometheus, Grafana and readers of NetJSON can use what a live node reports and what the project gives them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import netdiff
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families

from tests.lab.basics.places import REPOSITORY
from tests.lab.foreign.prometheus import PROMTOOL, promtool
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.node.node import Node

RULES = REPOSITORY / "daemon/monitoring/meshsec.rules.yml"
DASHBOARD = REPOSITORY / "daemon/monitoring/grafana-dashboard.json"
ALERTS = REPOSITORY / "tests/vectors/monitoring/alerts.yml"
ROUTER = REPOSITORY / "docs/reference/schema/olsrv2d-changes-1.json"
ELSEWHERE = {
    "meshsec_clients",
    "meshsec_clients_limit",
    "meshsec_gateway_offers",
    "meshsec_link_up",
    "meshsec_network_reached",
    "meshsec_peer_setup_seconds",  # An SA that meshsecd has adopted has none.
    "overlayd_packets_total",
}
"""Metrics of which a node of this mesh has no samples, or not always; daemon/tests/core/test_monitoring.py has all."""

needs_promtool = pytest.mark.skipif(not PROMTOOL.exists(), reason="promtool is not there: `make setup` unpacks it")


def exposition(node: Node) -> str:
    return node.meshsec("monitor", "prometheus").stdout


def samples(node: Node) -> dict[tuple[str, str], float]:
    """Return each sample by its name and its peer; a sample without a peer has an empty one."""
    families = text_string_to_metric_families(exposition(node))
    return {
        (one.name, one.labels.get("peer", "")): one.value
        for family in families
        for one in family.samples
        if set(one.labels) <= {"peer"}
    }


def test_the_metrics_are_those_of_the_live_node(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    before = samples(a)
    assert (before["meshsec_up", ""], before["meshsec_rules_in_force", ""]) == (1, 1)
    assert (before["meshsec_peer_protected", "c"], before["meshsec_peer_hops", "c"]) == (1, 2)
    # The end that initiated measured it; the other one may have adopted the SA.
    assert max(samples(one).get(("meshsec_peer_setup_seconds", peer), 0) for one, peer in ((a, "c"), (c, "a"))) > 0
    assert before["olsrv2d_hellos_received_total", ""] > 0
    assert traffic.send((a.namespace, a.address), c.address, count=20) == 20
    sent = "meshsec_peer_transmit_packets_total", "c"
    a.wait_for("the packets are counted", lambda: samples(a)[sent] >= before[sent] + 20, 60)
    hellos = "olsrv2d_hellos_received_total", ""
    a.wait_for("further HELLO messages", lambda: samples(a)[hellos] > before[hellos], 60)


@needs_promtool
def test_promtool_finds_nothing_to_object_to(mesh: Lab) -> None:
    checked = promtool("check", "metrics", stdin=exposition(mesh["a"]))
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    bad = promtool("check", "metrics", stdin="# TYPE meshsecErrors counter\nmeshsecErrors 1\n")
    assert bad.returncode != 0, "promtool would have said it"


def test_a_node_without_meshsecd_is_reported_as_down(mesh: Lab) -> None:
    a = mesh["a"]
    a.daemons.agent.stop()
    assert samples(a) == {("meshsec_up", ""): 0}


@needs_promtool
def test_each_alert_is_raised_by_its_fault_and_by_nothing_else() -> None:
    tested = promtool("test", "rules", str(ALERTS))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_grafana_knows_all_of_the_dashboard() -> None:
    """Grafana's own classes read it and write it again, and nothing is lost that they do not know."""
    register_default_plugins()
    given = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    read: Any = json.loads(json.dumps(Dashboard.from_json(given), cls=JSONEncoder))
    assert not list(lost(given, read))
    assert list(lost({**given, "pannels": []}, read)) == ["/pannels"], "they would have shown it"


def lost(given: Any, read: Any, where: str = "") -> Iterator[str]:
    """Yield what is not there any more, or has another value."""
    if isinstance(given, dict) and isinstance(read, dict):
        for key, value in given.items():
            yield from lost(value, read[key], f"{where}/{key}") if key in read else [f"{where}/{key}"]
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for index, value in enumerate(given):
            yield from lost(value, read[index], f"{where}/{index}")
    elif given != read:
        yield where


def queries() -> list[str]:
    """Return the expressions of the dashboard as Grafana sends them."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    texts = [target["expr"] for panel in panels for target in panel["targets"]]
    return [text.replace("$node", ".*").replace("$__rate_interval", "1m") for text in texts]


@needs_promtool
def test_prometheus_reads_each_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(queries())]
    file = tmp_path / "queries.json"  # JSON is YAML.
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    checked = promtool("check", "rules", str(file))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("texts", [queries(), [RULES.read_text(encoding="utf-8")]], ids=["dashboard", "rules"])
def test_only_metrics_that_exist_are_used(mesh: Lab, texts: list[str]) -> None:
    used = {one for text in texts for one in re.findall(r"\b(?:meshsec|olsrv2d|overlayd)_\w+", text)}
    families = text_string_to_metric_families(exposition(mesh["a"]))
    there = {one.name for family in families for one in family.samples}
    assert used
    assert used - there - ELSEWHERE == set()


def test_netdiff_reads_the_mesh_and_sees_what_is_lost(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]

    def read() -> Any:
        return netdiff.NetJsonParser(json.loads(a.meshsec("monitor", "netjson").stdout))

    whole = read()
    assert {one["label"] for one in whole.json(dict=True)["nodes"]} == {"a", "b", "c"}
    mesh.link("b", "c").cut()
    a.wait_for("c is out of reach", lambda: a.control.peer("c").get("hops") is None, 60)
    a.wait_for("the link is gone", lambda: netdiff.diff(whole, read())["removed"], 60)
    removed = netdiff.diff(whole, read())["removed"]
    assert {frozenset((one["source"], one["target"])) for one in removed["links"]} == {
        frozenset((mesh["b"].address, c.address))
    }
