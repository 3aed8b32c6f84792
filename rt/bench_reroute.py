"""How long until the routes avoid a relay that vanishes from the air: it drives out of hearing, or leaves the mesh.

Four routers in a circle, each with a radio of mac80211_hwsim, olsrv2d with default timers but a hold time of a minute,
so that HELLOs tell nothing; user data flows all the time. In a guest with Debian's RT kernel, one boot for all rounds.
The guest's time follows its executed instructions: a nanosecond is one instruction, so that the figures do not depend
on what else this machine does. They are those of the program on a perfect radio.
"""

import json
import sys
from pathlib import Path

from rt.measure.results import DIRECTORY, QUICK, Cell, Result
from tests.lab.basics import patience
from tests.lab.machines import guest

ROUNDS = 3 if QUICK else 10
SECONDS = 3600.0
"""A boot takes a minute on two quiet cores, and longer on busy ones."""
PATIENCE = 10
"""The guest's clock leaps while the guest waits for a disk."""
TARGET = 1.0
"""Seconds, for every single time."""
FIGURES = ("decided", "gap")


class MeasurementError(Exception):
    """What was measured is not what was to be measured."""


def main() -> int:
    """Measure, write, print; 1 when the target is missed."""
    if obstacle := guest.obstacle():
        print(f"reroute: {obstacle}", file=sys.stderr)
        return 2
    folder = DIRECTORY / "reroute"
    command = f"{patience.VARIABLE}={PATIENCE} .venv/bin/python -m rt.guest.reroute {ROUNDS} /results/times"
    outcome = guest.run_in_guest(command, folder, seconds=SECONDS, deterministic=True)
    if outcome.status != 0:
        raise MeasurementError(f"status {outcome.status}: {outcome.output}{outcome.console}")
    result = Result("reroute", {"rounds": ROUNDS, "time": "1 ns for each instruction", "target_s": TARGET})
    result.cells += read(folder / "times")
    print(result.write())
    for line in result.lines():
        print(line)
    late = [value for cell in result.cells for value in cell.samples if value > TARGET]
    print(f"under {TARGET:g} s: {'missed by ' + str(len(late)) if late else 'all'}")
    return 1 if late else 0


def read(path: Path) -> list[Cell]:
    """What the guest left, by the way to vanish and the figure."""
    cells: dict[tuple[str, str], list[float]] = {}
    for line in path.read_text(encoding="ascii").splitlines():
        told = json.loads(line)
        for figure in FIGURES:
            cells.setdefault((told["vanish"], figure), []).append(told[figure])
    return [Cell({"vanish": vanish, "figure": figure}, "s", samples) for (vanish, figure), samples in cells.items()]


if __name__ == "__main__":
    sys.exit(main())
