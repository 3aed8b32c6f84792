"""The fleets' side of the agent: which cards it gives, to whom and when, and what doctor says."""

import asyncio
import socket
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Address
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec.adapters.files import trust_store
from meshsec.adapters.files.trust_store import fleets as store
from meshsec.adapters.sockets import exchange
from meshsec.agent.sides.fleet import OLD_NEWS, FleetSide, checks, holdings, retry_after
from meshsec.agent.sides.trust import Side as OwnSide
from meshsec.agent.sides.trust import Trust
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.ipv4_claims import Surroundings
from meshsec.core.channels.lifecycle import State
from meshsec.core.explain.findings import Level
from meshsec.core.trust import fleets
from meshsec.core.trust.fleet_exchange import Holdings, News
from meshsec.core.trust.fleets import Fleet
from meshsec.core.trust.identity import generate, make_card, public_key_of, raw_public_key
from meshsec.core.values.model import Card

KEY, STRANGE = (Ed25519PrivateKey.from_private_bytes(bytes([octet]) * 32) for octet in (1, 2))
FLEET = Fleet("rescue", raw_public_key(KEY.public_key()))


def _card(name: str, number: int) -> Card:
    seeds = (number.to_bytes(4, "big") + counter.to_bytes(28, "big") for counter in range(100_000))
    return make_card(name, public_key_of(generate(lambda: next(seeds))))


async def anywhere() -> Surroundings:
    """Return surroundings in which every IPv4 address may be a peer's."""
    return Surroundings((IPv4Network("0.0.0.0/0"),))


OWN, BOAT, SHIP = (_card(name, at) for at, name in enumerate(("own", "boat", "ship")))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store.join(tmp_path / "peers", FLEET, fleets.card_text(fleets.sign_card(KEY, OWN, 1, 1000)), [OWN])
    return tmp_path / "peers"


def listed(number: int, *revoked: Card) -> bytes:
    return fleets.sign_list(KEY, number, {card.fingerprint for card in revoked}, None).octets


def verdict(directory: Path, own: Card = OWN) -> tuple[Level, str]:
    trust = Trust(directory, own, lambda _: None, anywhere)
    asyncio.run(trust.reload())
    (check,) = checks(trust)
    return check.level, check.found


def test_doctor_reports_the_state_of_a_fleet(directory: Path) -> None:
    assert verdict(directory) == (Level.OK, "0 peers by its signature; no list yet; member")
    store.take_members(directory, [fleets.sign_card(KEY, BOAT, 1).octets], OWN)
    store.take_list(directory, listed(10, SHIP))
    assert verdict(directory) == (
        Level.OK,
        "1 peers by its signature; list of 1970-01-01 00:00:10 UTC, 1 keys revoked; member",
    )
    store.take_list(directory, listed(1001))
    assert verdict(directory)[0] is Level.WARN
    store.take_list(directory, listed(1002, OWN))
    assert verdict(directory) == (Level.FAIL, "this node's own key is revoked: its peers refuse it")
    (directory / "rescue.list").write_text("nonsense")
    assert "cannot be read" in verdict(directory)[1]


def test_doctor_says_when_the_signed_card_is_not_the_nodes_any_more(directory: Path) -> None:
    """Doctor warns after a change of the IKE daemon, because peers would authenticate in another way."""
    level, found = verdict(directory, replace(OWN, by_secret=True))
    assert level is Level.WARN
    assert "has changed since it was signed" in found


def test_doctor_says_when_a_key_of_the_node_is_not_signed(directory: Path) -> None:
    """Peers that know the node by its fleet alone refuse a key that is not signed."""
    level, found = verdict(directory, BOAT)
    assert (level, found) == (Level.WARN, "a key of this node is not signed: peers know it by another alone")
    trust = Trust(directory, OWN, lambda _: None, anywhere, (OwnSide(), OwnSide(BOAT, "~", "^")))
    asyncio.run(trust.reload())
    assert [check.found for check in checks(trust)] == [found]


def test_cards_that_have_ended_or_are_revoked_are_not_given(directory: Path) -> None:
    signed = {card.name: fleets.sign_card(KEY, card, 1, until) for card, until in ((BOAT, 0), (SHIP, 500))}
    store.take_members(directory, [one.octets for one in signed.values()], OWN)
    own = store.read(directory).memberships[FLEET.public_key].of(OWN)
    assert own is not None
    for number, revoked, given in ((10, (), {"boat", "ship"}), (501, (), {"boat"}), (502, (BOAT,), set())):
        store.take_list(directory, listed(number, *revoked))
        found = holdings(store.read(directory), [OWN])[FLEET.public_key]
        assert set(found.cards.values()) == {own.octets, *(signed[name].octets for name in given)}
        assert found.number == number


def test_a_revoked_key_stays_out_while_the_list_cannot_be_read(directory: Path) -> None:
    trust = Trust(directory, OWN, lambda _: None, anywhere)
    trust_store.add(directory, "by-hand", BOAT, OWN)
    store.take_list(directory, listed(10, BOAT))
    asyncio.run(trust.reload())
    (directory / "rescue.list").write_text("nonsense")
    assert "rescue.list" in "".join(asyncio.run(trust.reload()))
    assert trust.peers == {}
    store.take_list(directory, listed(11))
    asyncio.run(trust.reload())
    assert set(trust.peers) == {"by-hand"}


class Side:
    """A fleet's side whose exchanges are recorded instead of carried out."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, gives: News) -> None:
        self.asked: asyncio.Queue[IPv6Address] = asyncio.Queue()
        self.gives = gives
        self.numbers: Mapping[bytes, int] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.trust = Trust(directory, OWN, lambda _: None, anywhere)
        self.side = FleetSide(IPv6Address("::1"), self.trust, self._spawn)
        monkeypatch.setattr(exchange, "PORT", 0)
        monkeypatch.setattr(exchange, "exchange", self._exchange)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _exchange(
        self, _own: IPv6Address, peer: IPv6Address, _mine: Holdings
    ) -> tuple[Mapping[bytes, int], News]:
        self.asked.put_nowait(peer)
        gives, self.gives = self.gives, News((), ())
        return self.numbers, gives

    async def next(self) -> IPv6Address:
        return await asyncio.wait_for(self.asked.get(), 60)


def test_an_exchange_that_failed_is_repeated_soon_and_then_more_and_more_rarely() -> None:
    assert [retry_after(failures) for failures in (1, 2, 3, 4, 5, 100_000)] == [5, 10, 20, 40, 60, 60]


def channel(card: Card, state: State) -> Channel:
    made = Channel(card.name, 0.0)
    made.card, made.state, made.title = card, state, card.name
    return made


SELF, NEXT_SELF = (replace(OWN, address=IPv6Address(text)) for text in ("::1", "::2"))
"""The card of a side that a test made, and that of its next key."""
_TWO_KEYS = (
    (BOAT, State.PROTECTED),
    (BOAT, State.FAILED),
    (SHIP, State.WAITING),
    (SHIP, State.PROTECTED),
)
"""Each peer's channels by the present key and by the next one."""


def running(work: Coroutine[Any, Any, None], side: FleetSide) -> Coroutine[Any, Any, None]:
    async def both() -> None:
        task = asyncio.ensure_future(side.run())
        try:
            await work
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return both()


def test_a_peer_that_comes_into_reach_is_asked_and_its_news_is_passed_on_at_once(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        made = Side(directory, monkeypatch, News((listed(10),), ()))

        async def work() -> None:
            await made.trust.reload()
            made.side.follow([channel(BOAT, State.PROTECTED), channel(SHIP, State.WAITING)])
            assert await made.next() == BOAT.address
            assert await made.next() == BOAT.address, "it gave a list, which goes to all in reach"
            made.side.follow([channel(BOAT, State.PROTECTED), channel(SHIP, State.PROTECTED)])
            assert await made.next() == SHIP.address

        await running(work(), made.side)
        listing = store.read(directory).memberships[FLEET.public_key].list
        assert listing is not None
        assert listing.number == 10

    asyncio.run(run())


def test_a_program_on_the_fleet_port_is_named_and_exchanges_still_begin(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        with socket.socket(socket.AF_INET6) as stranger:
            stranger.bind(("::1", 0))
            stranger.listen()
            made = Side(directory, monkeypatch, News((), ()))
            monkeypatch.setattr(exchange, "PORT", stranger.getsockname()[1])

            async def work() -> None:
                await made.trust.reload()
                made.side.follow([channel(BOAT, State.PROTECTED)])
                assert await made.next() == BOAT.address
                (check,) = made.side.checks()
                assert (check.level, str(exchange.PORT) in check.fix) == (Level.WARN, True)

            assert made.side.checks() == []
            await running(work(), made.side)

    asyncio.run(run())


def test_a_peer_that_gives_old_news_again_and_again_is_not_listened_to(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several peers give one list while it spreads, which is no reason."""

    async def run() -> None:
        made = Side(directory, monkeypatch, News((), ()))
        await made.trust.reload()
        made.side.follow([channel(BOAT, State.PROTECTED), channel(SHIP, State.PROTECTED)])
        await made.side._take(BOAT.address, News((listed(10),), ()))
        for _ in range(OLD_NEWS):
            await made.side._take(BOAT.address, News((listed(5),), ()))
            assert made.side._admits(BOAT.address)
        await made.side._take(BOAT.address, News((listed(5),), ()))
        assert (made.side._admits(BOAT.address), made.side._admits(SHIP.address)) == (False, True)

    asyncio.run(run())


def test_which_lists_a_peer_has_is_what_it_said_last_while_it_is_in_reach(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        made = Side(directory, monkeypatch, News((listed(10),), ()))
        made.numbers = {FLEET.public_key: 9, bytes(32): 0}

        async def work() -> None:
            await made.trust.reload()
            made.side.follow([channel(BOAT, State.PROTECTED), channel(SHIP, State.WAITING)])
            for _ in range(2):
                await made.next()
            await asyncio.gather(*made.tasks)
            fleet = FLEET.public_key.hex()
            assert made.side.view() == {
                "schema": "meshsec-fleets-1",
                "lists": {fleet: 10},
                "peers": [{"peer": "boat", "lists": {fleet: 9}}],
            }
            for state in (State.WAITING, State.PROTECTED):
                made.side.follow([channel(BOAT, state)])
            assert made.side.view()["peers"] == [{"peer": "boat", "lists": {}}], "it may have lost it meanwhile"

        await running(work(), made.side)

    asyncio.run(run())


def test_a_node_that_uses_two_keys_asks_by_the_present_one(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next key may have no channel yet, because peers may learn of it by this exchange alone."""

    async def run() -> None:
        made = Side(directory, monkeypatch, News((), ()))

        async def work() -> None:
            await made.trust.reload()
            channels = [channel(card, state) for card, state in _TWO_KEYS]
            for one, own in zip(channels, (SELF, NEXT_SELF, SELF, NEXT_SELF), strict=True):
                one.own = own
            made.side.follow(channels)
            assert await made.next() == BOAT.address
            await asyncio.gather(*made.tasks)
            assert made.asked.empty(), "the ship is protected by the next key alone"

        await running(work(), made.side)

    asyncio.run(run())


def test_a_peer_that_gives_an_unsigned_card_is_not_listened_to(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        forged = fleets.sign_card(STRANGE, SHIP, 1).octets
        made = Side(directory, monkeypatch, News((), (forged,)))
        admits = made.side._admits

        async def work() -> None:
            await made.trust.reload()
            made.side.follow([channel(BOAT, State.PROTECTED), channel(SHIP, State.WAITING)])
            assert (admits(BOAT.address), admits(SHIP.address), admits(OWN.address)) == (True, True, False)
            await made.next()
            await asyncio.gather(*made.tasks)
            assert (admits(BOAT.address), admits(SHIP.address)) == (False, True)

        await running(work(), made.side)
        assert store.read(directory).members == {}

    asyncio.run(run())
