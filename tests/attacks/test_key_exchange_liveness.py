"""An SA through which nothing passes is not taken for a good one: black holes, and peers that lost their SAs."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.attacks.asking import limit
from tests.lab.forge import ike
from tests.lab.forge.ike import Listener, Message, Reach
from tests.lab.lab import Lab
from tests.lab.net import namespaces
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import flow, spis

_ESP_ALONE = "udp sport 4500 udp dport 4500 @th,64,32 != 0 drop; meta l4proto esp drop;"
_PORT = 7100
_FORGED_S, _FORGED_PAUSE = 16.0, 2.5
"""Seconds of forged first messages, and between two of them. charon asks for a cookie where an address has three half-
open IKE_SAs, so they live only 5 s here."""
_EVERYTHING = f"{_ESP_ALONE} udp dport {{ 500, 4500 }} drop;"


@pytest.fixture(scope="module")
def line_of_two_peers() -> Iterator[Lab]:
    """Start a and c, which trust each other, and the relay b."""
    with Lab("liveness", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up().trust("a", "c")
        limit(lab["c"], half_open_timeout=5)
        lab.start()
        yield lab


@pytest.fixture
def pair(line_of_two_peers: Lab) -> Lab:
    """Return the pair, protected."""
    line_of_two_peers.heal()
    a, c = line_of_two_peers["a"], line_of_two_peers["c"]
    a.wait_protected(c, 90)
    c.wait_protected(a, 90)
    return line_of_two_peers


@contextmanager
def black_hole(relay: Node, statement: str) -> Iterator[None]:
    """Let a relay drop all packets while its routing protocol goes on."""
    rules = f"table inet lab_hole {{\nchain forward {{ type filter hook forward priority 0; {statement} }}\n}}\n"
    relay.run("nft", "-f", "-", stdin=rules)
    try:
        yield
    finally:
        relay.run("nft", "delete", "table", "inet", "lab_hole")


@contextmanager
def one_way(source: Node, target: Node) -> Iterator[None]:
    """Send user data that arrives and is not answered."""

    def opened(address: str) -> socket.socket:
        found = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        found.bind((address, _PORT))
        return found

    over = threading.Event()
    with (
        namespaces.within(target.namespace, partial(opened, target.address)),
        namespaces.within(source.namespace, partial(opened, source.address)) as sender,
    ):

        def send() -> None:
            while not over.wait(0.1):
                sender.sendto(b"user data", (target.address, _PORT))

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        try:
            yield
        finally:
            over.set()
            sending.join()


def _quiet(node: Node, peer: Node, *, answers: bool) -> dict[str, Any] | None:
    entry = node.control.peer(peer.name)
    quiet = entry.get("quiet")
    return entry if quiet and quiet["answers"] is answers else None


def test_an_sa_through_which_nothing_passes_is_reported_until_something_comes(pair: Lab) -> None:
    a, b, c = (pair[name] for name in "abc")
    with flow(c, a, interval=0.1) as running:
        wait_arrivals(running)
        with black_hole(b, _EVERYTHING):
            entry = c.wait_for("nothing passes", lambda: _quiet(c, a, answers=False), 60)
            shown = c.meshsec("status", check=False)
            assert entry["state"] == "protected"
            assert shown.returncode == 3, shown.stdout
            c.wait_for(
                "it is not taken for protected any more", lambda: c.control.peer(a.name).get("state") != "protected", 60
            )
            assert c.control.peer(a.name)["quiet"] is None
        c.wait_protected(a, 120)
        wait_arrivals(running)
    assert c.control.peer(a.name)["quiet"] is None


def test_traffic_of_one_direction_is_not_taken_for_a_black_hole(pair: Lab) -> None:
    """The negative case: the peer's IKE daemon answers, so this is a milder warning, and no fault."""
    a, c = pair["a"], pair["c"]
    with one_way(c, a):
        c.wait_for("a milder word", lambda: _quiet(c, a, answers=True), 60)
        assert c.meshsec("status", check=False).returncode == 0
        with flow(a, c, interval=0.1):
            c.wait_for("no word", lambda: c.control.peer(a.name)["quiet"] is None, 60)
    assert c.control.peer(a.name)["state"] == "protected"


@contextmanager
def template(lab: Lab) -> Iterator[list[Message]]:
    """Collect the first messages that are heard at b."""
    heard: list[Message] = []
    with Reach(lab, "b", ("a", "c")) as reach:

        def keep(message: Message) -> None:
            if message.is_opening:
                heard.append(message)

        with Listener(reach.ends, keep, only_inbound=True):
            yield heard


def _opening_in_the_name_of(lab: Lab, source: str, target: str) -> Message:
    """Have the pair negotiate once, and turn a message that was heard into another first message."""
    a, c = lab["a"], lab["c"]
    with template(lab) as heard:
        a.charon.terminate(c.name, force=True)
        a.wait_for("a first message is heard", lambda: bool(heard), 60)
        a.wait_protected(c, 60)
        c.wait_protected(a, 60)
    by_locator = heard[0].source.startswith("fd")
    ends = [lab[name].locator if by_locator else lab[name].address for name in (source, target)]
    return replace(heard[0], source=ends[0], target=ends[1])


def test_a_peer_that_lost_its_sa_and_asks_for_another_is_not_taken_for_protected(pair: Lab) -> None:
    """a restarted, and its negotiation does not succeed: c neither sends into the void nor waits for it."""
    a, c = pair["a"], pair["c"]
    opening = _opening_in_the_name_of(pair, "a", "c")
    a.daemons.agent.kill()
    a.daemons.charon.kill()
    with Reach(pair, "b", ("a", "c")) as reach:
        reach.send(ike.opening(opening, os.urandom(8)))
        entry = c.wait_for("c knows", lambda: _is_lost(c.control.peer(a.name)), 30)
    assert entry


def _is_lost(entry: dict[str, Any]) -> bool:
    return bool(entry) and entry["state"] != "protected"


def test_a_peer_that_is_gone_without_a_sign_costs_nothing_while_nobody_sends(pair: Lab) -> None:
    """The negative case of the one above: without a first message c asks nobody, and a partition costs no SA."""
    a, c = pair["a"], pair["c"]
    before = c.charon.sas_with(a.name)[0].unique_id
    a.daemons.agent.kill()
    a.daemons.charon.kill()
    with suppress(AssertionError):
        c.wait_for("nothing is to happen", partial(_is_lost, c.control.peer(a.name)), 12)
    assert [sa.unique_id for sa in c.charon.sas_with(a.name)] == [before]


def test_forged_signs_cost_a_peer_that_is_well_a_rekeying_in_ten_seconds_and_no_sa(pair: Lab) -> None:
    a, c = pair["a"], pair["c"]
    opening = _opening_in_the_name_of(pair, "a", "c")
    before, ike_sa = spis(a, c), c.charon.sas_with(a.name)[0].unique_id
    seen, sent, began = {before}, 0, time.monotonic()
    with Reach(pair, "b", ("a", "c")) as reach:

        def forged() -> bool:
            nonlocal sent
            if time.monotonic() - began > sent * _FORGED_PAUSE:
                reach.send(ike.opening(opening, os.urandom(8)))
                sent += 1
            seen.add(frozenset(spi for sa in c.charon.sas_with(a.name) for spi in sa.child_spis))
            return time.monotonic() - began > _FORGED_S

        c.wait_for("the forger's time", forged, 90)
    assert c.charon.sas_with(a.name)[0].unique_id == ike_sa
    assert c.control.peer(a.name)["state"] == "protected"
    rekeyings = len({one for one in seen if len(one) == 2}) - 1
    assert 1 <= rekeyings <= 2 + _FORGED_S / 10, f"{rekeyings} rekeyings"
