"""How long each exchange of a page takes on 802.11n air: table 3 of Agosto-Padilla's dissertation, from a capture.

A client of an access point fetches 320 kB over the model of the air, in virtual time. The model writes what a radio in
monitor mode would capture, and `meshsec air` splits the capture into exchanges. Data goes in groups of at most eight,
acknowledgements of TCP behind RTS/CTS, as in the dissertation; nothing is lost but by collisions.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rt.measure.frame import Bench
from rt.measure.plot import PANEL, footer, marked, page, points
from rt.measure.results import QUICK, Cell, MeasurementError, Result
from tests.lab.basics import programs
from tests.lab.basics.places import REPOSITORY

MCS = 4
"""39 Mbit/s: a further data packet of the dissertation's groups takes 313 us on average, which is its time at MCS 4."""
DATA, ACKS = "data", "TCP acks"
WITH_ACCESS, ALONE = "with access", "frames alone"
AGAIN = "sent again"
_DAEMON = REPOSITORY / "daemon"
Exchange = Mapping[str, Any]


def main() -> int:
    """Fetch a page with each seed."""
    bench = Bench("exchanges", __doc__, 20 if QUICK else 100, "how many seeds the page is fetched with")
    bench.parse()
    with bench.measuring():
        bench.say("compiling the model")
        program = built()
        for number, what in bench.in_rounds(["page"]):
            seed = number + 1
            for key, unit, value in samples(bench.visit(f"{what}, seed {seed}", partial(exchanges, program, seed))):
                bench.take(key, unit, [value])
    cells = sorted(bench.cells(), key=lambda cell: [str(cell.key[name]) for name in ("what", "part", "units")])
    return bench.finish(bench.result({"mcs": MCS, "time": "virtual"}, cells), draw)


def built() -> Path:
    """Compile the program and return it."""
    argv = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", str(_DAEMON / "Cargo.toml")]
    subprocess.run([*argv, "--package", "airtime", "--example", "page"], check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", _DAEMON / "target")) / "release" / "examples" / "page"


def exchanges(program: Path, seed: int) -> Sequence[Exchange]:
    """Fetch a page, and return the exchanges that `meshsec air` finds in its capture. Raises MeasurementError."""
    with tempfile.TemporaryDirectory() as directory:
        capture = f"{directory}/page.pcap"
        fetch = [str(program), "--mcs", str(MCS), "--seed", str(seed), "--capture", capture]
        subprocess.run(fetch, stdout=subprocess.DEVNULL, check=True)
        argv = [programs.meshsec(), "air", "--read", capture, "--json", "--exchanges"]
        document = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
    if document["stray"] or document["warnings"]:
        raise MeasurementError(f"{document['stray']} frames of no exchange; {' '.join(document['warnings'])}")
    found: Sequence[Exchange] = document["exchanges"]
    return found


def samples(found: Sequence[Exchange]) -> Iterator[tuple[Mapping[str, object], str, float]]:
    """Yield key, unit and value of each exchange that succeeded at once, and how many packets of the page did not.

    An exchange that had nothing to send before is left out, as its access is no wait for the air.
    """
    for one in found:
        if one["attempts"] == 1 and one["access_us"] is not None and not one["idle"]:
            what = ACKS if one["pattern"].startswith("RTS/CTS") else DATA
            frames = one["total_us"] - one["access_us"]
            for part, value in ((WITH_ACCESS, one["total_us"]), (ALONE, frames)):
                yield {"what": what, "part": part, "units": one["mpdus"]}, "us", value
    yield {"what": AGAIN, "part": "page", "units": "all"}, "packets", sum(one["retried"] for one in found)


def draw(result: Result) -> None:
    """Draw a panel for data and one for acknowledgements."""
    title = marked("Exchanges of a page on modelled 802.11n air, in virtual time", result)
    with page(result.name, title, (PANEL[0] * 2, PANEL[1] + 1), footer(result.cells), ncols=2) as axes:
        for one, what in zip(axes, (DATA, ACKS), strict=True):
            points(one, series(result.cells, what), f"{what} of a group", "us (less is better)")
            one.set_title(what)
            one.set_ylim(bottom=0)


def series(cells: Sequence[Cell], what: str) -> dict[str, dict[Any, list[float]]]:
    """Return the samples of data or acknowledgements, by part and by packets of a group."""
    found: dict[str, dict[Any, list[float]]] = {}
    for cell in cells:
        if cell.key["what"] == what:
            found.setdefault(str(cell.key["part"]), {})[cell.key["units"]] = list(cell.samples)
    return found


if __name__ == "__main__":
    sys.exit(main())
