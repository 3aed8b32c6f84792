"""What is offered is written for the clients of an access node, at a pace, and again when it could not be."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from meshsec.agent.sides import offered as module
from meshsec.agent.sides.offered import OfferedFile
from meshsec.core.formats.dns_sd import Offered
from meshsec.core.services.services import Service


def test_the_list_is_written_at_the_start_and_after_changes_and_again_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PACE", 0.02)
    path = tmp_path / "services/offered"
    (tmp_path / "services").touch()

    asked: list[int] = []

    def offered(port: int) -> list[Offered]:
        asked.append(port)
        return [Offered("bravo", Service("wiki", port))]

    async def run() -> None:
        made = OfferedFile(path)
        task = asyncio.create_task(made.run())
        await until(lambda: bool(made.problem))
        (tmp_path / "services").unlink()
        await until(lambda: path.is_file() and path.read_text() == "")
        await until(lambda: made.problem == "")
        numbers = set()
        for port in range(1, 40):
            made.follow(partial(offered, port))
            await asyncio.sleep(0.001)
            numbers.add(path.stat().st_ino)
        assert len(numbers) < 20
        assert len(asked) < 20, "the list is made when it is written"
        await until(lambda: path.read_text() == "bravo wiki tcp 39\n")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 5
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)
