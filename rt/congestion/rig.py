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
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rt.congestion.paper import LEVELS
from tests.lab.radio import cell
from tests.lab.radio.cell import CLIENTS, NARROW, WIDE, Cell, names

RESULTS = Path("/results")
TOGETHER = (CLIENTS[:1], CLIENTS[1:], CLIENTS)
"""Who asks for the page at the same moment."""
CIRCUMSTANCES = (*((level, NARROW) for level in LEVELS), (0, WIDE), (LEVELS[-1], WIDE))
"""Mbit/s of the others' traffic, and of the wire. The last two are the control: a wire that has room, without that
traffic and with it."""


def main() -> int:
    """Measure all circumstances in every round, every other round backwards."""
    if obstacle := cell.obstacle():
        raise RuntimeError(obstacle)
    first, end = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as directory, Cell(Path(directory)) as running:
        running.fetch(*CLIENTS)  # the first one pays for ARP
        for number in range(first, end):
            rows: list[dict[str, Any]] = []
            for level, wire in CIRCUMSTANCES if number % 2 == 0 else reversed(CIRCUMSTANCES):
                print(f"round {number + 1}: {level} Mbit/s on a wire of {wire}", flush=True)
                rows += _measured(running, level, wire)
            with (RESULTS / "congestion.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows) + "\n")
    return 0


def _measured(running: Cell, level: int, wire: int) -> list[dict[str, Any]]:
    """Return what each client had, with what the wire really carried of others."""
    rows: list[dict[str, Any]] = []
    running.narrow(wire)
    with running.congested(level):
        octets, begun = running.carried(), time.monotonic()
        for clients in TOGETHER:
            how = names(clients)
            for name, fetched in running.fetch(*clients).items():
                rows.append({"congestion": level, "wire": wire, "how": how, "client": name, **asdict(fetched)})
        carried = cell.mbit(running.carried() - octets, time.monotonic() - begun)
    return [{**row, "carried": carried} for row in rows]


if __name__ == "__main__":
    sys.exit(main())
