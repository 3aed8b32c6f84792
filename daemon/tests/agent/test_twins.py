"""Two nodes with one key, a peer of theirs, and a wire on which packets to the address reach one of the two."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec.adapters.files import key_store, lives
from meshsec.agent.sides import twins as side
from meshsec.agent.sides.clear_port import ClearPort
from meshsec.agent.sides.keys import Keys
from meshsec.agent.sides.twins import TwinsSide
from meshsec.core.channels.lifecycle import State
from meshsec.core.trust import twins
from meshsec.core.trust.identity import make_card
from meshsec.core.trust.twins import Claim, Denial, Question
from meshsec.core.values.model import Card, EspBackend
from meshsec.files import FileError

Scenario = Callable[["Mesh"], Coroutine[Any, Any, None]]


class Port(ClearPort):
    """Keeps what is sent until the test delivers it."""

    def __init__(self) -> None:
        super().__init__(IPv6Address("fc00::1"), self._in_force)
        self.sent: list[bytes] = []
        self.has_sent = asyncio.Event()
        self.open.set()

    async def _in_force(self, _seconds: float) -> bool:
        return True

    def send(self, address: IPv6Address, octets: bytes) -> None:
        """Keep a datagram."""
        del address
        self.sent.append(octets)
        self.has_sent.set()

    def last(self) -> bytes:
        """Return the last datagram, and forget it."""
        return self.sent.pop()


@dataclass
class Node:
    """One meshsecd."""

    card: Card
    key: Path

    def start(self, peer: Card) -> None:
        """Begin a life."""
        self.channel = SimpleNamespace(card=peer, own=None, state=State.PROTECTED, route=object(), title="peer")
        known = SimpleNamespace(node=self.card, backend=EspBackend.KERNEL, channels=lambda: [self.channel])
        self.port = Port()
        self.side = TwinsSide(self.port, Keys(self.key), cast("Any", known))

    async def claim(self) -> bytes:
        """Ask the peer in vain, and return the claim."""
        self.channel.state = State.FAILED
        self.side.follow()
        task = asyncio.create_task(self.side.run())
        self.port.has_sent.clear()
        async with asyncio.timeout(10):
            await self.port.has_sent.wait()
        task.cancel()
        return self.port.last()


class Mesh:
    """The nodes ``one`` and ``copy`` have one key; ``peer`` has another."""

    def __init__(self, directory: Path) -> None:
        self.one, self.copy, self.peer = (self._node(directory / name) for name in ("one", "copy", "peer"))
        for name in ("node.key", "node.pub"):
            self.copy.key.with_name(name).write_bytes(self.one.key.with_name(name).read_bytes())
        self.copy.card = self.one.card
        self.one.start(self.peer.card)
        self.copy.start(self.peer.card)
        self.peer.start(self.one.card)

    @staticmethod
    def _node(directory: Path) -> Node:
        directory.mkdir()
        key_store.create(directory / "node.key")
        return Node(make_card("node", key_store.load(directory / "node.key").public_key), directory / "node.key")

    def heard(self, octets: bytes) -> list[bytes]:
        """Give the peer a datagram from the address of the two. Return what it sends."""
        self.peer.port.sent.clear()
        self.peer.side.heard(self.one.card.address, octets)
        return self.peer.port.sent

    def answered(self, node: Node, octets: bytes) -> list[bytes]:
        """Give one of the two a datagram from the peer's address. Return what it sends."""
        node.port.sent.clear()
        node.side.heard(self.peer.card.address, octets)
        return node.port.sent

    def is_doubled(self) -> bool:
        """Return whether the peer believes that there are two."""
        return self.peer.side.is_doubled(self.one.card)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Scenario], None]:
    for name in ("PATIENCE", "_POLL", "ASK_AGAIN"):
        monkeypatch.setattr(side, name, 0.01)

    def run(scenario: Scenario) -> None:
        async def begun() -> None:
            await scenario(Mesh(tmp_path))

        asyncio.run(begun())

    return run


def test_a_claim_of_the_copy_is_denied_by_the_other_and_believed(play: Callable[[Scenario], None]) -> None:
    async def scenario(mesh: Mesh) -> None:
        (question,) = mesh.heard(await mesh.copy.claim())
        assert not mesh.is_doubled()
        (denial,) = mesh.answered(mesh.one, question)
        assert mesh.one.side.is_doubled(mesh.one.card), "so that the node itself can say so"
        assert mesh.heard(denial) == []
        assert mesh.is_doubled()
        assert not mesh.peer.side.is_doubled(mesh.peer.card)

    play(scenario)


def test_a_node_knows_its_own_claim_after_any_number_of_starts(play: Callable[[Scenario], None]) -> None:
    async def scenario(mesh: Mesh) -> None:
        claim = await mesh.one.claim()
        for _ in range(3):
            (question,) = mesh.heard(claim)
            assert mesh.answered(mesh.one, question) == []
            mesh.one.start(mesh.peer.card)
            await asyncio.sleep(0.02)
        await mesh.one.claim()
        (question,) = mesh.heard(claim)
        assert mesh.answered(mesh.one, question) == []
        assert len(lives.read(mesh.one.key)) == 2, "a life is written down once, and only if it claims"
        assert not mesh.one.side.is_doubled(mesh.one.card)

    play(scenario)


def test_nobody_without_the_key_makes_the_peer_ask_or_believe(play: Callable[[Scenario], None]) -> None:
    strange = Ed25519PrivateKey.generate()

    async def scenario(mesh: Mesh) -> None:
        claim = await mesh.copy.claim()
        here, life = mesh.peer.card.address, bytes(16)
        assert mesh.heard(twins.claim(strange, here, life)) == []
        assert mesh.heard(claim[:-1] + bytes([claim[-1] ^ 1])) == []
        assert mesh.heard(claim[:20] + bytes(14) + claim[34:]) == [], "another life"
        mesh.peer.side.heard(IPv6Address("fc00::9"), claim)
        assert mesh.peer.port.sent == [], "from nobody's address"
        (octets,) = mesh.heard(claim)
        question = twins.decode(octets)
        assert isinstance(question, Question)
        mesh.heard(twins.denial(strange, question))
        (denial,) = mesh.answered(mesh.one, octets)
        for place in (5, 20, 40):
            mesh.heard(denial[:place] + bytes([denial[place] ^ 1]) + denial[place + 1 :])
        assert not mesh.is_doubled()
        await asyncio.sleep(0.02)
        mesh.heard(claim)
        mesh.heard(denial)
        assert not mesh.is_doubled(), "the denial of an earlier question"

    play(scenario)


def test_a_claim_that_was_made_to_another_peer_is_ignored(play: Callable[[Scenario], None]) -> None:
    async def scenario(mesh: Mesh) -> None:
        key = key_store.load(mesh.copy.key).private
        assert mesh.heard(twins.claim(key, IPv6Address("fc00::9"), bytes(16))) == []
        assert mesh.heard(twins.claim(key, mesh.peer.card.address, bytes(16)))

    play(scenario)


def test_a_node_signs_nothing_for_what_its_key_has_not_signed(play: Callable[[Scenario], None]) -> None:
    async def scenario(mesh: Mesh) -> None:
        forged = twins.decode(twins.claim(Ed25519PrivateKey.generate(), mesh.peer.card.address, bytes(16)))
        assert isinstance(forged, Claim)
        assert mesh.answered(mesh.one, twins.question(bytes(16), forged)) == []
        assert not mesh.one.side.is_doubled(mesh.one.card)

    play(scenario)


def test_a_node_that_cannot_know_its_lives_neither_claims_nor_denies(play: Callable[[Scenario], None]) -> None:
    async def scenario(mesh: Mesh) -> None:
        path = mesh.one.key.with_name(lives.NAME)
        (question,) = mesh.heard(await mesh.copy.claim())
        path.write_text("no life\n")
        assert mesh.answered(mesh.one, question) == []
        mesh.one.side._claim(mesh.peer.card.address)
        assert mesh.one.port.sent == []
        (check,) = mesh.one.side.checks()
        assert f"{path}:1: 'no life'; allowed: 32 hexadecimal digits. `rm {path}`" in check.found

    play(scenario)


def test_questions_and_signatures_are_bounded(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(mesh: Mesh) -> None:
        claim = await mesh.copy.claim()
        monkeypatch.setattr(side, "ASK_AGAIN", 3600.0)
        assert len(mesh.heard(claim)) == 1
        assert mesh.heard(claim) == [], "anybody can repeat it"
        checked = []
        monkeypatch.setattr(twins, "check", lambda *one: checked.append(one))
        monkeypatch.setattr(side, "ASK_AGAIN", 0.0)
        for _ in range(1000):
            mesh.heard(claim)
        assert side.BURST / 2 < len(checked) < 2 * side.BURST

    play(scenario)


def test_a_proof_is_forgotten_when_nothing_renews_it(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(mesh: Mesh) -> None:
        (question,) = mesh.heard(await mesh.copy.claim())
        mesh.heard(*mesh.answered(mesh.one, question))
        assert mesh.is_doubled()
        monkeypatch.setattr(side, "REMEMBERED", 0.0)
        await asyncio.sleep(0.01)
        assert not mesh.is_doubled()

    play(scenario)


def test_a_recorded_denial_renews_nothing(play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the first denial, and that of a new question, count."""

    async def scenario(mesh: Mesh) -> None:
        claim = await mesh.copy.claim()
        (question,) = mesh.heard(claim)
        (denial,) = mesh.answered(mesh.one, question)
        mesh.heard(denial)
        assert mesh.is_doubled()
        mesh.peer.side._proven.clear()
        mesh.heard(denial)
        assert not mesh.is_doubled(), "its question was answered before"
        await asyncio.sleep(0.02)
        (question,) = mesh.heard(claim)
        (denial,) = mesh.answered(mesh.one, question)
        monkeypatch.setattr(side, "ANSWER_WITHIN", -1.0)
        mesh.heard(denial)
        assert not mesh.is_doubled(), "it comes late"
        monkeypatch.undo()
        mesh.heard(denial)
        assert mesh.is_doubled()

    play(scenario)


def test_a_copy_of_the_disk_denies_the_next_life(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy knows all lives that were on the disk, the present one, too."""

    async def scenario(mesh: Mesh) -> None:
        first = await mesh.one.claim()
        mesh.copy.key.with_name(lives.NAME).write_bytes(mesh.one.key.with_name(lives.NAME).read_bytes())
        mesh.one.side._claim(mesh.peer.card.address)
        assert mesh.one.port.last() == first, "it is the same life"
        (question,) = mesh.heard(first)
        assert mesh.answered(mesh.copy, question) == []
        monkeypatch.setattr(mesh.one.side, "_life_ends", 0.0)
        mesh.one.side._claim(mesh.peer.card.address)
        await asyncio.sleep(0.02)
        (question,) = mesh.heard(mesh.one.port.last())
        assert mesh.answered(mesh.one, question) == []
        mesh.heard(*mesh.answered(mesh.copy, question))
        assert mesh.is_doubled()

    play(scenario)


def test_messages_have_one_form(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    claim = twins.claim(key, IPv6Address("fc00::1"), bytes(range(16)))
    said = twins.decode(claim)
    assert said == Claim(IPv6Address("fc00::1"), bytes(range(16)), claim)
    question = twins.question(bytes(16), said)
    asked = twins.decode(question)
    assert asked == Question(bytes(16), said)
    denial = twins.denial(key, asked)
    assert twins.decode(denial) == Denial(bytes(16), bytes(range(16)), denial)
    for octets in (claim, question, denial):
        for cut in (octets[:-1], octets + b"\0", b"\2" + octets[1:], octets[:1]):
            with pytest.raises(twins.TwinsError):
                twins.decode(cut)


def test_the_oldest_lives_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "KEPT", 2)
    key = tmp_path / "node.key"
    assert lives.read(key) == frozenset()
    for number in range(3):
        lives.add(key, bytes([number]) * 16)
    assert lives.read(key) == {bytes([1]) * 16, bytes([2]) * 16}
    assert key.with_name(lives.NAME).stat().st_mode & 0o777 == 0o600
    key.with_name(lives.NAME).write_text("00" * 16 + "\n" + "xx" * 16)
    with pytest.raises(FileError, match=r"lives:2: 'xx"):
        lives.add(key, bytes(16))
