"""What the node remembers of who signs routing messages: over restarts, and as long as the card has the same key."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from adapters.test_olsrv2d import HELLO, SNAPSHOT, Daemon, change
from core.world import card
from meshsec import files
from meshsec.adapters.files import signer_store
from meshsec.adapters.routing import olsrv2d_commands
from meshsec.agent.sides import signers
from meshsec.agent.sides.routing import Routing
from meshsec.core.config.routing_settings import RoutingSettings, Signatures
from meshsec.core.values.model import Address, Card

ONE, TWO = card(1, ipv4=False), card(2, ipv4=False)
ONE_IPV4 = card(1)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(olsrv2d_commands, "SETTLING", 0.01)
    monkeypatch.setattr(signers, "AGAIN", 0.01)


class Node:
    """The routing side of one run of meshsecd, and what it has said to olsrv2d."""

    def __init__(self, side: Routing, daemon: Daemon, file: Path) -> None:
        self.side, self.file, self._daemon = side, file, daemon

    async def said(self) -> dict[Address, bool]:
        """Return what is said next of who signs."""
        async with asyncio.timeout(60):
            while (line := await self._daemon.heard.get())["command"] != "keys":
                pass
        return {ip_address(one["address"]): one["signs"] for one in line["keys"]}

    def hear_signed(self, *of: Card) -> None:
        """Let olsrv2d say that the routers of these have signed."""
        self.hear_signed_as(*(one.address for one in of))

    def hear_signed_as(self, *originators: Address) -> None:
        """Let olsrv2d say that the routers with these originators have signed."""
        self._daemon.say(*(change("node", "set", originator=str(one), ansn=1, signs=True) for one in originators))

    async def until_kept(self, *kept: Card) -> None:
        """Wait until the file has these and no others."""
        wanted = _text(*kept)
        async with asyncio.timeout(60):
            while not self.file.exists() or self.file.read_bytes() != wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert signer_store.load(self.file) == {one.address: one.public_key for one in kept}


@asynccontextmanager
async def _node(place: Path, cards: Iterable[Card], signatures: Signatures = Signatures.PREFER) -> AsyncIterator[Node]:
    socket, file = place / "changes.sock", place / "signers.json"
    settings = RoutingSettings(("mesh0",), socket=str(socket), signatures=signatures)
    async with Daemon(socket, HELLO, SNAPSHOT) as daemon, asyncio.TaskGroup() as tasks:
        side = Routing(settings, file, lambda _: None)
        await side.load()
        side.trust(cards)
        works = [tasks.create_task(work) for work in (side.run(), side.signers.run())]
        yield Node(side, daemon, file)
        for work in works:
            work.cancel()


def test_who_signs_is_known_after_a_restart_before_anything_is_heard(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _node(tmp_path, [ONE, TWO]) as node:
            assert not any((await node.said()).values())
            node.hear_signed(ONE)
            assert (await node.said())[ONE.address]
            await node.until_kept(ONE)
        async with _node(tmp_path, [ONE, TWO]) as node:
            said = await node.said()
            assert (said[ONE.address], said[TWO.address]) == (True, False)

    asyncio.run(scenario())


def test_another_key_for_an_address_has_signed_nothing_yet(tmp_path: Path) -> None:
    async def scenario() -> None:
        renewed = replace(ONE, public_key=bytes(31) + b"\x09")
        _keep(tmp_path, ONE, TWO)
        async with _node(tmp_path, [renewed, TWO]) as node:
            said = await node.said()
            assert (said[ONE.address], said[TWO.address]) == (False, True)
            await node.until_kept(TWO)

    asyncio.run(scenario())


def test_a_removed_card_is_forgotten_also_when_it_comes_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        _keep(tmp_path, ONE, TWO)
        async with _node(tmp_path, [ONE, TWO]) as node:
            assert (await node.said())[ONE.address]
            node.side.trust([TWO])
            await node.until_kept(TWO)
            node.side.trust([ONE, TWO])
            assert ONE.address not in await node.said()
            assert not (await node.said())[ONE.address]

    asyncio.run(scenario())


def test_a_router_that_signed_before_its_card_came_signs(tmp_path: Path) -> None:
    async def scenario() -> None:
        assert ONE_IPV4.ipv4 is not None
        async with _node(tmp_path, [TWO]) as node:
            await node.said()
            node.hear_signed(ONE, TWO)
            assert (await node.said()) == {TWO.address: True, TWO.locator: False}
            node.hear_signed_as(ONE_IPV4.ipv4)  # by a key that nobody knows yet
            async with asyncio.timeout(60):
                while not node.side.topology.signs(ONE_IPV4.ipv4):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            node.side.trust([ONE_IPV4, TWO])
            assert not (await node.said())[ONE.address]
            said = await node.said()
            assert (said[ONE.address], said[ONE_IPV4.ipv4]) == (True, False)
            await node.until_kept(ONE, TWO)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"fd00::b": 1}', b'{"boat": "00"}', b'{"fd00::b": "00"}', b'{"fd00::b": "xx"}', b"\xff", b"[]"],
)
def test_a_damaged_file_is_a_warning_and_is_written_again(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        (tmp_path / "signers.json").write_bytes(content)
        async with _node(tmp_path, [ONE]) as node:
            assert not any((await node.said()).values())
            node.hear_signed(ONE)
            assert (await node.said())[ONE.address]
            await node.until_kept(ONE)

    asyncio.run(scenario())
    (warning,) = (one.getMessage() for one in caplog.records if one.name == signers.__name__)
    assert str(tmp_path / "signers.json") in warning


def test_a_full_disk_breaks_nothing_and_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = asyncio.Queue[None]()

    def full(path: Path, content: bytes, mode: int) -> None:
        tried.put_nowait(None)
        raise files.FileError(f"{path}: {os.strerror(errno.ENOSPC)}; nothing was changed")

    async def scenario() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(files, "write", full)
            async with _node(tmp_path, [ONE]) as node:
                await node.said()
                node.hear_signed(ONE)
                assert (await node.said())[ONE.address], "what is in memory is in force"
                async with asyncio.timeout(60):
                    for _ in range(3):
                        await tried.get()
                patched.undo()
                await node.until_kept(ONE)

    asyncio.run(scenario())
    assert sum("No space left on device" in one.getMessage() for one in caplog.records) == 1


def test_what_was_known_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        _keep(tmp_path, ONE)
        monkeypatch.setattr(files, "write", lambda *_: pytest.fail("the disk is written"))
        async with _node(tmp_path, [ONE]) as node:
            assert (await node.said())[ONE.address]
            node.hear_signed(ONE)
            node.side.trust([ONE, TWO])
            assert (await node.said())[ONE.address]
            await asyncio.sleep(0.1)

    asyncio.run(scenario())


def test_with_signatures_off_it_is_forgotten_who_signed(tmp_path: Path) -> None:
    async def scenario() -> None:
        _keep(tmp_path, ONE)
        async with _node(tmp_path, [ONE], Signatures.OFF):
            assert not (tmp_path / "signers.json").exists()
        async with _node(tmp_path, [ONE], Signatures.OFF):
            pass  # there is no file to remove
        async with _node(tmp_path, [ONE]) as node:
            assert not any((await node.said()).values())

    asyncio.run(scenario())


def _keep(place: Path, *cards: Card) -> None:
    """Write what a run of meshsecd before has kept."""
    (place / "signers.json").write_bytes(_text(*cards))


def _text(*cards: Card) -> bytes:
    return signer_store.text({one.address: one.public_key for one in cards}).encode()
