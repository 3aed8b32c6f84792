"""The rig of bench-congestion, inside the guest: the cell (tests/lab/radio/cell.py) under each level of congestion.

    python -m rt.congestion.rig FIRST END    /results gets congestion.jsonl, a line for each complete round

FIRST is the number of the first round, and END of the one after the last.

The guest has one processor, whose time follows the executed instructions, so that what the machine does beside it
changes nothing. What the machines of the cell compute takes their common time.
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rt.congestion.paper import LEVELS
from tests.lab.radio import cell
from tests.lab.radio.cell import CLIENTS, NARROW, WIDE, Cell, names

RESULTS = Path("/results")
TOGETHER = (CLIENTS[:1], CLIENTS[1:], CLIENTS)
"""Who asks for the page at the same moment."""
ORDER = "who asks first alternates"
"""Said in the result. Once the first client always asked first, and waited longer than the second one alone did."""
AIR, NO_AIR = "modelled", "none"
"""Frames take their time on the air as 802.11n sends them one by one, or none at all."""


class Circumstance(NamedTuple):
    """What the clients ask for the page under."""

    congestion: int
    """Mbit/s of the others' traffic."""
    wire: int
    """Mbit/s."""
    air: str
    """``AIR`` or ``NO_AIR``."""


CIRCUMSTANCES = tuple(
    Circumstance(level, wire, air)
    for air in (AIR, NO_AIR)
    for level, wire in (*((level, NARROW) for level in LEVELS), (0, WIDE), (LEVELS[-1], WIDE))
)
"""The last two of each air are the control: a wire that has room, without that traffic and with it."""


def main() -> int:
    """Measure all circumstances in every round, every other round backwards."""
    if obstacle := cell.obstacle():
        raise RuntimeError(obstacle)
    first, end = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as directory, Cell(Path(directory)) as running:
        running.fetch(*CLIENTS)  # the first one pays for ARP
        for number in range(first, end):
            rows: list[dict[str, Any]] = []
            for one in CIRCUMSTANCES if number % 2 == 0 else reversed(CIRCUMSTANCES):
                print(f"round {number + 1}: {one}", flush=True)
                rows += _measured(running, one, in_turn(number))
            with (RESULTS / "congestion.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows) + "\n")
    return 0


def in_turn(number: int) -> Sequence[Sequence[str]]:
    """Return who asks, one after the other, in a round.

    Of four rounds two go backwards, each once with the circumstances forwards and once with them backwards.
    """
    return TOGETHER if number % 4 in (0, 3) else TOGETHER[::-1]


def _measured(running: Cell, under: Circumstance, turns: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Return what each client had, with what the wire really carried of others."""
    rows: list[dict[str, Any]] = []
    running.narrow(under.wire)
    with running.air() if under.air == AIR else nullcontext(), running.congested(under.congestion):
        octets, begun = running.carried(), time.monotonic()
        for clients in turns:
            how = names(clients)
            for name, fetched in running.fetch(*clients).items():
                rows.append({**under._asdict(), "how": how, "client": name, **asdict(fetched)})
        carried = cell.mbit(running.carried() - octets, time.monotonic() - begun)
    return [{**row, "carried": carried} for row in rows]


if __name__ == "__main__":
    sys.exit(main())
