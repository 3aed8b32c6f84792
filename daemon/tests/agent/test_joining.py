"""A member's side of joining: whom it answers, what it keeps for its operator, and when it is silent."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec.adapters.files.trust_store import fleets as store
from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control.join_requests import JoinMethods
from meshsec.agent.sides import joining as joining_side
from meshsec.agent.sides import joining_view
from meshsec.agent.sides.clear_port import ClearPort
from meshsec.agent.sides.joining import JoiningSide
from meshsec.agent.sides.joining import Surroundings as Around
from meshsec.agent.sides.keys import Keys
from meshsec.agent.sides.trust import Trust
from meshsec.core.channels.ipv4_claims import Surroundings
from meshsec.core.explain.findings import Level
from meshsec.core.trust import card as cards
from meshsec.core.trust import fleets, joining
from meshsec.core.trust.fingerprint_words import first_octets
from meshsec.core.trust.fleets import Fleet
from meshsec.core.trust.identity import generate, make_card, public_key_of, raw_public_key
from meshsec.core.trust.join_requests import ASK_AGAIN, ASK_GAP, CHECKS_BURST
from meshsec.core.trust.joining import NO_COOKIE, Approval, Cookie, Found, Receipt, Search, Standing
from meshsec.core.values.model import Card, Network, Route
from meshsec.core.values.routes import RouteTable

KEY = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)
FLEET = Fleet("rescue", raw_public_key(KEY.public_key()))


def _seed(number: int) -> bytes:
    seeds = (number.to_bytes(4, "big") + counter.to_bytes(28, "big") for counter in range(100_000))
    return generate(lambda: next(seeds))


OWN = make_card("own", public_key_of(_seed(0)))
NEW_SEED = _seed(1)
NEW = make_card("new", public_key_of(NEW_SEED))


NETWORKS = (ip_network("10.9.0.0/16"), ip_network("2001:db8::/32"))


class Sent(ClearPort):
    """Takes what the side sends, in the place of the port."""

    def __init__(self) -> None:
        super().__init__(OWN.address, self._in_force)
        self.octets: list[bytes] = []

    async def _in_force(self, _seconds: float) -> bool:
        return True

    def send(self, address: IPv6Address, octets: bytes) -> None:
        del address
        self.octets.append(octets)

    def last(self) -> Any:
        """Return the last message and forget it; None if there is none."""
        return joining.decode(self.octets.pop()) if self.octets else None


class Member:
    """The side of a member, with a route to the new node."""

    def __init__(self, directory: Path) -> None:
        self.networks: tuple[Network, ...] = NETWORKS
        self.routes = routes = RouteTable()
        routes.put(Route(IPv6Network(NEW.address), IPv6Address("fe80::2"), "mesh0", 2, 1))
        self.trust = Trust(directory, OWN, lambda _: None, self._anywhere)
        self.sent = Sent()
        self.spawned: list[asyncio.Future[None]] = []
        around = Around(
            OWN,
            lambda: replace(OWN, networks=self.networks),
            OWN.address,
            Keys(directory / "node.key"),
            routes,
            self.sent,
            self._spawn,
        )
        self.side = JoiningSide(around, self.trust)

    async def _anywhere(self) -> Surroundings:
        return Surroundings((IPv4Network("0.0.0.0/0"),))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self.spawned.append(asyncio.ensure_future(work))

    def asked(self, cookie: bytes | None = None, sender: IPv6Address = NEW.address, seed: bytes = NEW_SEED) -> Any:
        """Return the answer to a new node's request, by default with the cookie that it gets first."""
        if cookie is None:
            said = self.asked(NO_COOKIE, sender, seed)
            if not isinstance(said, Cookie):
                return said
            cookie = said.cookie
        card = make_card("new", public_key_of(seed))
        key = Ed25519PrivateKey.from_private_bytes(seed)
        self.side.heard(sender, joining.request(key, card, FLEET.public_key, cookie))
        return self.sent.last()

    def asked_by(self, seed: bytes, via: str) -> Any:
        """Return the answer to another node, which is reached through a neighbour."""
        address = make_card("new", public_key_of(seed)).address
        self.routes.put(Route(IPv6Network(address), IPv6Address(via), "mesh0", 2, 1))
        return self.asked(sender=address, seed=seed)


def run(directory: Path, work: Callable[[Member], Awaitable[None]]) -> None:
    async def begun() -> None:
        member = Member(directory)
        await member.trust.reload()
        await work(member)

    asyncio.run(begun())


def take_list(directory: Path, number: int, *revoked: Card) -> None:
    listed = fleets.sign_list(KEY, number, {card.fingerprint for card in revoked}, None)
    store.take_list(directory, listed.octets)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store.join(tmp_path / "peers", FLEET, fleets.card_text(fleets.sign_card(KEY, OWN, 1, 1000)), [OWN])
    return tmp_path / "peers"


def test_a_request_is_kept_and_answered_by_an_approval_once_the_fleet_has_signed(directory: Path) -> None:
    async def work(member: Member) -> None:
        assert isinstance(member.asked(NO_COOKIE), Cookie)
        assert joining_view.requests(member.side) == [], "nothing is kept of who has proved nothing"
        assert member.asked().standing is Standing.WAITING
        (shown,) = joining_view.requests(member.side)
        assert (shown["name"], shown["via"], shown["namesake"]) == ("new", "fe80::2", None)
        (check,) = joining_view.checks(member.side)
        assert (check.level, check.found) == (Level.OK, "1 wait: new")
        signed = fleets.sign_card(KEY, NEW, 1)
        await member.side.approve(signed)
        assert joining_view.requests(member.side) == []
        await asyncio.sleep(0.05)
        own = member.trust.joined.memberships[FLEET.public_key].of(OWN)
        assert own is not None
        for said in (member.sent.last(), member.asked()):
            assert isinstance(said, Approval)
            assert (said.own, said.member) == (signed.octets, own.octets)

    run(directory, work)


def test_a_refused_node_is_told_so_until_it_is_approved(directory: Path) -> None:
    async def work(member: Member) -> None:
        assert isinstance(member.asked(), Receipt)
        member.side.requests.refuse(NEW.fingerprint)
        assert member.asked().standing is Standing.REFUSED
        assert joining_view.requests(member.side) == []
        member.side.requests.allow(NEW.fingerprint)
        assert member.asked().standing is Standing.WAITING

    run(directory, work)


def test_new_keys_through_one_neighbour_are_checked_at_a_rate_that_leaves_others_theirs(directory: Path) -> None:
    seeds = [_seed(number) for number in range(10, 40)]  # takes seconds, in which the rate would allow more

    async def work(member: Member) -> None:
        answers = [member.asked_by(seed, "fe80::2") for seed in seeds]
        assert int(CHECKS_BURST) <= sum(isinstance(one, Receipt) for one in answers) < len(answers)
        assert isinstance(member.asked_by(_seed(40), "fe80::3"), Receipt)

    run(directory, work)


def test_a_revoked_key_is_not_kept(directory: Path) -> None:
    async def work(member: Member) -> None:
        assert isinstance(member.asked(), Receipt)
        take_list(directory, 10, NEW)
        await member.trust.reload()
        assert joining_view.requests(member.side) == []
        assert member.asked() is None
        assert joining_view.requests(member.side) == []

    run(directory, work)


@pytest.mark.parametrize("ends", ["revoked", "late", "damaged", "left"])
def test_who_is_no_member_any_more_is_silent(directory: Path, ends: str) -> None:
    async def work(member: Member) -> None:
        assert isinstance(member.asked(), Receipt)
        take_list(directory, 1001 if ends == "late" else 10, *([OWN] if ends == "revoked" else []))
        if ends == "damaged":
            (directory / "rescue.list").write_text("nonsense")
        if ends == "left":
            store.leave(directory, "rescue")
        await member.trust.reload()
        assert member.asked(NO_COOKIE) is None
        assert member.asked(bytes(16)) is None

    run(directory, work)


def test_an_address_without_a_route_gets_no_answer(directory: Path) -> None:
    async def work(member: Member) -> None:
        assert member.asked(NO_COOKIE, IPv6Address("fc00::1")) is None
        assert member.asked(NO_COOKIE, OWN.address) is None

    run(directory, work)


WORDS = first_octets(FLEET.fingerprint)


def test_a_member_gives_its_fleet_to_who_has_the_words_and_a_cookie(directory: Path) -> None:
    async def work(member: Member) -> None:
        def searched(sought: bytes, cookie: bytes) -> Any:
            member.side.heard(NEW.address, joining.encode(Search(sought, cookie)))
            return member.sent.last()

        assert searched(bytes(9), NO_COOKIE) is None
        cookie = searched(WORDS, NO_COOKIE).cookie
        assert searched(bytes(9), cookie) is None
        assert isinstance(searched(WORDS, bytes(16)), Cookie)
        assert searched(WORDS, cookie) == Found(cookie, fleets.fleet_octets(FLEET))
        take_list(directory, 10, OWN)
        await member.trust.reload()
        assert searched(WORDS, cookie) is None, "it is no member any more"

    run(directory, work)


@pytest.mark.parametrize("seeks", [True, False])
def test_a_fleet_is_joined_if_its_key_has_the_words_that_the_operator_said(tmp_path: Path, *, seeks: bool) -> None:
    directory, strange = tmp_path / "peers", replace(FLEET, public_key=NEW.public_key)
    directory.mkdir()
    if seeks:
        store.seek(directory, WORDS)

    async def work(member: Member) -> None:
        side = member.side
        side.asking.next([NEW.address], 0.0)
        assert side.asking.heard_cookie(NEW.address, bytes([7]) * 16, 0.0)

        async def heard(fleet: bytes, cookie: bytes = bytes([7]) * 16) -> bool:
            side.heard(NEW.address, joining.encode(Found(cookie, fleet)))
            await asyncio.gather(*member.spawned)
            return FLEET.public_key in member.trust.joined.memberships

        for bad in (fleets.fleet_octets(strange), fleets.fleet_octets(FLEET)[:-1] + b"\0", bytes(69)):
            assert not await heard(bad)
        assert not await heard(fleets.fleet_octets(FLEET), bytes([8]) * 16), "nobody was asked with that cookie"
        assert await heard(fleets.fleet_octets(FLEET)) is seeks
        assert len(member.trust.joined.memberships) == seeks
        assert member.trust.joined.sought == b""

    run(directory, work)


OTHERS = [IPv6Address(f"fc00::{number:x}") for number in range(1, 4)]
"""Nodes that answer, too, and prove nothing."""


def answered(side: JoiningSide, cookie: bytes, *senders: IPv6Address) -> None:
    """Ask nodes, each of which gives this cookie."""
    for _ in senders:
        side.asking.next(senders, 0.0)
    assert all(side.asking.heard_cookie(one, cookie, 0.0) for one in senders)


def test_answers_that_prove_nothing_keep_no_others_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all senders, each waits after such an answer, and their number is bounded."""
    monkeypatch.setattr(joining_side, "_ADMIT_GAP", 1000.0)
    monkeypatch.setattr(joining_side, "_ADMITTING_MAX", len(OTHERS) + 1)
    store.join(tmp_path / "peers", FLEET, "", [OWN])
    cookie, strange = bytes([7]) * 16, Ed25519PrivateKey.from_private_bytes(bytes([2]) * 32)

    async def work(member: Member) -> None:
        side = member.side

        def approve(sender: IPv6Address, key: Ed25519PrivateKey) -> int:
            own, other = (fleets.sign_card(key, card, 1).octets for card in (OWN, NEW))
            side.heard(sender, joining.encode(Approval(cookie, own, other)))
            return len(member.spawned)

        answered(side, cookie, *OTHERS, NEW.address, OWN.address)
        for number, sender in enumerate(OTHERS, 1):
            assert approve(sender, strange) == number
            assert approve(sender, KEY) == number, "it has to wait"
        assert approve(NEW.address, KEY) == len(OTHERS) + 1
        await asyncio.wait_for(member.spawned[-1], 10)
        assert side.waiting() == []
        assert approve(NEW.address, KEY) == len(OTHERS) + 2
        assert approve(OWN.address, KEY) == len(OTHERS) + 2, "there are too many"
        for one in member.spawned:
            one.cancel()

    run(tmp_path / "peers", work)


def test_strangers_cannot_fill_the_log_with_a_fleet_that_cannot_be_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(joining_side, "_ADMIT_GAP", 0.0)
    directory, cookie = tmp_path / "peers", bytes([7]) * 16
    for name in ("rescue", "ships"):
        store.join(directory, Fleet(name, make_card(name, public_key_of(_seed(len(name)))).public_key), "", [OWN])
    store.seek(directory, WORDS)

    async def work(member: Member) -> None:
        answered(member.side, cookie, NEW.address)
        for name in ("rescue", "ships", "rescue"):
            member.side.heard(
                NEW.address, joining.encode(Found(cookie, fleets.fleet_octets(replace(FLEET, name=name))))
            )
            await member.spawned[-1]
        (warning,) = [one for one in caplog.records if one.levelname == "WARNING" and "has the words" in one.message]
        assert "there is a fleet 'rescue' with another key" in warning.message

    run(directory, work)


def test_a_node_that_looks_for_a_fleet_says_so(tmp_path: Path) -> None:
    directory = tmp_path / "peers"
    directory.mkdir()
    store.seek(directory, WORDS)

    async def work(member: Member) -> None:
        assert member.trust.joined.talks, "so that the rules let its searches pass"
        (standing,) = joining_view.standing(member.side)
        assert standing["fleet"] == ""
        (check,) = joining_view.checks(member.side)
        assert " ".join(standing["sought"]) in check.found
        member.side._reachable = [NEW.address]
        member.side._look_at = float("inf")
        member.side._ask()
        assert member.sent.last() == Search(WORDS, NO_COOKIE)
        (directory / "fleet.sought").write_text("nonsense")
        await member.trust.reload()
        (problem,) = member.trust.problems
        assert "'nonsense'; allowed: 18 hexadecimal digits" in problem

    run(directory, work)


def test_a_node_with_the_fleets_key_approves_itself(tmp_path: Path) -> None:
    directory = tmp_path / "peers"
    store.join(directory, FLEET, "", [OWN])

    async def work(member: Member) -> None:
        (shown,) = joining_view.requests(member.side)
        assert (shown["name"], shown["via"]) == ("own", None)
        assert shown["networks"] == [*map(str, NETWORKS)]
        member.networks = NETWORKS[:1]
        (shown,) = joining_view.requests(member.side)
        assert shown["networks"] == [str(NETWORKS[0])], "the operator has chosen otherwise since the start"
        (standing,) = joining_view.standing(member.side)
        assert standing["words"] == shown["words"]
        (check,) = joining_view.checks(member.side)
        assert " ".join(shown["words"]) in check.found
        assert member.asked(NO_COOKIE) is None, "it is no member yet"
        await member.side.approve(fleets.sign_card(KEY, OWN, 1))
        assert joining_view.requests(member.side) == []
        assert joining_view.standing(member.side) == []
        assert isinstance(member.asked(), Receipt)

    run(directory, work)


def test_a_request_under_the_name_of_another_node_is_shown_as_such(directory: Path) -> None:
    other = make_card("new", public_key_of(_seed(2)))
    store.take_members(directory, [fleets.sign_card(KEY, other, 1).octets], OWN)

    async def work(member: Member) -> None:
        assert isinstance(member.asked(), Receipt)
        (shown,) = joining_view.requests(member.side)
        assert shown["namesake"] == str(other.address)

    run(directory, work)


@pytest.mark.parametrize("name", ["new", "own"])
def test_a_card_with_the_name_of_another_node_is_not_approved(directory: Path, name: str) -> None:
    """The control: the same key again, as the fleet has it, and a name that nobody has."""
    member_card = fleets.sign_card(KEY, NEW, 1)
    store.take_members(directory, [member_card.octets], OWN)

    async def work(member: Member) -> None:
        methods = JoinMethods(cast("Any", SimpleNamespace(trust=member.trust, joining=member.side))).methods
        clone = make_card(name, public_key_of(_seed(2)))
        signed = fleets.card_text(fleets.sign_card(KEY, clone, 2))
        for method, params in (("join_check", {"card": cards.render(clone)}), ("join_approve", {"signed": signed})):
            with pytest.raises(
                ControlError, match=f"^{name} .*another node.*meshsec.toml.*meshsec up.*meshsec fleet sign"
            ):
                await methods[method](params)
        assert {one.card.address for one in member.trust.joined.members.values()} == {NEW.address}
        again = fleets.card_text(fleets.sign_card(KEY, NEW, 3))
        assert await methods["join_approve"]({"signed": again}) == {"address": str(NEW.address)}
        free = make_card("free", public_key_of(_seed(2)))
        assert await methods["join_check"]({"card": cards.render(free)}) == {"address": str(free.address)}

    run(directory, work)


@pytest.mark.parametrize(("strangers", "is_kept"), [(3, False), (int(ASK_AGAIN / ASK_GAP), True), (16384, True)])
def test_many_routes_are_looked_through_once_before_a_node_is_asked_again(
    directory: Path, strangers: int, is_kept: bool
) -> None:
    """The control: of a small mesh each look takes the routes as they are."""

    async def work(member: Member) -> None:
        for number in range(strangers):
            address = IPv6Address((0xFC << 120) + number + 1)
            member.routes.put(Route(IPv6Network(address), IPv6Address("fe80::3"), "mesh0", 9, 9))
        side, walks = member.side, 0
        begun = asyncio.get_running_loop().time()

        class Counted(RouteTable):
            def __iter__(self) -> Iterator[Route]:
                nonlocal walks
                walks += 1
                return iter(member.routes)

        side._around = replace(side._around, routes=Counted())
        for _ in range(5):
            side._ask()
        assert side._reachable[0] == NEW.address, "the nearest first"
        assert walks == (1 if is_kept else 5)
        side._look_at -= ASK_AGAIN + asyncio.get_running_loop().time() - begun
        side._ask()
        assert walks == (2 if is_kept else 6)

    run(directory, work)
