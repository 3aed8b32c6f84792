"""meshsecd writes the names of the peers in force, and again when it could not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from core.world import Driver, card, peer
from meshsec.agent.sides import names
from meshsec.agent.sides.names import NamesSide


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[NamesSide]:
    side = NamesSide(path, [card(1)], Driver().engine.known)
    task = asyncio.create_task(side.run())
    try:
        yield side
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def soon(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 5
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)


async def becomes(path: Path, text: str) -> None:
    await soon(lambda: path.is_file() and path.read_text() == text)


OWN = "fc00::1 n1.mesh\n10.0.0.1 n1.mesh\n"
OTHER = "fc00::2 n2.mesh\n10.0.0.2 n2.mesh\n"


def test_a_name_comes_and_goes_with_the_trust(tmp_path: Path) -> None:
    async def life() -> None:
        async with running(path := tmp_path / "names/nodes") as side:
            assert not path.exists(), "before the trust store was read"
            side.follow([])
            await becomes(path, OWN)
            side.follow([peer(2)])
            await becomes(path, OWN + OTHER)
            number = path.stat().st_ino
            side.follow([peer(2)])
            await asyncio.sleep(0.05)
            assert path.stat().st_ino == number, "nothing changed"
            side.follow([])
            await becomes(path, OWN)

    asyncio.run(life())


def test_what_cannot_be_written_is_said_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "AGAIN", 0.02)
    (tmp_path / "names").touch()

    async def life() -> None:
        async with running(path := tmp_path / "names/nodes") as side:
            side.follow([])
            await soon(lambda: bool(side.problem))
            assert str(tmp_path / "names") in side.problem
            (tmp_path / "names").unlink()
            await becomes(path, OWN)
            await soon(lambda: not side.problem)

    asyncio.run(life())
