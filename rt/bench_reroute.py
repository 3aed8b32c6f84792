"""How long until the routes avoid a relay that vanishes from the air: it drives out of hearing, or leaves the mesh.

Four routers in a circle, each with a radio of mac80211_hwsim, olsrv2d with default timers but a hold time of a minute,
so that HELLOs show nothing; user data flows all the time. In a guest with Debian's RT kernel, one boot for all rounds.
The guest's time follows its executed instructions: a nanosecond is one instruction, so that the figures do not depend
on what else this machine does. They are those of the program on a perfect radio.
"""

import json
import sys
from functools import partial
from pathlib import Path

from rt.measure import in_guest
from rt.measure.frame import Bench
from rt.measure.plot import boxes
from rt.measure.results import DIRECTORY, QUICK, Cell, MeasurementError
from tests.lab.basics import patience
from tests.lab.machines import guest

SECONDS = 3600.0
"""A boot takes a minute on two quiet cores, and longer on busy ones."""
PATIENCE = 10
"""The guest's clock leaps while the guest waits for a disk."""
TARGET = 1.0
"""Seconds, for every single time."""
FIGURES = ("decided", "gap")


def main() -> int:
    """Boot the guest once; return 1 when a time is beyond the target, too."""
    bench = Bench("reroute", __doc__, rounds=3 if QUICK else 10)
    rounds = bench.parse().rounds
    bench.need(guest.obstacle())
    folder = DIRECTORY / "reroute"
    times = folder / "times"
    times.unlink(missing_ok=True)
    measure = f"{patience.VARIABLE}={PATIENCE} .venv/bin/python -m rt.guest.reroute {rounds} /results/{times.name}"
    command = in_guest.asking("charon-systemd") + measure
    with bench.measuring():
        bench.say(f"the guest, {rounds} rounds")
        outcome = guest.run_in_guest(command, folder, seconds=SECONDS, deterministic=True)
        if outcome.status != 0:
            raise MeasurementError(f"status {outcome.status}: {outcome.output}{outcome.console}")
    params = {"rounds": rounds, "time": "1 ns for each instruction", "target_s": TARGET}
    result = bench.result(params, read(times) if times.exists() else [])
    result.guest = in_guest.left(folder)
    late = [value for cell in result.cells for value in cell.samples if value > TARGET]
    words = f"under {TARGET:g} s: {'missed by ' + str(len(late)) if late else 'all'}"
    title = f"From a relay's vanishing to the other route (every time is to be under {TARGET:g} s)"
    return bench.finish(result, partial(boxes, title=title, compare="figure"), [words]) or bool(late)


def read(path: Path) -> list[Cell]:
    """Return what the guest left, by the way to vanish and the figure; a guest that was ended may leave half a line."""
    cells: dict[tuple[str, str], list[float]] = {}
    for line in path.read_text(encoding="ascii").splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        measured = json.loads(line)
        for figure in FIGURES:
            cells.setdefault((measured["vanish"], figure), []).append(measured[figure])
    return [Cell({"vanish": vanish, "figure": figure}, "s", samples) for (vanish, figure), samples in cells.items()]


if __name__ == "__main__":
    sys.exit(main())
