"""Levels of authentication between real charons: they rise while user data flows, and nothing gets below the floor."""

import json
import signal
import time
from collections.abc import Iterator, Mapping

import pytest

from meshsec.adapters.files import config_file
from tests.lab.basics.patience import patient
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import Flow, FlowResult, wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.options import Options, PolicyValue
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

SECRET, OTHER = "5a" * 32, "a5" * 32
LEVELS: list[dict[str, str | int]] = [{"name": "strong", "second_secret": True}, {"name": "card"}]
RULES: list[dict[str, str | int]] = [{"level": "strong", "threat": True}]
AT_THREAT: dict[str, PolicyValue] = {
    "levels": LEVELS,
    "level_rules": RULES,
    "backoff_max": 3,
}
STRICT: dict[str, PolicyValue] = {**AT_THREAT, "level_floor": "strong"}
GRACE = 30.0
PAUSE = 1.0
"""Longest time in seconds between two datagrams that follow each other, while the level rises."""
LOST = 0.04
"""Seconds of user data that a rise may cost: charon names the new SPI in the kernel's policy before its SA is there."""


@pytest.fixture(autouse=True)
def _pacing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the nodes read the constants of pacing from their policy."""
    monkeypatch.setenv(config_file.LAB_PACING, config_file.IN_LAB)


def started(lab: Lab, policies: Mapping[str, Mapping[str, PolicyValue]], secrets: Mapping[str, str]) -> Lab:
    lab.set_up({name: Options(ipv4=True, policy=policy) for name, policy in policies.items()}).trust_all()
    for name, secret in secrets.items():
        give(lab[name], secret)
    return lab.start()


def give(node: Node, secret: str) -> None:
    path = node.directory / "given"
    path.write_text(secret)
    node.meshsec("secret", "set", str(path))


def level(node: Node, peer: Node) -> tuple[str, str | None]:
    """Return the level that is asked for, and the one that is in force."""
    shown = node.control.peer(peer.name)["level"]
    return shown["chosen"], shown["in_force"]


def assert_hardly_interrupted(result: FlowResult) -> None:
    assert result.lost * result.interval <= patient(LOST), result
    assert result.longest_gap < patient(PAUSE), result


def pairs(lab: Lab) -> Iterator[tuple[Node, Node]]:
    yield lab["a"], lab["b"]
    yield lab["b"], lab["a"]


@pytest.mark.parametrize("told", [["a"], ["a", "b"]], ids=["one-end", "both-ends"])
def test_the_threat_raises_the_level_while_user_data_flows(told: list[str]) -> None:
    """Nothing leaves in the clear, the stream is not interrupted, and the old SA ends after the new one came."""
    both = {"a": AT_THREAT, "b": AT_THREAT}
    with Lab("levels-threat", line(names(2)), Options(ipv4=True)) as lab:
        started(lab, both, {}).wait_full_mesh()
        a, b = lab["a"], lab["b"]
        before = {a.wait_protected(b).unique_id, b.wait_protected(a).unique_id}
        for node, peer in pairs(lab):
            assert level(node, peer) == ("card", "card")
            give(node, SECRET)
        by_ipv4 = Flow((a.namespace, a.ipv4), (b.namespace, b.ipv4), 0.02, 7021)
        with captured(lab, "levels") as captures, flow(a, b) as running, by_ipv4:
            wait_arrivals(running)
            wait_arrivals(by_ipv4)
            for name in told:
                assert lab[name].meshsec("threat", "high").stdout.startswith("high")
            for node, peer in pairs(lab):
                what = f"{peer.name} at the level strong"
                node.wait_for(what, lambda n=node, p=peer: level(n, p)[1] == "strong", 60)  # type: ignore[misc]
                node.wait_protected(peer)
            wait_arrivals(running, 50)
            wait_arrivals(by_ipv4, 50)
            results = running.end(), by_ipv4.end()
        for result in results:
            assert_hardly_interrupted(result)
        assert_nothing_clear(captures)
        assert a.wait_protected(b).unique_id not in before
        explained = a.meshsec("explain", "b").stdout
        assert "level of authentication is strong, never one below card" in explained
        assert "the threat is high (the operator says so)" in explained
        timed = {one["name"]: one["samples"] for one in a.control.ask("status")["levels"]["levels"]}
        timed_there = {one["name"]: one["samples"] for one in b.control.ask("status")["levels"]["levels"]}
        assert timed["strong"] + timed_there["strong"] >= 1
        assert a.meshsec("threat", "normal").stdout.startswith("normal")
        a.wait_for("the floor is asked for", lambda: level(a, b) == ("card", "strong"), 10)


@pytest.mark.parametrize(
    ("policies", "secrets", "lacking"),
    [
        ({"a": STRICT, "b": AT_THREAT}, {"a": SECRET}, "b"),
        ({"a": STRICT, "b": {}}, {"a": SECRET}, "b"),
        ({"a": STRICT, "b": STRICT}, {"a": SECRET, "b": OTHER}, "both"),
        ({"a": STRICT, "b": STRICT}, {"a": SECRET}, "b"),
    ],
    ids=["without-secret", "without-levels", "other-secret", "its-own-floor"],
)
def test_a_peer_that_offers_less_than_the_floor_gets_no_sa_and_no_user_data(
    policies: dict[str, dict[str, PolicyValue]], secrets: dict[str, str], lacking: str
) -> None:
    with Lab("levels-floor", line(names(2)), Options(ipv4=True)) as lab:
        started(lab, policies, secrets)
        a, b = lab["a"], lab["b"]
        a.wait_route(b)
        with captured(lab, "levels") as captures:
            for node, peer in pairs(lab):
                node.wait_for(f"a reason on {node.name}", lambda n=node, p=peer: reason(n, p), 120)  # type: ignore[misc]
                traffic.send((node.namespace, node.address), peer.address)
                assert not [sa for sa in node.charon.sas_with(peer.name) if sa.state == "ESTABLISHED"]
        assert_nothing_clear(captures)
        fixes = [one["mend"] for one in json.loads(b.meshsec("doctor", "--json", check=False).stdout)["checks"]]
        if policies["b"] == STRICT and lacking == "b":
            assert any("meshsec secret set" in one for one in fixes)
        if lacking == "b" and policies["b"]:
            give(b, secrets["a"])
            a.wait_protected(b, 120)
            assert level(a, b) == ("strong", "strong")


def reason(node: Node, peer: Node) -> str:
    """Return why there is no SA: what this node lacks, or what the last failure means."""
    status = node.control.peer(peer.name)
    failure = status["last_failure"]
    refused = (status["level"] or {}).get("refused")
    return refused or (failure["meaning"] if failure else "")


def test_the_stricter_end_wins_where_both_can() -> None:
    with Lab("levels-strict", line(names(2)), Options(ipv4=True)) as lab:
        started(lab, {"a": STRICT, "b": AT_THREAT}, {"a": SECRET, "b": SECRET})
        a, b = lab["a"], lab["b"]
        a.wait_protected(b, 120)
        b.wait_protected(a, 120)
        assert level(a, b) == ("strong", "strong")
        assert level(b, a) == ("card", "strong")


def test_a_peer_that_cannot_follow_a_rise_loses_its_sa_after_the_grace_and_not_before() -> None:
    with Lab("levels-grace", line(names(2)), Options(ipv4=True)) as lab:
        started(lab, {"a": AT_THREAT, "b": AT_THREAT}, {"a": SECRET})
        a, b = lab["a"], lab["b"]
        a.wait_protected(b, 120)
        with captured(lab, "levels") as captures, flow(a, b) as running:
            wait_arrivals(running)
            a.meshsec("threat", "high")
            a.wait_for("a reason", lambda: "second secret" in reason(a, b), 60)
            assert a.control.peer("b")["state"] == "protected"
            assert "is closed when its successor is established" in a.meshsec("explain", "b").stdout
            ended = lambda: a.control.peer("b")["state"] != "protected"  # noqa: E731
            a.wait_for("the SA is given up", ended, 2 * GRACE)
        assert_nothing_clear(captures)
        a.meshsec("threat", "normal")
        a.wait_protected(b, 120)


def test_a_node_without_the_second_secret_keeps_its_sas_for_the_grace_and_names_them_with_the_command() -> None:
    with Lab("levels-lacking", line(names(2)), Options(ipv4=True)) as lab:
        started(lab, {"a": AT_THREAT, "b": AT_THREAT}, {})
        a, b = lab["a"], lab["b"]
        before = a.wait_protected(b, 120).unique_id
        with captured(lab, "levels") as captures, flow(a, b) as running:
            wait_arrivals(running)
            said = a.meshsec("threat", "high").stdout
            began = time.monotonic()
            assert "lose their SA within half a minute: b" in said
            assert "meshsec secret set" in said
            wait_arrivals(running, 50)
            ended = lambda: a.control.peer("b")["state"] != "protected"  # noqa: E731
            a.wait_for("the SA is given up", ended, 2 * GRACE)
            assert time.monotonic() - began >= GRACE - 3
        assert_nothing_clear(captures)
        assert "no SA with b" in a.meshsec("status", check=False).stdout
        a.meshsec("threat", "normal")
        assert a.wait_protected(b, 120).unique_id != before


def test_a_second_secret_given_in_time_keeps_user_data_flowing() -> None:
    with Lab("levels-in-time", line(names(2)), Options(ipv4=True)) as lab:
        started(lab, {"a": AT_THREAT, "b": AT_THREAT}, {"b": SECRET})
        a, b = lab["a"], lab["b"]
        a.wait_protected(b, 120)
        with flow(a, b) as running:
            wait_arrivals(running)
            a.meshsec("threat", "high")
            give(a, SECRET)
            a.wait_for("b at the level strong", lambda: level(a, b) == ("strong", "strong"), 60)
            wait_arrivals(running, 50)
            result = running.end()
        assert_hardly_interrupted(result)


SUITES = [
    {"name": "p384", "ike": "aes256gcm16-prfsha384-ecp384", "esp": "aes256gcm16-ecp384"},
    {"name": "x25519", "ike": "aes256gcm16-prfsha256-x25519", "esp": "aes256gcm16-x25519"},
    {"name": "p256", "ike": "aes128gcm16-prfsha256-ecp256", "esp": "aes128gcm16-ecp256"},
]
WHILE_IN_TIME: list[dict[str, str | int]] = [{"level": "top", "while_in_time": True}]
IN_TIME: dict[str, PolicyValue] = {
    "suites": SUITES,
    "deadline_ms": round(patient(300)),
    "levels": [{"name": "top", "suite": "p384"}, {"name": "base", "suite": "x25519"}, {"name": "low"}],
    "level_floor": "base",
    "level_rules": WHILE_IN_TIME,
    "backoff_first": 0.1,
    "takeover_delay": 60,
}


REFUSAL = "none of its algorithms"


def test_a_peer_that_is_slow_on_purpose_lowers_nothing_below_the_floor() -> None:
    with Lab("levels-slow", line(names(2)), Options(policy=IN_TIME)) as lab:
        lab.set_up().trust_all().start()
        node, slow = lab["a"], lab["b"]
        if not node.wait_state(slow, "protected")["initiator"]:
            node, slow = slow, node
        node.wait_state(slow, "protected")
        seen, said = set(), []
        for _ in range(6):
            renew(node, slow, patient(0.8))
            node.wait_for("its algorithms", lambda: node.control.peer(slow.name)["ike_algorithms"], 30)
            seen.add((level(node, slow)[0], node.control.peer(slow.name)["ike_algorithms"][1]))
            said.append(node.meshsec("explain", slow.name).stdout)
        assert {chosen for chosen, _ in seen} == {"top", "base"}, seen
        assert {method for _, method in seen} <= {"ECP_384", "CURVE_25519"}, seen
        assert any("set-ups are in time again" in one for one in said), said[-1]
        # Now it offers nothing else than what is below the floor.
        slow.reconfigure(Options(policy={"suites": SUITES[2:], "backoff_first": 0.1}))
        for daemon in (slow.daemons.agent, slow.daemons.charon):
            daemon.kill()
            daemon.start()
            daemon.wait_ready()
        for one, other in ((node, slow), (slow, node)):
            one.wait_for("a refusal", lambda n=one, p=other: REFUSAL in reason(n, p), 120)  # type: ignore[misc]
            assert not [sa for sa in one.charon.sas_with(other.name) if sa.state == "ESTABLISHED"]


def renew(node: Node, slow: Node, seconds: float) -> None:
    """Set up the SA anew while the IKE daemon of the other end answers nothing for some seconds."""
    slow.daemons.charon.send_signal(signal.SIGSTOP)
    try:
        attempts = node.control.ask("renegotiate", peer=slow.name)["attempts"]
        time.sleep(seconds)
    finally:
        slow.daemons.charon.send_signal(signal.SIGCONT)

    def established() -> bool:
        status = node.control.peer(slow.name)
        return status["state"] == "protected" and bool(status["attempts"] > attempts)

    node.wait_for("a new SA", established, 60)
    slow.wait_state(node, "protected", 60)
