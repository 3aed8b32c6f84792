"""The control socket's methods about scheduling."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from meshsec.adapters import scheduler
from meshsec.adapters.scheduler import groups
from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control.sides import Sides
from meshsec.core.explain import scheduling_doctor, scheduling_view
from meshsec.core.scheduling.governor_events import StreamReported

if TYPE_CHECKING:
    from meshsec.agent.sides.scheduling import Scheduling
    from meshsec.core.explain.findings import Check

NAME_MAX = 64
"""Longest name of a stream in characters."""

COUNT_MAX = 2**53
"""Largest integer that every JSON implementation represents exactly."""


def view(sides: Sides) -> scheduling_view.View:
    """Answer ``scheduling``."""
    side = sides.scheduling
    side.refresh()
    return scheduling_view.view(side.known, side.governor, sides.driver.now)


def report(sides: Sides, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Process ``stream_report``: what a protected stream saw since its last report. Raises ``ControlError``."""
    name = params.get("stream")
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_MAX or not name.isprintable():
        raise _refused("stream", name, f"1 to {NAME_MAX} printable characters")
    frames = _count(params, "frames", COUNT_MAX)
    dropped = _count(params, "dropped", frames)
    delay = params.get("delay_ms", 0)
    if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay <= 60_000:
        raise _refused("delay_ms", delay, "a number from 0 to 60000 (milliseconds)")
    sides.scheduling.handle(StreamReported(name, dropped / frames if frames else 0.0, delay / 1000))
    governor = sides.scheduling.governor
    return {"share": governor.budget.share if governor else None}


async def checks(side: "Scheduling") -> "list[Check]":
    """Return doctor's checks of scheduling."""
    found = await asyncio.to_thread(scheduler.look)
    memberships = {one.service: groups.membership(one.pid).facts() for one in side.known.applied if one.pid}
    return scheduling_doctor.examine(replace(found, groups=memberships), side.profile, side.known.applied)


def _count(params: Mapping[str, Any], name: str, highest: int) -> int:
    value = params.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= highest:
        raise _refused(name, value, f"a whole number from 0 to {highest}")
    return value


def _refused(name: str, value: object, allowed: str) -> ControlError:
    return ControlError("bad_params", f"{name}: {value!r} is not allowed; allowed: {allowed}")
