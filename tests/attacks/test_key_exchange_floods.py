"""A flood of first messages slows its responder down, but neither ends it nor makes it grow without bound."""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv6Address

import pytest
from scapy.layers.l2 import Ether

from tests.attacks.asking import Asker, prepare, renegotiate, two_peers
from tests.lab.basics.places import BUILD
from tests.lab.forge.ike import Listener, Message, Reach
from tests.lab.forge.raw import Forger, Way, checksummed, mac_of
from tests.lab.lab import Lab
from tests.lab.node.node import Node

pytestmark = pytest.mark.flood

COUNT, RATE = 48_000, 2_000
FIGURES = BUILD / "key-exchange-floods.json"
MEMORY = 128 << 20
"""Bytes by which charon may grow."""


def frames(lab: Lab, template: Message, own_share: int) -> Iterator[bytes]:
    """Build first messages to c in the names of strangers, and each ``own_share``-th in a's name (0: none)."""
    to, source = mac_of(lab.end_of("c", "b")), mac_of(lab.end_of("b", "c"))
    c = lab["c"].locator if template.source.startswith("fd") else lab["c"].address
    whole = bytes(Ether(src=source, dst=to) / replace(template, target=c).packet())
    own = IPv6Address(template.source).packed
    for number in range(COUNT):
        name = own if own_share and number % own_share == 0 else b"\xfd" + os.urandom(15)
        yield checksummed(whole[:22] + name + whole[38:62] + os.urandom(8) + whole[70:])


@contextmanager
def flooding(lab: Lab, template: Message, own_share: int) -> Iterator[list[int]]:
    """Send all frames at the rate, in a thread. Yield the number sent so far."""
    sent, over = [0], threading.Event()

    def flood() -> None:
        with Forger(Way.between(lab.end_of("b", "c"), lab.end_of("c", "b"))) as forger:
            began = time.monotonic()
            for frame in frames(lab, template, own_share):
                late = began + sent[0] / RATE - time.monotonic()
                if over.wait(max(0.0, late)) if late > 0.005 else over.is_set():
                    return
                sent[0] += forger.send_frames([frame])

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join()


def _template(lab: Lab) -> Message:
    heard: list[Message] = []
    with Reach(lab, "b", ("a", "c")) as reach, Listener(reach.ends, heard.append, only_inbound=True):
        renegotiate(lab, 60)
    found = next(one for one in heard if one.is_opening)
    ends = {lab["a"].locator, lab["c"].locator, lab["a"].address, lab["c"].address}
    assert found.source in ends
    a = lab["a"].locator if found.source.startswith("fd") else lab["a"].address
    return replace(found, source=a)


@contextmanager
def figures(node: Node, name: str) -> Iterator[dict[str, float]]:
    """Measure what charon and meshsecd use while the block runs."""
    daemons = {"charon": node.daemons.charon, "meshsecd": node.daemons.agent}
    before = {kind: (one.cpu_seconds(), one.resident_bytes()) for kind, one in daemons.items()}
    began = time.monotonic()
    noted: dict[str, float] = {}
    yield noted
    noted["seconds"] = time.monotonic() - began
    for kind, one in daemons.items():
        noted[f"{kind}_cpu"] = (one.cpu_seconds() - before[kind][0]) / noted["seconds"]
        noted[f"{kind}_grew"] = one.resident_bytes() - before[kind][1]
    known = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    FIGURES.write_text(json.dumps({**known, name: noted}, indent=1) + "\n", encoding="utf-8")


@pytest.mark.parametrize("own_share", [0, 2], ids=["strangers", "half-in-a-peers-name"])
def test_a_flood_of_first_messages_is_survived_and_a_peer_gets_in(own_share: int) -> None:
    with two_peers("flood") as lab:
        prepare(lab)
        lab.start()
        c = lab["c"]
        lab["a"].wait_protected(c)
        template = _template(lab)
        pid = c.daemons.charon.pid
        with figures(c, f"flood-{own_share}") as noted, flooding(lab, template, own_share) as sent:
            c.wait_for("the flood is on", lambda: sent[0] > 2 * RATE, 60)
            noted["set_up"] = renegotiate(lab, 120)
            c.wait_for("the flood is over", lambda: sent[0] >= COUNT, 120)
        assert c.daemons.charon.pid == pid
        assert noted["charon_grew"] < MEMORY, noted
        lab["a"].wait_protected(c)


def test_a_listener_who_brings_back_every_cookie_does_not_keep_a_peer_out() -> None:
    """The rate is ten times the one that kept the peer out before, in both directions."""
    with two_peers("cookies") as lab:
        prepare(lab)
        asker = Asker(lab, 200)
        with asker.running():
            lab.start()
            a, c = lab["a"], lab["c"]
            a.wait_protected(c, 120)
            with figures(c, "cookies-200") as noted:
                a.wait_for("many half-open SAs", lambda: asker.admitted > 500, 60)
                noted["set_up"] = renegotiate(lab, 120)
        assert asker.cookies
        assert noted["charon_grew"] < MEMORY, noted
