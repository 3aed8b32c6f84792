"""The trust store's events: they report only what changed, and the last good state stays in force."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec.adapters.files import trust_store
from meshsec.adapters.files.trust_store import fleets as fleet_store
from meshsec.agent.control.page_requests import PageRequests
from meshsec.agent.control.requests import Requests
from meshsec.agent.sides.trust import Side, Trust
from meshsec.core.channels.events import Event, PeerRemoved, PeerSet, TrustStoreRead
from meshsec.core.channels.ipv4_claims import Elsewhere, Surroundings
from meshsec.core.trust import card as cards
from meshsec.core.trust import fleets
from meshsec.core.trust.fleets import Fleet
from meshsec.core.trust.identity import make_card, raw_public_key
from meshsec.core.values.model import Card, Peer
from opened import opened, settle

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from meshsec.agent.control.sides import Sides


async def unasked(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer nothing: nobody asks for the page."""
    raise AssertionError(method)


async def anywhere() -> Surroundings:
    """Return surroundings in which every IPv4 address may be a peer's."""
    return Surroundings((IPv4Network("0.0.0.0/0"),))


VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "tests/vectors/cards/valid.json").read_text(encoding="utf-8")
)
OWN, BOAT, SHIP, TRUCK, FAR = (cards.parse(VECTORS[index]["card"]) for index in (1, 4, 2, 0, 3))


class Store:
    """A trust store on disk and the events that its reloads cause."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.events: list[Event] = []
        self.trust = Trust(directory, OWN, self.events.append, anywhere)

    def reload(self) -> tuple[list[Event], tuple[str, ...]]:
        self.events.clear()
        problems = asyncio.run(self.trust.reload())
        return list(self.events), problems


@pytest.fixture
def store(tmp_path: Path) -> Store:
    trust_store.add(tmp_path / "peers", "boat", BOAT, OWN)
    trust_store.add(tmp_path / "peers", "ship", SHIP, OWN)
    return Store(tmp_path / "peers")


def test_each_card_is_reported_once(store: Store) -> None:
    events, problems = store.reload()
    assert sorted(map(str, events)) == sorted(map(str, [PeerSet(Peer("boat", BOAT)), PeerSet(Peer("ship", SHIP))]))
    assert problems == ()
    assert store.reload() == ([], ())


def test_all_changes_are_reported_together(store: Store) -> None:
    """Between two events the rules would be made of a part of them: without peers, after a restart."""
    reported: list[list[Event]] = []

    async def look() -> Surroundings:
        reported.append(list(store.events))
        return await anywhere()

    store.trust = Trust(store.directory, OWN, store.events.append, look)
    fleet_key = Ed25519PrivateKey.generate()
    fleet_store.join(store.directory, Fleet("rescue", raw_public_key(fleet_key.public_key())), "", [OWN])
    (store.directory / "boat.card").write_text("nonsense\n")
    events, (problem,) = store.reload()
    assert events == [TrustStoreRead((problem,), joins=True), PeerSet(Peer("ship", SHIP))]
    assert reported == [[]]


def test_removing_a_file_ends_the_trust(store: Store) -> None:
    store.reload()
    (store.directory / "boat.card").unlink()
    assert store.reload() == ([PeerRemoved("boat")], ())


def test_a_card_that_becomes_unreadable_stays_in_force_and_is_reported(store: Store) -> None:
    store.reload()
    (store.directory / "boat.card").write_text("nonsense\n")
    events, (problem,) = store.reload()
    assert events == [TrustStoreRead((problem,))]
    assert "boat.card" in problem
    assert problem.endswith("the last good card stays in force")
    assert store.reload() == ([], (problem,))
    trust_store.remove(store.directory, "boat")
    assert store.reload() == ([TrustStoreRead(()), PeerRemoved("boat")], ())


def test_a_card_that_was_never_readable_makes_no_peer(store: Store) -> None:
    (store.directory / "boat.card").write_text("nonsense\n")
    events, (problem,) = store.reload()
    assert events == [TrustStoreRead((problem,)), PeerSet(Peer("ship", SHIP))]
    assert "stays in force" not in problem


def test_a_directory_that_cannot_be_read_changes_nothing(store: Store) -> None:
    store.reload()
    store.directory.rename(store.directory.parent / "moved")
    store.directory.write_text("a file in its place")
    events, (problem,) = store.reload()
    assert events == [TrustStoreRead((problem,))]
    assert "peers" in problem
    assert set(store.trust.peers) == {"boat", "ship"}


def test_adding_and_removing_take_effect_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "peers")
    asyncio.run(store.trust.add("boat", BOAT))
    asyncio.run(store.trust.remove("boat"))
    assert store.events == [PeerSet(Peer("boat", BOAT)), PeerRemoved("boat")]


def fleet(directory: Path) -> None:
    """Join a fleet with one member, and take its list."""
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    store = trust_store.fleets
    store.join(directory, Fleet("rescue", raw_public_key(key.public_key())), "", [OWN])
    store.take_members(directory, [fleets.sign_card(key, TRUCK, 1).octets], OWN)
    store.take_list(directory, fleets.sign_list(key, 2, [], None).octets)


def test_a_change_of_one_card_opens_no_other(store: Store) -> None:
    """A file that was changed just now is read again, because its next change may have the same time."""
    (store.directory / f"{'0' * 64}.revoked").write_text("lost")
    (store.directory / "other.card").write_text(cards.render(make_card("other", FAR.public_key)))
    fleet(store.directory)
    settle(store.directory)
    store.reload()
    changes: tuple[tuple[Coroutine[None, None, None], set[str]], ...] = (
        (store.trust.remove("other"), set()),
        (store.trust.add("truck", TRUCK), {"truck.card"}),
        (store.trust.add_next("boat", FAR), {"truck.card", "boat.next"}),
        (store.trust.remove("boat"), {"truck.card", "boat.next"}),
    )
    for change, read in changes:
        with opened(store.directory) as names:
            asyncio.run(change)
        assert names - {"rescue.fleet", "rescue.list"} <= read
    assert set(store.trust.peers) == {"ship", "truck"}


def test_a_change_notices_what_another_program_changed_before(store: Store) -> None:
    """A provisioning tool may write files here without notifying meshsecd."""
    settle(store.directory)
    store.reload()
    (store.directory / "boat.card").unlink()
    (store.directory / "other.card").write_text(cards.render(SHIP))
    (store.directory / f"{FAR.fingerprint.hex()}.revoked").touch()
    with pytest.raises(trust_store.TrustStoreError, match="is revoked"):
        asyncio.run(store.trust.add("far", FAR))
    asyncio.run(store.trust.add("boat", TRUCK))
    assert store.trust.peers["boat"].card == TRUCK
    assert any("also that of peer 'other'" in problem for problem in store.trust.problems)


def test_a_card_is_parsed_once_from_the_request_to_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "peers")
    parsed: list[Card] = []
    parse = cards.parse

    def counted(text: str) -> Card:
        parsed.append(parse(text))
        return parsed[-1]

    monkeypatch.setattr(cards, "parse", counted)
    requests = Requests(cast("Sides", SimpleNamespace(trust=store.trust)), PageRequests(unasked, float, set))
    asyncio.run(requests.answer("peer_add", {"name": "boat", "card": VECTORS[4]["card"]}))
    (event,) = store.events
    assert isinstance(event, PeerSet)
    assert parsed == [BOAT]
    assert event.peer.card is parsed[0]


def test_adding_a_card_reports_others_with_its_name(store: Store) -> None:
    store.reload()
    named_boat = cards.render(replace(TRUCK, name="boat"))
    requests = Requests(cast("Sides", SimpleNamespace(trust=store.trust)), PageRequests(unasked, float, set))
    asyncio.run(requests.answer("peer_add", {"name": "boat", "card": VECTORS[4]["card"]}))
    answer = asyncio.run(requests.answer("peer_add", {"name": "truck", "card": named_boat}))
    assert answer["namesakes"] == ["boat"]
    again = asyncio.run(requests.answer("peer_add", {"name": "boat", "card": VECTORS[4]["card"]}))
    assert again["namesakes"] == ["truck"]


def test_a_refused_card_changes_nothing(store: Store) -> None:
    store.reload()
    with pytest.raises(trust_store.TrustStoreError):
        asyncio.run(store.trust.add("other", BOAT))
    assert store.reload() == ([], ())


def channels(events: list[Event]) -> list[tuple[str, str, str]]:
    """Return for each event its kind, the channel, and the name that people see."""
    return [
        ("set", event.peer.key, event.peer.name) if isinstance(event, PeerSet) else ("removed", event.name, "")
        for event in events
        if isinstance(event, PeerSet | PeerRemoved)
    ]


def test_a_peer_s_next_key_is_a_channel_of_its_own_that_stays_when_the_present_one_ends(store: Store) -> None:
    store.reload()
    trust_store.remove(store.directory, "ship")
    store.reload()
    trust_store.add_next(store.directory, "boat", SHIP, OWN)
    assert channels(store.reload()[0]) == [("set", "boat~", "boat~")]
    trust_store.end(store.directory, "boat", OWN)
    assert channels(store.reload()[0]) == [("removed", "boat", ""), ("set", "boat~", "boat")]


def test_each_key_of_this_node_has_a_channel_to_each_key_of_a_peer(store: Store) -> None:
    events: list[Event] = []
    sides = (Side(OWN, "^"), Side(SHIP, "", "^"))
    trust_store.remove(store.directory, "ship")
    asyncio.run(Trust(store.directory, OWN, events.append, anywhere, sides).reload())
    assert channels(events) == [("set", "boat^", "boat"), ("set", "boat", "boat^")]
    assert [event.peer.own for event in events if isinstance(event, PeerSet)] == [OWN, SHIP]


def test_a_next_key_that_becomes_unreadable_stays_in_force_until_its_peer_goes(store: Store) -> None:
    trust_store.remove(store.directory, "ship")
    trust_store.add_next(store.directory, "boat", SHIP, OWN)
    store.reload()
    (store.directory / "boat.next").write_text("nonsense")
    events, problems = store.reload()
    assert channels(events) == []
    assert "the last good card stays in force" in problems[0]
    trust_store.remove(store.directory, "boat")
    assert sorted(channels(store.reload()[0])) == [("removed", "boat", ""), ("removed", "boat~", "")]


def test_a_revoked_key_goes_at_once_even_if_its_card_has_become_unreadable(store: Store) -> None:
    """The last good card of a peer stays in force, but not one whose key is revoked."""
    store.reload()
    (store.directory / "boat.card").write_text("nonsense")
    store.reload()
    store.events.clear()
    asyncio.run(store.trust.revoke(BOAT.fingerprint.hex(), "stolen"))
    assert [event for event in store.events if isinstance(event, PeerRemoved)] == [PeerRemoved("boat")]
    assert set(store.trust.peers) == {"ship"}
    with pytest.raises(trust_store.TrustStoreError, match="is revoked"):
        asyncio.run(store.trust.add("again", BOAT))
    asyncio.run(store.trust.unrevoke(BOAT.fingerprint.hex()))
    trust_store.remove(store.directory, "boat")
    asyncio.run(store.trust.add("again", BOAT))
    assert set(store.trust.peers) == {"again", "ship"}


CLAIM = IPv4Address("10.77.0.9")
MESH = Surroundings((IPv4Network("10.77.0.0/16"),))
LAN = replace(MESH, elsewhere=(Elsewhere(IPv4Network("10.77.0.0/24"), "eth0"),))


class Judged(Store):
    """A store with one card that claims ``CLAIM``, and the surroundings of its node."""

    def __init__(self, directory: Path, around: Surroundings) -> None:
        super().__init__(directory)
        self.around = around
        self.trust = Trust(directory, OWN, self.events.append, self.poll)
        self.card = make_card(BOAT.name, BOAT.public_key, CLAIM)
        trust_store.add(directory, "boat", self.card, OWN)

    async def poll(self) -> Surroundings:
        return self.around

    def looked(self) -> list[Event]:
        self.events.clear()
        asyncio.run(self.trust.look_around())
        return list(self.events)


def test_an_address_is_believed_or_not_as_the_node_s_networks_come_and_go(tmp_path: Path) -> None:
    store = Judged(tmp_path, MESH)
    assert store.reload()[0] == [PeerSet(Peer("boat", store.card))]
    assert not store.trust.ipv4_doubts
    assert store.looked() == [], "nothing has changed"
    store.around = LAN
    event = store.looked()[0]
    assert isinstance(event, PeerSet)
    assert event.peer.card == replace(store.card, ipv4=None)
    assert "eth0" in event.peer.ipv4_doubt
    assert store.trust.ipv4_doubts == (f"boat: {event.peer.ipv4_doubt}",)
    assert store.looked() == []
    store.around = MESH
    assert store.looked() == [PeerSet(Peer("boat", store.card))], "it was not believed, and not forgotten"


def test_a_last_good_card_is_judged_again_as_well(tmp_path: Path) -> None:
    store = Judged(tmp_path, LAN)
    store.reload()
    (tmp_path / "boat.card").write_text("nonsense\n")
    store.around = MESH
    events, _ = store.reload()
    assert PeerSet(Peer("boat", store.card)) in events


@pytest.mark.parametrize("add", ["add", "add_next"])
def test_a_card_is_not_added_with_an_address_that_would_not_be_believed(add: str, tmp_path: Path) -> None:
    store = Judged(tmp_path, MESH)
    store.reload()
    name, change = "boat" if add == "add_next" else "ship", getattr(store.trust, add)
    public, ours = (make_card(SHIP.name, SHIP.public_key, IPv4Address(one)) for one in ("9.9.9.9", "10.77.0.3"))
    store.around = LAN
    for card, said in ((public, "outside of the mesh; allowed: 10.77.0.0/16"), (ours, "eth0")):
        with pytest.raises(trust_store.TrustStoreError, match=said):
            asyncio.run(change(name, card))
    store.around = MESH
    asyncio.run(change(name, ours))
