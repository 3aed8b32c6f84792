"""``fleet requests``, ``approve`` and ``refuse``, with a server in meshsecd's place."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from meshsec.adapters.sockets.control import ControlError, ControlServer
from meshsec.cli import cards as shown
from meshsec.cli import fleet_options as options
from meshsec.cli import fleet_requests
from meshsec.core.trust import card as cards
from meshsec.core.trust import fleets
from meshsec.core.trust.identity import generate, make_card, public_key_of
from meshsec.core.values.model import Card

Meshsec = Callable[..., Result]
SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/meshsec-join-requests-1.json"


def _card(name: str, number: int, networks: tuple[str, ...] = ()) -> Card:
    seeds = (number.to_bytes(4, "big") + counter.to_bytes(28, "big") for counter in range(100_000))
    return make_card(name, public_key_of(generate(lambda: next(seeds))), networks=map(ip_network, networks))


BRAVO, FALSE_BRAVO, BOAT, HOUSE = (
    _card("bravo", 1),
    _card("bravo", 2),
    _card("boat", 3),
    _card("house", 4, ("10.1.0.0/16",)),
)


class Daemon:
    """Keeps requests for the fleet with this key, and writes down what it is told."""

    def __init__(self) -> None:
        self.key = ""
        self.namesake = ""
        """The card that has the name of another node."""
        self.waiting: list[tuple[Card, str | None]] = []
        self.told: list[tuple[str, Mapping[str, Any]]] = []

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method == "join_check":
            return self._checked(params["card"])
        if method != "join_requests":
            self.told.append((method, params))
            return {}
        return {"schema": "meshsec-join-requests-1", "requests": [self._view(*one) for one in self.waiting]}

    def _checked(self, card: str) -> Mapping[str, Any]:
        if self.namesake == card:
            raise ControlError("refused", "has the name of another node")
        return {}

    def _view(self, card: Card, namesake: str | None) -> dict[str, Any]:
        return {
            "fleet": "rescue",
            "fleet_key": self.key,
            "name": card.name,
            "address": str(card.address),
            "card": cards.render(card),
            "fingerprint": card.fingerprint.hex(),
            "words": shown.spoken(card).split(),
            "networks": [str(one) for one in card.networks],
            "via": "fe80::1",
            "waiting": 12,
            "seen": 2,
            "namesake": namesake,
        }


@pytest.fixture
def daemon(meshsec: Meshsec, tmp_path: Path, office: str) -> Iterator[Daemon]:
    """Give a daemon that keeps requests, where the fleet's key is in ``office``."""
    (tmp_path / "a/run").mkdir()
    made, started, stop = Daemon(), threading.Event(), threading.Event()

    async def serve() -> None:
        server = ControlServer(tmp_path / "a/run/control.sock", made.answer)
        await server.start()
        started.set()
        await asyncio.to_thread(stop.wait, 60)
        await server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(60)
    shown_fleet = meshsec("fleet", "init", "rescue", "--directory", office)
    assert shown_fleet.exit_code == 0, shown_fleet.stderr
    view = json.loads(meshsec("fleet", "show", "--json", "--directory", office).stdout)
    made.key = view["fleets"][0]["public_key"]
    yield made
    stop.set()
    thread.join(60)


@pytest.fixture
def office(tmp_path: Path) -> str:
    return str(tmp_path / "office")


def approved(daemon: Daemon) -> list[Card]:
    """Return the cards that were handed over, signed by the fleet."""
    fleet = fleets.Fleet("rescue", bytes.fromhex(daemon.key))
    texts = [params["signed"] for method, params in daemon.told if method == "join_approve"]
    return [fleets.parse_card(text, {fleet.public_key: fleet}).card for text in texts]


def test_requests_show_the_six_words_in_80_columns(meshsec: Meshsec, daemon: Daemon) -> None:
    assert "No node asks to join" in meshsec("fleet", "requests").stdout
    daemon.waiting = [(BRAVO, None), (FALSE_BRAVO, "fc00::9"), (HOUSE, None)]
    result = meshsec("fleet", "requests")
    assert all(shown.spoken(one) in result.stdout for one in (BRAVO, FALSE_BRAVO, HOUSE))
    assert "has the name of another node" in result.stdout
    assert "house asks to speak for 10.1.0.0/16" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    view = json.loads(meshsec("fleet", "requests", "--json").stdout)
    jsonschema.validate(view, json.loads(SCHEMA.read_text()))


def test_the_operator_who_asks_for_this_node_is_told_to_approve_it_first(meshsec: Meshsec, daemon: Daemon) -> None:
    hint = "Approve this node first"
    daemon.waiting = [(BRAVO, None)]
    assert hint not in meshsec("fleet", "requests").stdout
    own = cards.parse(json.loads(meshsec("key", "show", "--json").stdout)["card"])
    daemon.waiting = [(BRAVO, None), (own, None)]
    assert hint in meshsec("fleet", "requests").stdout


def test_six_words_approve_the_node_that_has_them(meshsec: Meshsec, daemon: Daemon, office: str) -> None:
    daemon.waiting = [(FALSE_BRAVO, None), (BRAVO, None)]
    result = meshsec("fleet", "approve", *shown.spoken(BRAVO).upper().split(), "--directory", office)
    assert f"bravo is a member of rescue: {BRAVO.address}" in result.stdout
    assert approved(daemon) == [BRAVO]
    assert meshsec("fleet", "approve", shown.spoken(FALSE_BRAVO), "--directory", office).exit_code == 0
    assert approved(daemon) == [BRAVO, FALSE_BRAVO]


def test_other_words_approve_nobody_and_say_what_to_do(meshsec: Meshsec, daemon: Daemon, office: str) -> None:
    daemon.waiting = [(BRAVO, None)]
    refused = meshsec("fleet", "approve", shown.spoken(FALSE_BRAVO), "--directory", office)
    assert (refused.exit_code, approved(daemon)) == (1, [])
    assert "repeats its request every 30 s" in refused.stderr
    mistyped = meshsec("fleet", "approve", *shown.spoken(BRAVO).split()[:5], "zebrra", "--directory", office)
    assert "perhaps 'zebra'" in mistyped.stderr


def test_a_name_is_not_enough_without_a_person(
    meshsec: Meshsec, daemon: Daemon, office: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.waiting = [(BRAVO, None)]
    refused = meshsec("fleet", "approve", "bravo", "--directory", office)
    assert refused.exit_code == 2
    assert shown.spoken(BRAVO) in refused.stderr
    monkeypatch.setattr(fleet_requests, "is_at_a_terminal", lambda: True)
    assert meshsec("fleet", "approve", "bravo", "--directory", office, input="n\n").exit_code == 1
    assert approved(daemon) == []
    assert meshsec("fleet", "approve", "bravo", "--directory", office, input="y\n").exit_code == 0
    assert approved(daemon) == [BRAVO]


def test_a_name_that_others_have_is_refused_whoever_confirms_it(
    meshsec: Meshsec, daemon: Daemon, office: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_requests, "is_at_a_terminal", lambda: True)
    daemon.waiting = [(BRAVO, None), (FALSE_BRAVO, None)]
    refused = meshsec("fleet", "approve", "bravo", "--directory", office, input="y\n")
    assert "2 nodes with the name 'bravo'" in refused.stderr
    refused = meshsec("fleet", "approve", "boat", "--directory", office, input="y\n")
    assert "no node 'boat' asks to join this fleet; those that do: bravo, bravo" in refused.stderr
    assert approved(daemon) == []


@pytest.mark.parametrize("target", ["bravo", shown.spoken(BRAVO), cards.render(BRAVO)])
def test_a_name_that_another_node_has_is_refused_before_anything_is_signed(
    meshsec: Meshsec, daemon: Daemon, office: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_requests, "is_at_a_terminal", lambda: True)
    monkeypatch.setattr(options, "signed_card", lambda *_: pytest.fail("it signs"))
    daemon.waiting, daemon.namesake = [(BRAVO, str(BOAT.address))], cards.render(BRAVO)
    refused = meshsec("fleet", "approve", target, "--directory", office, input="y\n")
    assert (refused.exit_code, daemon.told) == (1, [])
    assert "has the name of another node" in refused.stderr
    assert "is a member" not in refused.stdout


def test_a_scanned_card_needs_no_request(meshsec: Meshsec, daemon: Daemon, office: str) -> None:
    assert meshsec("fleet", "approve", cards.render(BOAT).upper(), "--directory", office).exit_code == 0
    assert approved(daemon) == [BOAT]


def test_networks_are_approved_only_when_somebody_decided(meshsec: Meshsec, daemon: Daemon, office: str) -> None:
    daemon.waiting = [(HOUSE, None)]
    words = shown.spoken(HOUSE)
    assert "fleet approve --networks` allows it" in meshsec("fleet", "approve", words, "--directory", office).stderr
    for option, networks in (("--networks", HOUSE.networks), ("--no-networks", ())):
        assert meshsec("fleet", "approve", words, option, "--directory", office).exit_code == 0
        assert approved(daemon)[-1].networks == networks


def test_requests_to_another_fleet_are_not_approved_with_this_key(
    meshsec: Meshsec, daemon: Daemon, office: str
) -> None:
    daemon.waiting, daemon.key = [(BRAVO, None)], "00" * 32
    assert meshsec("fleet", "approve", shown.spoken(BRAVO), "--directory", office).exit_code == 1
    assert daemon.told == []


def test_a_revoked_key_is_not_approved(meshsec: Meshsec, daemon: Daemon, office: str) -> None:
    daemon.waiting = [(BRAVO, None)]
    assert meshsec("fleet", "revoke", cards.render(BRAVO), "--directory", office).exit_code == 0
    refused = meshsec("fleet", "approve", shown.spoken(BRAVO), "--directory", office)
    assert "that key is revoked" in refused.stderr
    assert daemon.told == []


def test_a_refusal_names_the_key(meshsec: Meshsec, daemon: Daemon) -> None:
    daemon.waiting = [(BRAVO, None)]
    assert "bravo is refused" in meshsec("fleet", "refuse", "bravo").stdout
    assert daemon.told == [("join_refuse", {"fingerprint": BRAVO.fingerprint.hex()})]
