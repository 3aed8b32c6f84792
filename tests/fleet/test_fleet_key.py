"""A fleet's key, which stays on the controller, takes over trust that was given card by card."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from meshsec.adapters.files import fleet_key
from meshsec.core.trust import card as cards
from meshsec.core.trust import fleets, revocation_notes
from meshsec.core.trust.revocation_notes import Note
from tests.fleet.longer import longer
from tests.lab.basics.waiting import wait_until
from tests.lab.machines.fleet import Fleet
from tests.lab.machines.fleet_controller import Controller
from tests.lab.net.traffic import wait_arrivals
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

pytestmark = pytest.mark.timeout(900, func_only=True)
"""The time limit excludes the fixtures, because provisioning a fleet takes long."""

PASSPHRASE = "a test's own"  # noqa: S105
REASON = "stolen at the harbour"
_PEERS = "/etc/meshsec/peers"


@pytest.fixture(scope="module")
def office(controller: Controller, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a fleet's operator. At the end every node leaves the fleet and trusts the others card by card again."""
    directory = tmp_path_factory.mktemp("office")
    fleet_key.create(directory, "rescue", PASSPHRASE)
    yield directory
    for name in controller.fleet.nodes:
        controller.fleet.ssh(name, "meshsec fleet leave rescue", check=False)
    controller.play("trust")
    controller.fleet.learn_cards()


@pytest.fixture
def layout(office: Path) -> str:
    """Return the variables that ask for a fleet."""
    asked = {"trust_layout": "fleet", "trust_fleet_directory": str(office), "trust_fleet_passphrase": PASSPHRASE}
    return json.dumps(asked)


def test_the_fleets_signed_cards_replace_installed_ones(controller: Controller, line: Fleet, layout: str) -> None:
    before, peers = _channels(line), _files(line)
    would = controller.play("trust", "-e", layout, "--check")
    assert all(counts["changed"] for counts in would.recap.values()), would.output
    assert "announce the member b" in would.output
    assert _files(line) == peers

    with flow(line.lab["a"], line.lab["c"]) as running:
        wait_arrivals(running)
        played = controller.play("trust", "-e", layout)
        wait_arrivals(running)
    assert PASSPHRASE not in played.output
    assert _channels(line) == before, "SAs have been made again"
    for name, files in _files(line).items():
        assert not [file for file in files if file.endswith(".card")], name
        assert sum(file.endswith(".member") for file in files) == len(line.nodes) - 1, name
    again = controller.play("trust", "-e", layout)
    assert again.changed == 0, again.output


@longer
def test_a_member_gets_another_key(controller: Controller, line: Fleet, layout: str) -> None:
    """It runs after the test before."""
    a, c, old = line.lab["a"], line.lab["c"], line.lab["c"].address
    with captured(line.lab, "rotated-member") as captures:
        with flow(a, c) as running:
            wait_arrivals(running)
            controller.play("rotate_keys", "-e", "node=c", "-e", "rotate_pause=true", "-e", layout)
            wait_arrivals(running)
        assert running.result.lost * 20 <= running.result.sent  # As in test_provisioning.py.
        played = controller.play("rotate_keys", "-e", "node=c", "-e", layout)
        assert PASSPHRASE not in played.output
    assert_nothing_clear(captures)
    line.learn_cards()
    assert old != c.address
    assert old not in line.ssh("a", "meshsec peer list --json").stdout
    line.lab.wait_full_mesh()
    again = controller.play("trust", "-e", layout)
    assert again.changed == 0, again.output


def test_a_revoked_node_is_refused_by_the_others_and_the_play(
    controller: Controller, line: Fleet, office: Path, layout: str
) -> None:
    """It runs after the first test."""
    _revoke(office, line, "c")
    refused = controller.play("trust", "-e", layout, check=False)
    assert refused.recap["c"]["failed"] == 1, refused.output
    assert "has revoked the key of c" in " ".join(refused.output.split())
    assert [refused.recap[name]["failed"] for name in ("a", "b")] == [0, 0], refused.output
    for name in ("a", "b"):
        wait_until(f"{name} has ended it", partial(_has_ended, line, name, "c"), (), 60)
        assert _protected(line, name)
        assert REASON in line.ssh(name, "meshsec fleet status").stdout
    assert controller.play("trust", "-e", layout, check=False).changed == 0


def _revoke(office: Path, line: Fleet, name: str) -> None:
    card = cards.parse(json.loads(line.ssh(name, "meshsec key show --json").stdout)["card"])
    key = fleet_key.load(office, lambda: PASSPHRASE)
    known = fleet_key.trust_list(office)
    revoked = (known.revoked if known else frozenset()) | {card.fingerprint}
    listed = fleets.sign_list(key, 0, revoked, known)
    fleet_key.save_list(office, listed)
    noted = fleet_key.notes(office)
    said = (dict(noted.said) if noted else {}) | {card.fingerprint: Note(1, name, REASON)}
    fleet_key.save_notes(office, revocation_notes.sign(key, listed.number, said))


def _files(line: Fleet) -> dict[str, list[str]]:
    return {name: sorted(line.ssh(name, f"ls {_PEERS}").stdout.split()) for name in line.nodes}


def _channels(line: Fleet) -> dict[tuple[str, object], object]:
    """Return the SPIs of the IKE_SAs by node and peer."""
    return {(name, peer["name"]): peer["ike_spis"] for name in line.nodes for peer in _peers(line, name)}


def _peers(line: Fleet, name: str) -> list[dict[str, object]]:
    peers: list[dict[str, object]] = json.loads(line.ssh(name, "meshsec status --json").stdout)["peers"]
    return peers


def _has_ended(line: Fleet, name: str, other: str) -> bool:
    return other not in _protected(line, name)


def _protected(line: Fleet, name: str) -> set[object]:
    return {peer["name"] for peer in _peers(line, name) if peer["state"] == "protected"}
