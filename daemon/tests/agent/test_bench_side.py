"""The side of meshsecd for `meshsec bench throughput`, with the kernel's table and without a mesh."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from core.world import Driver
from meshsec.agent.sides.bench import BenchError, BenchSide, Uses
from meshsec.agent.sides.modes import ModeChoice
from meshsec.core.channels.events import Event, ModesSet
from meshsec.core.channels.lifecycle import State
from meshsec.core.values.model import DataPlane, Modes
from namespaces import needs_root

pytestmark = [needs_root, pytest.mark.usefixtures("inside")]


def test_a_request_that_waits_while_its_benchmark_ends_changes_no_plane(tmp_path: Path) -> None:
    asyncio.run(_request_during_the_end(tmp_path))


async def _request_during_the_end(directory: Path) -> None:
    driver = Driver(1)
    driver.ready(5)
    channel = driver.engine.known.shown_as("n5")
    assert channel is not None
    channel.state = State.PROTECTED
    posted: list[Event] = []
    may_go_on = asyncio.Event()
    ends: list[asyncio.Task[None]] = []

    async def beside_rules(change: Callable[[], None]) -> None:
        change()
        await may_go_on.wait()

    async def in_force(_seconds: float) -> bool:
        return True

    modes = ModeChoice(directory / "modes", posted.append)
    side = BenchSide(
        driver.engine.known,
        Uses(posted.append, in_force, beside_rules, lambda work: ends.append(asyncio.create_task(work)), modes),
    )
    may_go_on.set()
    session = await side.begin("n5", serves=False)
    may_go_on.clear()
    side.end_soon(session)
    await asyncio.sleep(0)
    late = asyncio.create_task(side.use(session.token, DataPlane.IPSEC, 5))
    await asyncio.sleep(0)
    assert not late.done()
    may_go_on.set()
    with pytest.raises(BenchError, match="no such benchmark runs"):
        await late
    await asyncio.gather(*ends)
    assert posted[-1] == ModesSet(Modes())
    assert side.view() is None
