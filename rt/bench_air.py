"""Throughput on a modelled 802.11 air, in virtual time: stations that contend, lines of relays, and hidden stations.

It needs no radio and no rights, and seconds of air take milliseconds. docs/explanation/air.md says what the model has.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from rt.measure.frame import Bench
from rt.measure.plot import footer, marked, page, points, wanted
from rt.measure.results import QUICK, Cell, Result
from tests.lab.basics.places import REPOSITORY

ROUNDS = 2 if QUICK else 5
"""Each has a seed of its own: 1, 2, ..."""
SECONDS = 5 if QUICK else 60
"""Of air in a run."""
STATIONS = (1, 2, 5, 10) if QUICK else (1, 2, 3, 5, 10, 20, 40)
HOPS = (1, 2, 3, 4) if QUICK else (1, 2, 3, 4, 5, 6, 8)
SENSES = {"all sense each other": 255, "sensing two places away": 2, "sensing neighbours alone": 1}
"""How far carrier sense reaches along a line."""
OCTETS = (100, 500, 1000, 1500) if QUICK else (100, 200, 350, 500, 700, 1000, 1250, 1500)
THRESHOLDS: dict[str, int | None] = {"without RTS": None, "RTS before every frame": 0, "RTS above 500 octets": 500}
CONTENTION, LINE, HIDDEN = "stations that contend", "line of relays", "two hidden stations"
_SIZE = 8.0, 9.3
"""Inches of the picture: one panel under the other."""
_DAEMON = REPOSITORY / "daemon"
_HIDDEN_RATE = "6"
"""Mbit/s of hidden stations: long frames, as over a long link."""
_PANELS = {CONTENTION: ("contention", "stations"), LINE: ("line", "hops"), HIDDEN: ("hidden", "octets of a frame")}
"""Of each place the word in front of its lines in the legend, and what is on its horizontal axis."""


def main() -> int:
    """Run each place with each seed."""
    bench = Bench("air", __doc__, ROUNDS, "how often each place is run, with a seed of its own")
    bench.parse()
    with bench.measuring():
        bench.say("compiling the model")
        program = built()
        for number, (key, arguments) in bench.in_rounds(places()):
            what = ", ".join(str(value) for value in key.values())
            found = bench.visit(what, partial(run, program, number, arguments))
            bench.take(key, "Mbit/s", [found["mbit_s"]])
    return bench.finish(result(bench), draw)


def result(bench: Bench) -> Result:
    """Return the result with the cells in the order of the places."""
    order = [key for key, _ in places()]
    params = {"seconds_of_air": SECONDS, "phy": "g", "rate": "24 Mbit/s, hidden stations 6 Mbit/s", "octets": 1500}
    return bench.result(params, sorted(bench.cells(), key=lambda cell: order.index(dict(cell.key))))


def places() -> list[tuple[dict[str, object], list[str]]]:
    """Return the key of each cell, with the arguments of the program that give it."""
    found: list[tuple[dict[str, object], list[str]]] = [
        (_key(CONTENTION, "802.11g, 24 Mbit/s", count), ["contention", "--stations", str(count)]) for count in STATIONS
    ]
    found += [
        (_key(LINE, name, hops), ["line", "--hops", str(hops), "--senses", str(senses)])
        for name, senses in SENSES.items()
        for hops in HOPS
    ]
    for name, threshold in THRESHOLDS.items():
        more = [] if threshold is None else ["--rts", str(threshold)]
        for octets in OCTETS:
            arguments = ["hidden", "--rate", _HIDDEN_RATE, "--octets", str(octets), *more]
            found.append((_key(HIDDEN, name, octets), arguments))
    return found


def _key(place: str, what: str, at: int) -> dict[str, object]:
    return {"place": place, "what": what, "at": at}


def built() -> Path:
    """Compile the program and return it."""
    argv = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", str(_DAEMON / "Cargo.toml")]
    subprocess.run([*argv, "--package", "airtime", "--example", "air"], check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", _DAEMON / "target")) / "release" / "examples" / "air"


def run(program: Path, number: int, arguments: list[str]) -> dict[str, Any]:
    """Return the report of one run. Raises CalledProcessError where the program refuses the arguments."""
    argv = [str(program), *arguments, "--seconds", str(SECONDS), "--seed", str(number + 1)]
    report: dict[str, Any] = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
    return report


def draw(result: Result) -> None:
    """Draw a panel for each place."""
    title = marked("802.11g in virtual time: shared, relayed and hidden", result)
    with page(result.name, title, _SIZE, footer(result.cells), nrows=len(_PANELS)) as axes:
        for one, (place, (word, across)) in zip(axes, _PANELS.items(), strict=True):
            lines = {f"{word}: {what}": samples for what, samples in series(result.cells, place).items()}
            points(one, lines, across, f"Mbit/s ({wanted('Mbit/s')})")
            one.set_title(place)
            one.set_ylim(bottom=0)


def series(cells: list[Cell], place: str) -> dict[str, dict[Any, list[float]]]:
    """Return the samples of a place, by line of its legend and by place on its horizontal axis."""
    found: dict[str, dict[Any, list[float]]] = {}
    for cell in cells:
        if cell.key["place"] == place:
            found.setdefault(str(cell.key["what"]), {})[cell.key["at"]] = list(cell.samples)
    return found


if __name__ == "__main__":
    sys.exit(main())
