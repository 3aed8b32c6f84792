"""``fleet`` on its operator's machine, and on nodes without meshsecd."""

import json
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
from click.testing import Result

from meshsec.cli import fleet_options
from meshsec.core.trust import card as cards
from meshsec.core.trust.identity import make_card

Meshsec = Callable[..., Result]
SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/meshsec-fleet-1.json"


@pytest.fixture
def office(tmp_path: Path) -> str:
    return str(tmp_path / "office")


@pytest.fixture
def card(boat: Meshsec) -> str:
    text: str = json.loads(boat("key", "show", "--json").stdout)["card"]
    return text


def _fleet(result: Result) -> str:
    assert result.exit_code == 0, result.stderr
    return next(line.split()[-1] for line in result.stdout.splitlines() if line.startswith("fleet"))


def _status(meshsec: Meshsec) -> dict[str, object]:
    view = json.loads(meshsec("fleet", "status", "--json").stdout)
    jsonschema.validate(view, json.loads(SCHEMA.read_text()))
    assert len(view["fleets"]) == 1
    found: dict[str, object] = view["fleets"][0]
    return found


def test_damaged_files_that_only_inform_do_not_keep_a_key_from_being_revoked(
    meshsec: Meshsec, card: str, office: str
) -> None:
    _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    (Path(office) / "signed.names").write_text("damaged\n")
    (Path(office) / "revocation.notes").write_text("damaged\n")
    revoked = cards.parse(card).fingerprint.hex()
    done = meshsec("fleet", "revoke", revoked, "--directory", office)
    assert done.exit_code == 0, done.stderr
    assert "warning: " in done.stderr
    assert "signed.names" in done.stderr
    assert "revocation.notes" in done.stderr
    shown = json.loads(meshsec("fleet", "show", "--json", "--directory", office).stdout)
    assert shown["fleets"][0]["list"]["revoked"] == [revoked]


def test_a_card_is_signed_although_its_name_cannot_be_noted(meshsec: Meshsec, card: str, office: str) -> None:
    _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    (Path(office) / "signed.names").mkdir()
    done = meshsec("fleet", "sign", card, "--no-networks", "--directory", office)
    assert done.exit_code == 0, done.stderr
    assert done.stdout
    assert "the card is signed, but not to be revoked by its name" in done.stderr


def test_a_member_is_revoked_by_its_name_and_all_members_read_why(
    meshsec: Meshsec, boat: Meshsec, card: str, office: str
) -> None:
    fleet = _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    assert meshsec("fleet", "join", fleet).exit_code == 0
    signed = meshsec("fleet", "sign", card, "--no-networks", "--directory", office).stdout
    refused = meshsec("fleet", "revoke", "ship", "--directory", office)
    assert "no name of a card that was signed here; signed here: boat" in refused.stderr
    listed = meshsec("fleet", "revoke", "boat", "--reason", "stolen", "--directory", office)
    assert meshsec("fleet", "take", "-", input=signed + listed.stdout).exit_code == 0
    view = _status(meshsec)["list"]
    assert isinstance(view, dict)
    (note,) = view["notes"]
    assert (note["name"], note["reason"]) == ("boat", "stolen")
    for text in (
        meshsec("fleet", "status").stdout,
        meshsec("fleet", "show", "--directory", office).stdout,
        meshsec("peer", "list").stdout,
    ):
        assert "boat" in text
        assert "stolen" in text
        assert view["date"][:10] in text
    assert meshsec("fleet", "renew", "--directory", office).exit_code == 0
    assert "stolen" in meshsec("fleet", "show", "--directory", office).stdout, "what was said stays"
    assert meshsec("fleet", "unrevoke", note["fingerprint"], "--directory", office).exit_code == 0
    assert "stolen" not in meshsec("fleet", "show", "--directory", office).stdout


def test_a_fleet_signs_networks_only_when_somebody_decided(
    meshsec: Meshsec, boat: Meshsec, card: str, office: str
) -> None:
    fleet = _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    known = cards.parse(card)
    asking = cards.render(make_card("boat", known.public_key, known.ipv4, networks=[ip_network("::/0")]))
    refused = meshsec("fleet", "sign", asking, "--directory", office)
    assert refused.exit_code == 2
    assert "meshsec fleet sign --networks` allows it" in refused.stderr
    signed = meshsec("fleet", "sign", asking, "--networks", "--directory", office)
    assert "boat: may speak for ::/0" in signed.stderr
    assert boat("fleet", "join", fleet, signed.stdout.strip()).exit_code == 0, "it is the node's own card all the same"
    assert meshsec("fleet", "join", fleet).exit_code == 0
    assert meshsec("fleet", "take", signed.stdout.strip()).exit_code == 0
    (member,) = json.loads(meshsec("peer", "list", "--json").stdout)["peers"]
    assert (member["networks"], member["fleet"]) == (["::/0"], "rescue")


def test_a_fleet_is_made_joined_and_a_member_revoked(meshsec: Meshsec, boat: Meshsec, card: str, office: str) -> None:
    fleet = _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    assert fleet == _fleet(meshsec("fleet", "show", "--directory", office))
    assert (Path(office) / "fleet.key").stat().st_mode & 0o777 == 0o600
    signed = meshsec("fleet", "sign", card, "--no-networks", "--directory", office).stdout.strip()
    assert boat("fleet", "join", fleet, signed).exit_code == 0
    assert meshsec("fleet", "join", fleet).exit_code == 0
    member = _status(boat)["member"]
    assert isinstance(member, dict)
    assert (member["card"], member["signed"]) == (card, signed)

    assert "1 of 1 signed cards" in meshsec("fleet", "take", signed).stdout
    listed = json.loads(meshsec("peer", "list", "--json").stdout)["peers"]
    assert [(one["peer"], one["card"], one["fleet"]) for one in listed] == [("boat", card, "rescue")]

    assert "rescue" in meshsec("peer", "list").stdout

    first = meshsec("fleet", "revoke", card, "--directory", office).stdout.strip()
    second = meshsec("fleet", "unrevoke", cards.parse(card).fingerprint.hex(), "--directory", office).stdout.strip()
    assert "1 of 1 trust lists" in boat("fleet", "take", "-", input=first).stdout
    assert "revoked" in boat("fleet", "status").stdout
    assert "1 of 1 trust lists" in meshsec("fleet", "take", first).stdout
    assert _status(meshsec)["members"] == 0
    assert "0 of 1 signed cards" in meshsec("fleet", "take", signed).stdout
    assert "1 of 2 trust lists" in meshsec("fleet", "take", second, first).stdout
    assert "1 of 1 signed cards" in meshsec("fleet", "take", signed).stdout
    assert meshsec("fleet", "leave", "rescue").exit_code == 0
    assert "No fleet" in meshsec("fleet", "status").stdout


def test_a_member_takes_its_own_card_that_was_signed_again(
    meshsec: Meshsec, office: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    own = json.loads(meshsec("key", "show", "--json").stdout)["card"]

    def signed(at: int) -> str:
        monkeypatch.setattr(fleet_options, "time", SimpleNamespace(time=lambda: at))
        return meshsec("fleet", "sign", own, "--no-networks", "--directory", office).stdout.strip()

    first, again = signed(1000), signed(2000)
    assert meshsec("fleet", "join", fleet, first).exit_code == 0
    assert "new: 0 of 0 trust lists, 1 of 1 signed cards" in meshsec("fleet", "take", again).stdout
    member = _status(meshsec)["member"]
    assert isinstance(member, dict)
    assert member["signed"] == again
    assert "0 of 1 signed cards" in meshsec("fleet", "take", first).stdout, "it is older"


def test_a_fleet_is_looked_for_by_its_words_until_it_is_found_or_no_more(
    meshsec: Meshsec, office: str, card: str
) -> None:
    fleet = _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    words = next(one for one in meshsec("fleet", "show", "--directory", office).stdout.splitlines() if "words" in one)
    words = words.removeprefix("words").strip()
    near = meshsec("fleet", "join", words.replace(words.split()[0], "abndon"))
    assert near.exit_code == 1
    assert "'abndon' is not a word of the list; perhaps 'abandon'" in near.stderr
    assert "5 words; a fingerprint has 6" in meshsec("fleet", "join", words.rpartition(" ")[0]).stderr
    assert meshsec("fleet", "join", words, card).exit_code == 2
    assert meshsec("fleet", "leave", words).exit_code == 1

    joined = meshsec("fleet", "join", " ".join(word[:4].upper() for word in words.split()))
    assert "looks for the fleet with these words" in joined.stdout
    assert "No fleet" in meshsec("fleet", "status").stdout
    assert meshsec("fleet", "leave", words).exit_code == 0
    assert meshsec("fleet", "leave", words).exit_code == 1

    assert meshsec("fleet", "join", words).exit_code == 0
    assert meshsec("fleet", "join", fleet).exit_code == 0
    assert meshsec("fleet", "leave", words).exit_code == 1, "it was found"
    assert meshsec("fleet", "join", words).exit_code == 0
    assert meshsec("fleet", "leave", words).exit_code == 1, "it is joined already"


def test_a_node_that_asks_for_its_first_fleet_keeps_another_one(meshsec: Meshsec, office: str, tmp_path: Path) -> None:
    fleet = _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    other = _fleet(meshsec("fleet", "init", "other", "--directory", str(tmp_path / "other")))
    words = [line for line in meshsec("fleet", "show", "--directory", office).stdout.splitlines() if "words" in line]
    said = words[0].removeprefix("words").strip()
    for text in (said, fleet, said, fleet):
        assert meshsec("fleet", "join", "--first", text).exit_code == 0, "one fleet, by either text"
    refused = meshsec("fleet", "join", "--first", other)
    assert refused.exit_code == 1
    assert "this node has the fleet rescue already; `meshsec fleet leave rescue` ends that" in refused.stderr
    assert _status(meshsec)["name"] == "rescue"

    assert meshsec("fleet", "leave", "rescue").exit_code == 0
    assert meshsec("fleet", "join", "--first", said).exit_code == 0
    refused = meshsec("fleet", "join", "--first", other)
    assert f"this node looks for another fleet; `meshsec fleet leave '{said}'` ends that" in refused.stderr
    assert meshsec("fleet", "leave", said).exit_code == 0
    assert meshsec("fleet", "join", "--first", other).exit_code == 0


def test_a_fleets_operator_gets_the_files_that_a_new_node_reads(meshsec: Meshsec, office: str, tmp_path: Path) -> None:
    fleet = _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    written = meshsec("fleet", "join-file", str(tmp_path), "--directory", office)
    assert written.exit_code == 0
    assert (tmp_path / "meshsec.join").read_text(encoding="ascii") == f"{fleet}\n"
    assert (tmp_path / "meshsec.join.png").read_bytes().startswith(b"\x89PNG"), "test_image_join.py reads it"
    assert meshsec("fleet", "join-file", str(tmp_path / "absent"), "--directory", office).exit_code == 2
    absent = meshsec("fleet", "join-file", str(tmp_path), "--directory", str(tmp_path / "none"))
    assert absent.exit_code == 1
    assert "meshsec fleet init" in absent.stderr


def test_a_passphrase_keeps_the_key_closed(meshsec: Meshsec, card: str, office: str) -> None:
    created = meshsec("fleet", "init", "rescue", "--passphrase", "--directory", office, input="17-sesame\n17-sesame\n")
    assert created.exit_code == 0
    assert "17-sesame" not in created.stdout + (Path(office) / "fleet.key").read_text()
    wrong = meshsec("fleet", "sign", card, "--directory", office, input="wrong\n")
    assert wrong.exit_code == 1
    assert "the passphrase is wrong" in wrong.stderr
    assert meshsec("fleet", "sign", card, "--directory", office, input="17-sesame\n").exit_code == 0


def test_a_passphrase_may_come_by_standard_input(meshsec: Meshsec, card: str, office: str) -> None:
    meshsec("fleet", "init", "rescue", "--passphrase", "--directory", office, input="a secret\na secret\n")
    for command in (["sign", card], ["revoke", card], ["renew"], ["unrevoke", cards.parse(card).fingerprint.hex()]):
        wrong = meshsec("fleet", *command, "--passphrase-stdin", "--directory", office, input="another\n")
        assert (wrong.exit_code, wrong.stdout) == (1, "")
        assert "the passphrase is wrong" in wrong.stderr
        right = meshsec("fleet", *command, "--passphrase-stdin", "--directory", office, input="a secret\n")
        assert right.exit_code == 0, right.stderr
    both = meshsec("fleet", "sign", "-", "--passphrase-stdin", "--directory", office, input=f"{card}\na secret\n")
    assert both.exit_code == 2
    assert "cannot both come from standard input" in both.stderr


def test_operator_and_node_see_the_same_fleet(meshsec: Meshsec, card: str, office: str) -> None:
    text = _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    meshsec("fleet", "revoke", card, "--directory", office)
    view = json.loads(meshsec("fleet", "show", "--json", "--directory", office).stdout)
    jsonschema.validate(view, json.loads(SCHEMA.read_text()))
    (shown,) = view["fleets"]
    assert (shown["name"], shown["fleet"], shown["member"]) == ("rescue", text, None)
    assert shown["list"]["revoked"] == [cards.parse(card).fingerprint.hex()]


def test_a_card_by_hand_that_goes_leaves_the_member(meshsec: Meshsec, card: str, office: str) -> None:
    fleet = _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    signed = meshsec("fleet", "sign", card, "--no-networks", "--directory", office).stdout.strip()
    meshsec("peer", "add", "boat", card)
    meshsec("fleet", "join", fleet)
    meshsec("fleet", "take", signed)
    assert "stays a peer by the fleet rescue" in meshsec("peer", "remove", "boat").stdout
    listed = json.loads(meshsec("peer", "list", "--json").stdout)["peers"]
    assert [(one["peer"], one["fleet"]) for one in listed] == [("boat", "rescue")]


def test_a_refusal_names_the_reason(meshsec: Meshsec, card: str, office: str, tmp_path: Path) -> None:
    missing = meshsec("fleet", "sign", card, "--directory", str(tmp_path / "nothing"))
    fleet = _fleet(meshsec("fleet", "init", "rescue", "--directory", office))
    signed = meshsec("fleet", "sign", card, "--no-networks", "--directory", office).stdout.strip()
    meshsec("fleet", "revoke", card, "--directory", office)
    revoked = meshsec("fleet", "sign", card, "--directory", office)
    again = meshsec("fleet", "init", "rescue", "--directory", office)
    damaged = meshsec("fleet", "join", fleet[:30] + ("A" if fleet[30] != "A" else "B") + fleet[31:])
    foreign = meshsec("fleet", "join", fleet, signed)
    strange = meshsec("fleet", "take", signed)
    (Path(office) / "fleet.key").chmod(0o640)
    open_key = meshsec("fleet", "renew", "--directory", office)
    for result, says in (
        (missing, "No such file: `meshsec fleet init NAME` makes a fleet's key"),
        (revoked, "that key is revoked"),
        (again, "exists"),
        (damaged, "damaged"),
        (foreign, "another key than this node's"),
        (strange, "joined: none"),
        (open_key, "chmod 600"),
    ):
        assert result.exit_code == 1, says
        assert says in result.stderr
