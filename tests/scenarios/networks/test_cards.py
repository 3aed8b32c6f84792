"""A peer may speak for the networks on its card, if who added it or signed it allows that."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from ipaddress import ip_network

import pytest

from meshsec.core.trust import card as cards
from tests.lab.net import traffic
from tests.lab.net.traffic import wait_arrivals
from tests.scenarios.expectations import assert_nothing_clear, captured, spis
from tests.scenarios.networks.sites import Sites, connected, flows_between, is_routed


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    with connected("net-cards", a_accepts=False) as made:
        yield made


def test_networks_on_a_card_are_reached_once_they_are_allowed_and_no_sa_changes(sites: Sites) -> None:
    a, c = sites.ends
    first, second = sites.hosts
    card = _card(sites)
    before = spis(a, c)
    with captured(sites.lab, "card") as captures:
        a.meshsec("peer", "add", "c", card, "--no-networks")
        assert traffic.send((first.namespace, first.address), second.address) == 5, "the host itself is free to send"
        assert not any(is_routed(a, network) for network in second.networks)
        a.meshsec("peer", "add", "c", card, "--networks")
        for network in second.networks:
            a.wait_for(f"a route to {network}", partial(is_routed, a, network), 60)
        for flow in flows_between(sites):
            with flow:
                wait_arrivals(flow, 10)
    assert_nothing_clear(captures)
    assert spis(a, c) == before


def test_a_card_that_overlaps_a_network_of_this_node_is_reported_and_its_network_is_not_used(sites: Sites) -> None:
    a, c = sites.ends
    first, _ = sites.hosts
    asked = first.networks[1].replace(".0/24", ".128/25")
    a.meshsec("peer", "add", "c", _card(sites, asked), "--networks")
    said = a.wait_for("it is reported", lambda: _said(sites), 60)
    assert f"Its card asks to speak for {asked}, which does not count" in said
    assert not is_routed(a, asked)
    a.wait_protected(c)


def test_a_fleets_signature_allows_networks_on_all_its_nodes(sites: Sites) -> None:
    a, c = sites.ends
    _, second = sites.hosts
    office = ("--directory", str(a.var / "office"))
    fleet = next(line for line in a.meshsec("fleet", "init", "rescue", *office).stdout.split() if "fleet1:" in line)
    signed = [
        a.meshsec("fleet", "sign", card, *allowed, *office).stdout.strip()
        for card, allowed in ((a.card, ()), (_card(sites), ("--networks",)))
    ]
    a.meshsec("peer", "remove", "c")
    for node, own in ((a, signed[0]), (c, signed[1])):
        node.meshsec("fleet", "join", fleet, own)
        node.meshsec("fleet", "take", *signed)
    for network in second.networks:
        a.wait_for(f"a route to {network}", partial(is_routed, a, network), 120)
    for flow in flows_between(sites):
        with flow:
            wait_arrivals(flow, 10)
    a.meshsec("fleet", "leave", "rescue")
    for network in second.networks:
        a.wait_for(f"no route to {network}", lambda network=network: not is_routed(a, network), 60)  # type: ignore[misc]


def _card(sites: Sites, *instead: str) -> str:
    """Return c's card with the networks behind it, or with others."""
    view = json.loads(sites.lab["c"].meshsec("key", "show", "--networks", "--json").stdout)
    card = cards.parse(view["card"])
    return cards.render(replace(card, networks=tuple(map(ip_network, instead)))) if instead else str(view["card"])


def _said(sites: Sites) -> str:
    text = sites.lab["a"].meshsec("explain", "c").stdout
    return text if "does not count" in text else ""
