"""The reading commands on a live node show the present state, the reasons, and what is wrong."""

import json

from tests.lab.lab import Lab
from tests.lab.node import capabilities


def test_status_shows_route_channel_and_set_up_time_of_each_peer(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    result = a.meshsec("status", "--json", check=False)
    assert result.returncode == 0, result.stderr
    status = json.loads(result.stdout)
    entry = next(peer for peer in status["peers"] if peer["name"] == "c")
    assert entry["address"] == c.address
    assert entry["state"] == "protected"
    assert entry["hops"] == 2
    assert entry["interface"] == "mesh-b"
    assert entry["data_plane"] == "ipsec"
    assert capabilities.probe().esp in json.dumps(status)
    shown = a.meshsec("status").stdout
    for text in ("b", "c", "protected"):
        assert text in shown


def test_status_exits_with_three_when_a_peer_is_not_protected(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    a.daemons.charon.kill()
    a.wait_for("meshsecd knows", lambda: a.control.peer(c.name).get("state") != "protected", 60)
    result = a.meshsec("status", check=False)
    assert result.returncode == 3
    assert "waiting" in result.stdout


def test_explain_gives_the_chain_from_trust_to_sa(mesh: Lab) -> None:
    a = mesh["a"]
    text = a.meshsec("explain", "c").stdout.lower()
    for word in ("card", "route", "initiat", "sa", "rule"):
        assert word in text, text


def test_plan_of_a_mesh_at_rest_is_empty(mesh: Lab) -> None:
    a = mesh["a"]
    a.wait_for("nothing to do", lambda: json.loads(a.meshsec("plan", "--json").stdout)["actions"] == [], 60)


def test_topology_shows_every_node(mesh: Lab) -> None:
    """By its name, and with -v by its address."""
    shown = mesh["a"].meshsec("topology").stdout.splitlines()
    assert max(map(len, shown)) <= 80
    rows = [line.split() for line in shown]
    assert ["c", "6", "2", "b"] in [row[:4] for row in rows]
    assert any(row[:1] == ["a"] or row[1:2] == ["a"] for row in rows), "a link of this node"
    assert mesh["c"].address[2:] in mesh["a"].meshsec("topology", "-v").stdout, "its address or its locator"


def test_doctor_is_content_with_a_healthy_node_and_names_a_dead_daemon(mesh: Lab) -> None:
    a = mesh["a"]
    # meshsecd reports until its end what other programs did to its rules, in any test before.
    a.daemons.agent.kill()
    a.daemons.agent.start()
    a.wait_for("doctor is content", lambda: a.meshsec("doctor", check=False).returncode == 0, 60)
    a.daemons.charon.kill()
    a.wait_for("meshsecd knows", lambda: a.control.peer(mesh["c"].name).get("state") != "protected", 60)
    ill = a.meshsec("doctor", check=False)
    assert ill.returncode != 0
    assert "charon" in ill.stdout


def test_watch_streams_the_changes(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    with a.sources() as sources:
        assert len(sources) == 2
        mesh.link("b", "c").down()
        a.wait_state(c, "held")


def test_a_reading_command_without_meshsecd_fails_with_a_message_and_no_traceback(mesh: Lab) -> None:
    a = mesh["a"]
    a.daemons.agent.kill()
    result = a.meshsec("status", check=False)
    assert result.returncode == 1
    assert "meshsecd" in result.stderr
    assert "Traceback" not in result.stderr
