"""``peer`` changes the files directly where meshsecd does not run."""

import json
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

from meshsec.adapters.files import gateway_store
from meshsec.core.trust import card as cards
from meshsec.core.trust.identity import make_card

Meshsec = Callable[..., Result]
SCHEMAS = Path(__file__).parents[3] / "docs/reference/schema"
VALID = Path(__file__).parents[3] / "tests/vectors/cards/valid.json"
FOREIGN: str = json.loads(VALID.read_text(encoding="utf-8"))[1]["card"]
"""The card of no node here, with different last two characters."""


@pytest.fixture
def card(boat: Meshsec) -> str:
    text: str = json.loads(boat("key", "show", "--json").stdout)["card"]
    return text


@pytest.fixture
def peers(tmp_path: Path) -> Path:
    return tmp_path / "a/peers"


def test_a_card_is_taken_in_whatever_form_it_comes(meshsec: Meshsec, card: str, tmp_path: Path, peers: Path) -> None:
    file = tmp_path / "boat.txt"
    file.write_text(card.upper() + "\n")
    forms: dict[str, tuple[list[str], str | None]] = {
        "line": ([card], None),
        "groups": (cards.grouped(card).split(), None),
        "quoted": ([cards.grouped(card)], None),
        "file": ([f"@{file}"], None),
        "standard input": (["-"], f" {card[:40]}\n{card[40:]}\n"),
    }
    for form, (arguments, text) in forms.items():
        result = meshsec("peer", "add", "boat", *arguments, input=text)
        assert result.exit_code == 0, f"{form}: {result.stderr}"
        assert (peers / "boat.card").read_text() == f"{card}\n", form
        assert meshsec("peer", "remove", "boat").exit_code == 0


def test_without_meshsecd_the_output_says_so(meshsec: Meshsec, card: str) -> None:
    assert meshsec("peer", "add", "boat", card).stderr == (
        "meshsecd is not running: this takes effect when it starts.\n"
    )


def test_a_change_that_failed_is_not_said_to_take_effect(meshsec: Meshsec, card: str) -> None:
    refused = meshsec("peer", "add", "Boat", card)
    assert refused.exit_code == 1
    assert "takes effect" not in refused.output


def test_a_card_with_the_name_of_another_peer_is_taken_with_a_warning(meshsec: Meshsec, card: str) -> None:
    other = cards.render(make_card("boat", cards.parse(FOREIGN).public_key))
    assert meshsec("peer", "add", "boat", card).exit_code == 0
    added = meshsec("peer", "add", "ship", other)
    assert added.exit_code == 0
    assert "Warning: the card names its node 'boat', as does that of peer 'boat'" in added.stderr
    assert "meshsec peer remove ship" in added.stderr
    assert "Warning" not in meshsec("peer", "add", "ship", FOREIGN).stderr


def test_a_typing_error_is_located_and_nothing_is_written(meshsec: Meshsec, card: str, peers: Path) -> None:
    wrong = card[:50] + ("q" if card[50] != "q" else "p") + card[51:]
    result = meshsec("peer", "add", "boat", wrong)
    assert result.exit_code == 1
    assert "character 51 (group 13, " in result.stderr
    assert f"likely {card[50]!r}" in result.stderr
    assert not list(peers.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "Boat", "CARD"], "the name is 'Boat'; allowed: 1 to 32 characters"),
        (["add", "boat", "@missing"], "missing: No such file or directory"),
        (["add", "me", "OWN"], "'me' is not added: its public key is this node's own"),
        (["remove", "ship"], "there is no peer 'ship'; known: none"),
        (["show", "ship"], "there is no peer 'ship'; known: none"),
        (["verify", "ship"], "there is no peer 'ship'; known: none"),
    ],
)
def test_a_refused_card_names_the_reason(arguments: list[str], message: str, meshsec: Meshsec, card: str) -> None:
    own = json.loads(meshsec("key", "show", "--json").stdout)["card"]
    given = [{"CARD": card, "OWN": own}.get(argument, argument) for argument in arguments]
    result = meshsec("peer", *given)
    assert result.exit_code == 1
    assert message in result.stderr


def test_list_and_show_print_the_cards(meshsec: Meshsec, card: str) -> None:
    assert "No peers." in meshsec("peer", "list").stdout
    meshsec("peer", "add", "my-boat", card)
    view = json.loads(meshsec("peer", "list", "--json").stdout)
    jsonschema.validate(view, json.loads((SCHEMAS / "meshsec-peers-1.json").read_text()))
    (peer,) = view["peers"]
    assert (peer["peer"], peer["name"], peer["card"]) == ("my-boat", "boat", card)
    shown = json.loads(meshsec("peer", "show", "my-boat", "--json").stdout)
    jsonschema.validate(shown, json.loads((SCHEMAS / "meshsec-card-1.json").read_text()))
    assert shown["card"] == card
    table = meshsec("peer", "list").stdout
    assert all(text in table for text in ("my-boat", peer["address"], "10.77.0.2", " ".join(peer["words"])))
    assert peer["locator"] in meshsec("peer", "show", "my-boat").stdout


def test_a_card_that_asks_to_speak_for_networks_is_taken_only_when_somebody_decided(
    meshsec: Meshsec, card: str, peers: Path
) -> None:
    known = cards.parse(card)
    asking = cards.render(make_card("boat", known.public_key, known.ipv4, networks=[ip_network("10.1.0.0/16")]))
    refused = meshsec("peer", "add", "boat", asking)
    assert refused.exit_code == 2
    assert "asks to speak for 10.1.0.0/16" in refused.stderr
    assert "meshsec peer add --networks` allows it, --no-networks trusts the node alone" in refused.stderr
    assert not list(peers.glob("*.card"))
    assert meshsec("peer", "add", "boat", asking, "--no-networks").exit_code == 0
    assert (peers / "boat.card").read_text() == f"{card}\n"
    added = meshsec("peer", "add", "boat", asking, "--networks")
    assert "It may speak for 10.1.0.0/16" in added.stdout
    assert (peers / "boat.card").read_text() == f"{asking}\n"
    view = json.loads(meshsec("peer", "list", "--json").stdout)
    jsonschema.validate(view, json.loads((SCHEMAS / "meshsec-peers-1.json").read_text()))
    assert view["peers"][0]["networks"] == ["10.1.0.0/16"]
    assert "10.1.0.0/16" in meshsec("peer", "show", "boat").stdout


def test_a_node_writes_on_its_card_what_it_announces(meshsec: Meshsec, tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text() + '[gateway]\nuplink = "eth1"\nipv4 = "off"\n')
    assert json.loads(meshsec("key", "show", "--json").stdout)["networks"] == []
    view = json.loads(meshsec("key", "show", "--networks", "--json").stdout)
    jsonschema.validate(view, json.loads((SCHEMAS / "meshsec-card-1.json").read_text()))
    assert view["networks"] == ["10.9.0.0/16", "::/0"]
    attached = ", ".join(f'{{ prefix = "10.{number}.0.0/16" }}' for number in range(1, 6))
    config.write_text(config.read_text().replace('{ prefix = "10.9.0.0/16", distance = 2 }', attached))
    refused = meshsec("key", "show", "--networks")
    assert refused.exit_code == 1
    assert "the card has 6 networks; allowed: 4 on a card; name others in [routing] accept" in refused.stderr


@pytest.mark.parametrize(
    ("chosen", "networks"), [("eth2", ["0.0.0.0/0", "10.9.0.0/16", "::/0"]), ("", ["10.9.0.0/16"])]
)
def test_the_uplink_that_was_chosen_while_it_ran_counts(
    meshsec: Meshsec, tmp_path: Path, chosen: str, networks: list[str]
) -> None:
    config = tmp_path / "a/meshsec.toml"
    if not chosen:
        config.write_text(config.read_text() + '[gateway]\nuplink = "eth1"\n')
    store = tmp_path / "a/state/gateway.json"
    store.parent.mkdir(exist_ok=True)
    gateway_store.save(store, chosen)
    assert json.loads(meshsec("key", "show", "--networks", "--json").stdout)["networks"] == networks
    store.write_text("{")
    refused = meshsec("key", "show", "--networks")
    assert (refused.exit_code, "choose with `meshsec gateway on` or `off`" in refused.stderr) == (1, True)


def test_a_corrupt_card_is_reported_and_hides_no_other(meshsec: Meshsec, card: str, peers: Path) -> None:
    meshsec("peer", "add", "boat", card)
    (peers / "ship.card").write_text(FOREIGN[:-1])  # of two equal ones it would be told that the first is missing
    result = meshsec("peer", "list")
    assert result.exit_code == 1
    assert "boat" in result.stdout
    assert f"refused: {peers}/ship.card: character {len(FOREIGN)} is missing at the end" in result.stderr
    assert json.loads(meshsec("peer", "list", "--json").stdout)["problems"][0]["file"] == f"{peers}/ship.card"
    assert "is missing at the end" in meshsec("peer", "show", "ship").stderr


def test_verify_compares_the_words_that_were_heard(meshsec: Meshsec, boat: Meshsec, card: str) -> None:
    """The words that the other operator reads aloud are compared with the words of the card."""
    meshsec("peer", "add", "boat", card)
    heard = json.loads(boat("key", "show", "--json").stdout)["words"]
    assert meshsec("peer", "verify", "boat").stdout.split() == heard
    assert meshsec("peer", "verify", "boat", *heard).exit_code == 0
    assert meshsec("peer", "verify", "boat", *(word[:4] for word in heard)).exit_code == 0
    wrong = meshsec("peer", "verify", "boat", *(["zoo"] * 6))
    assert wrong.exit_code == 1
    assert "These are NOT the words of boat" in wrong.stderr
    assert meshsec("peer", "verify", "boat", "zoo").exit_code == 1


def test_input_without_end_is_cut_off(meshsec: Meshsec) -> None:
    result = meshsec("peer", "add", "boat", "-", input="q" * 1_000_000)
    assert result.exit_code == 1
    assert "the text has 4096 characters; a card has at most 237" in result.stderr


def test_a_revoked_key_is_shown_and_refused_until_it_is_unrevoked(meshsec: Meshsec, card: str) -> None:
    meshsec("peer", "add", "boat", card)
    fingerprint = cards.parse(card).fingerprint.hex()
    result = meshsec("peer", "revoke", "boat", "--reason", "stolen")
    assert result.stdout == f"revoked: {fingerprint}\n"
    view = json.loads(meshsec("peer", "list", "--json").stdout)
    jsonschema.validate(view, json.loads((SCHEMAS / "meshsec-peers-1.json").read_text()))
    assert view["peers"] == []
    assert view["revoked"] == [{"fingerprint": fingerprint, "said": "boat: stolen"}]
    assert f"revoked: {fingerprint} boat: stolen" in meshsec("peer", "list").stdout
    refused = meshsec("peer", "add", "boat", card)
    assert refused.exit_code == 1
    assert f"meshsec peer unrevoke {fingerprint}" in refused.stderr
    assert meshsec("peer", "unrevoke", fingerprint.upper()).exit_code == 0
    assert meshsec("peer", "add", "boat", card).exit_code == 0
    assert meshsec("peer", "revoke", cards.grouped(card)).stdout == f"revoked: {fingerprint}\n"
