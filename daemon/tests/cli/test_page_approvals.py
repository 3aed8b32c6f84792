"""``page login --approve`` signs what a login of the page approves, with a server in meshsecd's place (ADR 0081)."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from cli.answering import answering
from meshsec.cli import cards as shown
from meshsec.cli import page_approvals
from meshsec.core.trust import card as cards
from meshsec.core.trust import fleets
from meshsec.core.trust.identity import generate, make_card, public_key_of
from meshsec.core.values.model import Card

Meshsec = Callable[..., Result]
SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/meshsec-page-login-1.json"


@dataclass
class Wanting:
    """What a login wants to be signed, and what the command says to that."""

    cards: list[Card] = field(default_factory=list)
    said: list[Mapping[str, Any]] = field(default_factory=list)
    failure: str = ""
    fleet: str = ""
    places: list[list[str]] = field(default_factory=list)

    def answer(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give the next card; after the last the login has ended."""
        assert params["signer"] == "s1gner"
        if "card" in params:
            self.said.append(params)
            if self.failure:
                failure, self.failure = self.failure, ""
                return {"card": None, "ended": False, "failure": failure}
        card = cards.render(self.cards.pop(0)) if self.cards else None
        return {"card": card, "ended": card is None, "failure": ""}


@pytest.fixture
def wanting() -> Wanting:
    return Wanting()


@pytest.fixture
def asked(meshsec: Meshsec, tmp_path: Path, wanting: Wanting) -> Iterator[list[str]]:
    """Answer in meshsecd's place, and give the list of what was asked."""
    asked: list[str] = []

    def answer(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(method)
        if method == "page_login":
            wanting.places.append(params["addresses"])
        if method == "page_wanted":
            return wanting.answer(params)
        if method == "page_login" and "fleet" in params:
            wanting.fleet = params["fleet"]
            return {"token": "t0ken", "seconds": 300.0, "signer": "s1gner"}
        return {"token": "t0ken", "seconds": 300.0, "ended": 2}

    with answering(tmp_path / "a/run/control.sock", answer):
        yield asked


def _card(name: str, number: int, *networks: str) -> Card:
    seeds = (number.to_bytes(4, "big") + counter.to_bytes(28, "big") for counter in range(100_000))
    return make_card(name, public_key_of(generate(lambda: next(seeds))), networks=map(ip_network, networks))


BRAVO, BOAT = _card("bravo", 1), _card("boat", 2)


def office(meshsec: Meshsec, directory: Path) -> tuple[str, str]:
    """Make a fleet that the node has joined, and return the options that name its key."""
    made = ("--directory", str(directory / "office"))
    assert meshsec("fleet", "init", "rescue", *made).exit_code == 0
    fleet = json.loads(meshsec("fleet", "show", "--json", *made).stdout)["fleets"][0]["fleet"]
    assert meshsec("fleet", "join", fleet).exit_code == 0
    return made


def test_what_the_login_approves_is_signed_until_the_login_ends(
    meshsec: Meshsec, asked: list[str], wanting: Wanting, tmp_path: Path
) -> None:
    at = office(meshsec, tmp_path)
    key = json.loads(meshsec("fleet", "show", "--json", *at).stdout)["fleets"][0]["public_key"]
    wanting.cards = [BRAVO, BOAT]
    result = meshsec("page", "login", "--approve", *at)
    assert result.exit_code == 0, result.output
    assert wanting.fleet == key
    fleet = fleets.Fleet("rescue", bytes.fromhex(key))
    assert [fleets.parse_card(one["signed"], {fleet.public_key: fleet}).card for one in wanting.said] == [BRAVO, BOAT]
    assert [one["card"] for one in wanting.said] == [cards.render(BRAVO), cards.render(BOAT)]
    assert "http://localhost:8269/#login=t0ken" in result.stdout
    for card in (BRAVO, BOAT):
        assert f"{card.name} is a member: {shown.spoken(card)}" in result.stdout
    assert "s1gner" not in result.output
    assert meshsec("fleet", "revoke", "bravo", *at).exit_code == 0, "its name is known by now"


def test_a_revoked_key_is_not_signed_and_what_meshsecd_refuses_is_said(
    meshsec: Meshsec, asked: list[str], wanting: Wanting, tmp_path: Path
) -> None:
    at = office(meshsec, tmp_path)
    assert meshsec("fleet", "revoke", BRAVO.fingerprint.hex(), *at).exit_code == 0
    wanting.cards = [BRAVO]
    result = meshsec("page", "login", "--approve", *at)
    (said,) = wanting.said
    assert "signed" not in said
    assert "that key is revoked" in said["refusal"]
    assert "bravo is not approved: that key is revoked" in result.stdout
    wanting.cards, wanting.failure = [BOAT], "has the name of another node"
    assert "boat is not approved: has the name of another node" in meshsec("page", "login", "--approve", *at).stdout


def test_a_card_with_networks_is_not_signed_whoever_wants_it(
    meshsec: Meshsec, asked: list[str], wanting: Wanting, tmp_path: Path
) -> None:
    wanting.cards = [_card("house", 3, "0.0.0.0/0"), BOAT]
    result = meshsec("page", "login", "--approve", *office(meshsec, tmp_path))
    assert [one.get("refusal", "")[:40] for one in wanting.said] == ["the card asks to speak for 0.0.0.0/0: `m", ""]
    assert "signed" not in wanting.said[0]
    assert "house is not approved: the card asks to speak for 0.0.0.0/0" in result.stdout
    assert "boat is a member" in result.stdout


def test_one_command_signs_a_bounded_number_of_nodes(
    meshsec: Meshsec, asked: list[str], wanting: Wanting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_approvals, "MOST", 2)
    at = office(meshsec, tmp_path)
    given = [BRAVO, BOAT, _card("third", 3), _card("fourth", 4), _card("fifth", 5)]
    wanting.cards, wanting.failure = list(given), "the first is refused"
    result = meshsec("page", "login", "--approve", *at)
    assert [one["card"] for one in wanting.said] == [cards.render(one) for one in given[:3]]
    assert "run the command again for more" in result.stdout


def test_without_the_fleets_key_no_login_is_made(meshsec: Meshsec, asked: list[str], tmp_path: Path) -> None:
    missing = meshsec("page", "login", "--approve", "--directory", str(tmp_path / "none"))
    assert missing.exit_code != 0
    at = ("--directory", str(tmp_path / "office"))
    assert meshsec("fleet", "init", "rescue", "--passphrase", *at, input="secret\nsecret\n").exit_code == 0
    foreign = meshsec("page", "login", "--approve", "--passphrase-stdin", *at, input="secret\n")
    assert "this node has not joined rescue" in foreign.output
    fleet = json.loads(meshsec("fleet", "show", "--json", *at).stdout)["fleets"][0]["fleet"]
    assert meshsec("fleet", "join", fleet).exit_code == 0
    wrong = meshsec("page", "login", "--approve", "--passphrase-stdin", *at, input="wrong\n")
    assert wrong.exit_code != 0
    assert "the passphrase is wrong" in wrong.output
    assert "page_login" not in asked
    assert meshsec("page", "login", "--approve", "--passphrase-stdin", *at, input="secret\n").exit_code == 0


def test_a_qr_code_for_a_phone_has_the_case_of_the_token(meshsec: Meshsec, asked: list[str]) -> None:
    result = meshsec("page", "login", "--qr").output
    assert "█" in result
    assert result.splitlines()[-1].endswith("#login=t0ken")


def test_where_clients_may_log_in_their_address_is_printed(
    meshsec: Meshsec, asked: list[str], wanting: Wanting, tmp_path: Path
) -> None:
    config = tmp_path / "a/meshsec.toml"
    radio = '{ interface = "wlan9", ssid = "valley", frequency = 5180, security = "sae" }'
    access = f'[access]\nnetworks = ["fd12::/64", "10.130.0.0/16"]\nradio = {radio}\n'
    config.write_text(f"{config.read_text()}\n[page]\naccess = true\nclients_log_in = true\n{access}")
    view = json.loads(meshsec("page", "login", "--json").output)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(view)
    assert view["clients"] == "http://[fd12::1]:8269/#login=t0ken"
    assert wanting.places[0][-1] == "fd12::1", "meshsecd is asked whether the page listens there"
