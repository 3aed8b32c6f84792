"""The trust store's events: what changed on disk and no more, and the last good state when it cannot be read."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from meshsec.adapters import trust_store
from meshsec.agent.trust import Side, Trust
from meshsec.core import card as cards
from meshsec.core.events import Event, PeerRemoved, PeerSet, TrustStoreRead
from meshsec.core.model import Peer

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "tests/vectors/cards/valid.json").read_text(encoding="utf-8")
)
OWN, BOAT, SHIP = (cards.parse(VECTORS[index]["card"]) for index in (1, 4, 2))


class Store:
    """A trust store on disk and the events that its reloads cause."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.events: list[Event] = []
        self.trust = Trust(directory, OWN, self.events.append)

    def reload(self) -> tuple[list[Event], tuple[str, ...]]:
        self.events.clear()
        problems = asyncio.run(self.trust.reload())
        return list(self.events), problems


@pytest.fixture
def store(tmp_path: Path) -> Store:
    trust_store.add(tmp_path / "peers", "boat", BOAT, OWN)
    trust_store.add(tmp_path / "peers", "ship", SHIP, OWN)
    return Store(tmp_path / "peers")


def test_what_is_there_is_told_once(store: Store) -> None:
    events, problems = store.reload()
    assert sorted(map(str, events)) == sorted(map(str, [PeerSet(Peer("boat", BOAT)), PeerSet(Peer("ship", SHIP))]))
    assert problems == ()
    assert store.reload() == ([], ())


def test_a_file_that_is_gone_takes_the_trust_with_it(store: Store) -> None:
    store.reload()
    (store.directory / "boat.card").unlink()
    assert store.reload() == ([PeerRemoved("boat")], ())


def test_a_card_that_cannot_be_read_any_more_stays_in_force_and_is_told(store: Store) -> None:
    store.reload()
    (store.directory / "boat.card").write_text("nonsense\n")
    events, (problem,) = store.reload()
    assert events == [TrustStoreRead((problem,))]
    assert "boat.card" in problem
    assert problem.endswith("the last good card stays in force")
    assert store.reload() == ([], (problem,))
    trust_store.remove(store.directory, "boat")
    assert store.reload() == ([TrustStoreRead(()), PeerRemoved("boat")], ())


def test_a_card_that_never_could_be_read_is_nobodys(store: Store) -> None:
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


def test_a_refused_card_changes_nothing(store: Store) -> None:
    store.reload()
    with pytest.raises(trust_store.TrustStoreError):
        asyncio.run(store.trust.add("other", BOAT))
    assert store.reload() == ([], ())


def channels(events: list[Event]) -> list[tuple[str, str, str]]:
    """What became of which channel: kind, name and the name that people are shown."""
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
    asyncio.run(Trust(store.directory, OWN, events.append, sides).reload())
    assert channels(events) == [("set", "boat^", "boat"), ("set", "boat", "boat^")]
    assert [event.peer.own for event in events if isinstance(event, PeerSet)] == [OWN, SHIP]


def test_a_next_key_that_cannot_be_read_any_more_stays_in_force_until_its_peer_goes(store: Store) -> None:
    trust_store.remove(store.directory, "ship")
    trust_store.add_next(store.directory, "boat", SHIP, OWN)
    store.reload()
    (store.directory / "boat.next").write_text("nonsense")
    events, problems = store.reload()
    assert channels(events) == []
    assert "the last good card stays in force" in problems[0]
    trust_store.remove(store.directory, "boat")
    assert sorted(channels(store.reload()[0])) == [("removed", "boat", ""), ("removed", "boat~", "")]


def test_a_revoked_key_goes_at_once_even_where_its_card_cannot_be_read_any_more(store: Store) -> None:
    """The last good card of a peer stays in force, but not that of a key which is revoked."""
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
