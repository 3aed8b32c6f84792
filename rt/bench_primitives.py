"""What one processor does of the overlay's cryptography and switching, and of the hashes and RSA of openssl.

The tables of tomesh (2016): ``cjdroute --bench`` (salsa20/poly1305 and switching) beside ``overlayd bench``, and
``openssl speed sha256 sha512 rsa1024 rsa2048`` by the size of the message. cjdroute takes part when it is on PATH.
Every round visits every program once. `meshsec bench crypto` asks the like of a node, with the ciphers that it uses.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from rt.measure.frame import Bench
from rt.measure.plot import COLOURS, MARKERS, WIDE_RANGE, decimal, footer, marked, page, points
from rt.measure.results import QUICK, Cell, Result
from rt.primitives import programs
from rt.primitives.programs import ALGORITHMS, SIZES, Taken

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROUNDS, SECONDS = (2, 1) if QUICK else (10, 1)
OVERLAY_SECONDS = 0.3 if QUICK else 1.0
_SIZE = (13.0, 8.8)
_LONG = ("sealed and opened: ", "packets ", " (XSalsa20)", " (ChaCha20)")
"""What labels of the picture leave out; its axes and the result say it."""


def main() -> int:
    """Let every program measure, in rounds."""
    bench = Bench("primitives", __doc__, rounds=ROUNDS, rounds_are="how often each program measures")
    bench.parse()
    bench.need("" if programs.version("openssl", "version") != "not on PATH" else "there is no openssl")
    versions = {
        "openssl": programs.version("openssl", "version"),
        "overlayd": programs.version(programs.overlay_router(), "--version"),
        "cjdroute": programs.version("cjdroute", "--version"),
    }
    with bench.measuring():
        for number, (name, measure) in bench.in_rounds(list(_measures(versions).items())):
            for one in bench.visit(f"round {number + 1}, {name}", partial(_all, measure)):
                bench.take(one.key(), one.unit, [one.value])
    result = bench.result({"rounds": bench.options.rounds, "seconds": SECONDS, "sizes": SIZES})
    result.peers = versions
    return bench.finish(result, draw, [f"cjdroute: {versions['cjdroute']}"])


def _measures(versions: dict[str, str]) -> dict[str, Callable[[], Iterator[Taken]]]:
    found: dict[str, Callable[[], Iterator[Taken]]] = {}
    for algorithm in ALGORITHMS:
        kind = programs.signatures if algorithm.startswith("rsa") else programs.hashes
        found[f"openssl speed {algorithm}"] = partial(kind, algorithm, SECONDS)
    found["overlayd bench"] = partial(programs.overlayd, OVERLAY_SECONDS)
    if versions["cjdroute"] != "not on PATH":
        found["cjdroute --bench"] = programs.cjdroute
    return found


def _all(measure: Callable[[], Iterator[Taken]]) -> list[Taken]:
    return list(measure())


def draw(result: Result) -> None:
    """Draw hashes by size, signatures, the overlay's ciphers, and packets, each with an axis of its own."""
    title = marked("What one processor does: more is better (median, bars from the least to the greatest)", result)
    with page(result.name, title, _SIZE, footer(result.cells), nrows=2, ncols=2) as axes:
        hashes = {
            name: {cell.key["bytes"]: cell.samples for cell in result.cells if cell.key["what"] == name}
            for name in ALGORITHMS[:2]
        }
        points(axes[0], hashes, "bytes of the message, logarithmic", "openssl, thousands of bytes/s")
        axes[0].set_xscale("log")
        axes[0].set_xticks(SIZES, [f"{size}" for size in SIZES], minor=False)
        axes[0].minorticks_off()
        for one, unit, up in zip(axes[1:], _UNITS, _UNITS.values(), strict=True):
            _rows(one, [cell for cell in result.cells if cell.unit == unit], up)


_UNITS = {
    "operations/s": "openssl, operations/s",
    "kbit/s": "overlay, kbit/s of content",
    "packets/s": "overlay, packets/s",
}


def _short(what: str, program: str) -> str:
    for one in _LONG:
        what = what.replace(one, "")
    return f"cjdroute: {what}" if program == "cjdroute" else what


def _rows(axes: "Axes", cells: list[Cell], across: str) -> None:
    names = [_short(str(cell.key["what"]), str(cell.key["program"])) for cell in cells]
    for row, cell in enumerate(cells):
        middle = sorted(cell.samples)[len(cell.samples) // 2]
        axes.plot([min(cell.samples), max(cell.samples)], [row, row], color=COLOURS[0])
        axes.plot([middle], [row], color=COLOURS[0], marker=MARKERS[0])
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.invert_yaxis()
    greatest = max((max(cell.samples) for cell in cells), default=1.0)
    if greatest > WIDE_RANGE * min((min(cell.samples) for cell in cells), default=1.0):
        axes.set_xscale("log")
        decimal(axes.xaxis, (1,))
        across += ", logarithmic"
    else:
        axes.set_xlim(left=0, right=1.05 * greatest)
    axes.set_xlabel(across)


if __name__ == "__main__":
    sys.exit(main())
