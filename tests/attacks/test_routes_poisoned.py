"""Forged TCs under a relay's originator, with higher numbers than its own, keep no route away."""

import selectors
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.attacks.routing import Stranger, signers_under_attack, under_attack
from tests.lab.forge.rfc5444 import tc
from tests.lab.node.routers import Mesh, Router
from tests.lab.observe.change_stream import ChangeStream

PAIRS = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "m"))
TIMES = "tc = { interval = 1.0, validity = 5.0 }"
SETTINGS = dict.fromkeys("abcd", TIMES)
PERIOD = 0.5
"""Seconds between two forged TCs."""


@contextmanager
def poisoned(relay: str, hop_limit: int, signatures: str = "") -> Iterator[tuple[Mesh, "Poison"]]:
    """Start the line a - b - c - d and let m poison what a knows of a relay; with ``signatures``, m has a card."""
    signed = signers_under_attack(signatures, TIMES, PAIRS)
    with signed if signatures else under_attack(SETTINGS, PAIRS) as (mesh, stranger):
        stranger.become_neighbour()
        with mesh["a"].stream() as stream:
            yield mesh, Poison(stranger, mesh[relay], hop_limit, stream)


class Poison:
    """TCs that withdraw all links of a relay."""

    def __init__(self, stranger: Stranger, relay: Router, hop_limit: int, stream: ChangeStream) -> None:
        self._stranger, self._hop_limit, self._stream = stranger, hop_limit, stream
        self._number = 0
        self._originators = stranger.own(relay)

    def send(self, seconds: float) -> None:
        """Send two TCs a second for this time, and read what a reports meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._number += 1
            for version, originator in self._originators.items():
                known = self._stream.tables["node"][originator]["ansn"]
                number = (known + 1) % 65536
                self._stranger.send(version, tc(originator, seq=self._number, ansn=number, hop_limit=self._hop_limit))
            self._listen(time.monotonic() + PERIOD)

    def lost(self, routers: list[Router]) -> list[str]:
        """Return the destinations of these routers that a has lost at any time since the last call."""
        lines, self._stream.lines = self._stream.lines, []
        gone = [line for line in lines if (line.get("object"), line.get("op")) == ("route", "del")]
        wanted = set().union(*(router.destinations for router in routers))
        return [line["destination"] for line in gone if line["destination"] in wanted]

    def takes_effect(self, router: Router, tries: int) -> bool:
        """Send until a has lost a route to this router, 6 s at each try."""
        for _ in range(tries):
            self._stranger.become_neighbour()
            self.send(6)
            if self.lost([router]):
                return True
        return False

    def _listen(self, until: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stream, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0:
                if selector.select(left):
                    self._stream.drain()


@pytest.mark.parametrize(("relay", "hop_limit"), [("b", 1), ("b", 255), ("c", 1)])
def test_poisoned_numbers_are_not_believed(relay: str, hop_limit: int) -> None:
    with poisoned(relay, hop_limit) as (mesh, poison):
        poison.send(6)
        assert poison.lost([mesh[name] for name in "bcd"]) == []
        assert mesh["a"].reaches(mesh["d"])


def test_poison_that_travels_on_keeps_no_route_of_a_far_relay_away() -> None:
    with poisoned("c", 255) as (mesh, poison):
        assert poison.takes_effect(mesh["d"], tries=15), "nothing was poisoned: the detector sees nothing"
        poison.send(6)
        assert poison.lost([mesh[name] for name in "bcd"]) == [], "the poison goes on"
        assert mesh["a"].reaches(mesh["d"])


@pytest.mark.parametrize("signatures", ["off", "require"])
def test_where_signatures_are_required_a_card_holder_poisons_no_far_relay(signatures: str) -> None:
    with poisoned("c", 255, signatures) as (mesh, poison):
        if signatures == "off":
            assert poison.takes_effect(mesh["d"], tries=15)
        else:
            poison.send(12)
            assert poison.lost([mesh[name] for name in "bcd"]) == []
            assert mesh["a"].counter("forged") > 20
            assert mesh["a"].reaches(mesh["d"])
