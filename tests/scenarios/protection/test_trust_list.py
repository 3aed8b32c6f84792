"""Revocation takes effect on live SAs at once, reaches nodes that were away, and a revoked key stays out."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from meshsec.adapters.files.trust_store import fleets as store
from meshsec.core.trust import card as cards
from meshsec.core.trust import fleets
from meshsec.core.trust.fleets import SignedCard
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.office import Office
from tests.lab.node.options import Options
from tests.lab.observe.overlay_control import OverlayControl
from tests.scenarios.expectations import (
    assert_nothing_clear,
    captured,
    flow,
    flow_without_loss,
    restart_for_keys,
    states,
)


@pytest.fixture
def pair() -> Iterator[Lab]:
    """Start a - b, protected. Unknown nodes are allowed, so that only the revocation can be the cause of a drop."""
    with Lab("revoked", line(names(2)), Options(ipv4=True, policy={"unknown_nodes": "allow"})) as lab:
        yield lab.set_up().trust_all().start()


def test_a_revoked_peer_is_out_at_once_and_its_card_brings_it_back_only_when_that_is_taken_back(pair: Lab) -> None:
    a, b = pair["a"], pair["b"]
    a.wait_protected(b)
    b.wait_protected(a)
    with captured(pair, "revocation") as captures:
        with flow(a, b) as running:
            wait_arrivals(running)
            fingerprint = a.meshsec("peer", "revoke", "b", "--reason", "stolen").stdout.split()[-1]
            a.wait_for("no SA at a", lambda: not a.charon.sas_with(b.name), 60)
            b.wait_for("b hears of it", lambda: not any(sa.installed for sa in b.charon.sas_with(a.name)), 60)
        again = a.meshsec("peer", "add", "b", b.card, check=False)
        assert again.returncode == 1
        assert "revoked (b: stolen)" in again.stderr
        assert traffic.send((a.namespace, a.ipv4), b.ipv4, count=10) == 0
        assert_nothing_clear(captures)
        a.meshsec("peer", "unrevoke", fingerprint)
        a.trust(b)
        a.wait_protected(b)
        with flow(a, b) as running:
            wait_arrivals(running)


def _fleet(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.meshsec("fleet", "status", "--json").stdout)["fleets"][0]
    return found


def _knows(node: Node, listed: int) -> bool:
    known = _fleet(node)["list"]
    return known is not None and known["number"] == listed


def _protected(node: Node) -> set[str]:
    return {name for name, state in states(node).items() if state == "protected"}


@pytest.fixture
def fleet() -> Iterator[tuple[Lab, Office, dict[str, SignedCard]]]:
    """Start a - b - c - d as a fleet. All know b's card, and b knows all cards; no other node knows another's."""
    with Lab("fleet", line(names(4)), Options(policy={"unknown_nodes": "allow"})) as lab:
        office, signed = _found(lab.set_up())
        yield lab.start(), office, signed


def _found(lab: Lab) -> tuple[Office, dict[str, SignedCard]]:
    """Make a fleet of all nodes, as `meshsec fleet` does. Return the signed cards by name."""
    office = Office()
    signed = {name: office.sign(node) for name, node in lab.nodes.items()}
    for name, node in lab.nodes.items():
        own = cards.parse(node.card)
        store.join(node.peers, office.fleet, fleets.card_text(signed[name]), [own])
        store.take_members(node.peers, [one.octets for one in (signed.values() if name == "b" else [signed["b"]])], own)
    return office, signed


def test_a_revocation_reaches_a_node_that_was_away_and_the_revoked_key_stays_out(
    fleet: tuple[Lab, Office, dict[str, SignedCard]],
) -> None:
    lab, office, signed = fleet
    a, b, c, d = (lab[name] for name in "abcd")
    for one, other in ((a, c), (c, a), (a, d), (c, d), (d, c)):
        one.wait_protected(other, 120)

    lab.link("b", "c").down()
    a.wait_state(c, "held")
    a.meshsec("fleet", "take", office.revoke(d))
    number = _fleet(a)["list"]["number"]
    a.wait_for("no SA with the revoked", lambda: not a.charon.sas_with(d.name), 60)
    b.wait_for("the list passes on", lambda: _knows(b, number), 90)
    assert _fleet(c)["list"] is None
    assert c.control.peer(d.name)["state"] == "protected", "c does not know it, so the rest proves something"

    with captured(lab, "away") as captures, flow(d, c) as running:
        wait_arrivals(running)
        lab.link("b", "c").up()
        c.wait_for("the list is here", lambda: _knows(c, number), 120)
        c.wait_for("no SA with the revoked", lambda: not c.charon.sas_with(d.name), 60)
        refused = c.meshsec("fleet", "take", fleets.card_text(signed["d"])).stdout
        assert "0 of 1 signed cards" in refused
        assert c.meshsec("peer", "add", "again", d.card, check=False).returncode == 1
        assert traffic.send((c.namespace, c.address), d.address, count=10) == 0
        assert_nothing_clear(captures)
    assert d.address not in {peer["address"] for peer in c.control.ask("status")["peers"]}
    c.wait_protected(a, 90)


def test_user_data_flows_through_the_change_of_a_members_key(
    fleet: tuple[Lab, Office, dict[str, SignedCard]],
) -> None:
    """d's next card is signed and spreads. Both keys are in force until d ends the old one and a list revokes it."""
    lab, office, _ = fleet
    a, d = lab["a"], lab["d"]
    both = {name + key for name in "abc" for key in ("", "^")}
    a.wait_protected(d, 120)
    d.wait_protected(a, 120)
    following: dict[str, str] = json.loads(d.meshsec("key", "next", "--json").stdout)
    signed = office.sign_next(following["card"])
    d.meshsec("fleet", "join", fleets.fleet_text(office.fleet), fleets.card_text(signed))
    with captured(lab, "member") as captures, flow_without_loss(a, d) as by_old:
        wait_arrivals(by_old)
        restart_for_keys(d)
        for key in ("", "~"):
            a.wait_for(f"d{key} is protected", lambda title=f"d{key}": states(a).get(title) == "protected", 180)  # type: ignore[misc]
        with Flow((a.namespace, a.address), (d.namespace, following["address"])) as by_new:
            wait_arrivals(by_new)
            wait_arrivals(by_old)
            assert by_old.end().lost == 0
            d.wait_for("all are protected by both keys", lambda: both <= _protected(d), 180)
            d.meshsec("key", "end")
            restart_for_keys(d)
            a.meshsec("fleet", "take", office.revoke(d))
            a.wait_for("one key is left", lambda: "d~" not in states(a) and states(a).get("d") == "protected", 120)
            a.wait_for("no SA of the old key", lambda: len(a.charon.sas()) == len(states(a)), 60)
            wait_arrivals(by_new, 50)
    # ESP in user space may lose single packets when another SA ends and processors are few.
    assert by_new.result.lost * 50 <= by_new.result.sent
    assert_nothing_clear(captures)
    (shown,) = (peer["address"] for peer in a.control.ask("status")["peers"] if peer["name"] == "d")
    assert shown == following["address"]
    refused = a.meshsec("peer", "add", "again", d.card, check=False)
    assert refused.returncode == 1


@pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun")
def test_what_is_signed_passes_on_by_the_overlay_and_a_revoked_key_is_permitted_there_no_longer() -> None:
    """On a - b - c no SA is configured, so a and c can learn of each other only over the overlay."""
    with Lab("overlay-fleet", line(names(3)), Options(overlay=True, policy={"data_plane": "overlay"})) as lab:
        office, _ = _found(lab.set_up())
        lab.start()
        a, b, c = (lab[name] for name in "abc")
        for one, other in ((a, c), (c, a)):
            _wait_overlay(one, other)
        a.meshsec("fleet", "take", office.revoke(c))
        b.wait_for("the list passes on", lambda: _fleet(b)["list"] is not None, 90)
        with OverlayControl(a.overlay_socket) as overlay:

            def refused() -> bool:
                traffic.send((c.namespace, c.address), a.address, count=1)
                return overlay.dropped("not-permitted") >= 5

            wait_until("a drops what c sends", refused, [], 90, lambda: overlay.status)


def _wait_overlay(node: Node, peer: Node) -> None:
    node.wait_for(
        f"{peer.name} by the overlay", lambda: node.control.peer(peer.name).get("data_plane") == "overlay", 120
    )
