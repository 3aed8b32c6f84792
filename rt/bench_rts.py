"""RTS thresholds over the model of the air: off, fixed ones, and the one that meshsec-radio measures.

Two hidden stations, two ends that talk through a relay, stations that all hear each other, with a good and with a weak
signal, and hidden stations that then come into reach. All send as fast as they can, one of them voice beside it.
Virtual time; a measured run includes its trials.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from statistics import median

from rt.measure.frame import Bench
from rt.measure.results import QUICK, Cell
from rt.rts import figures
from rt.rts.places import PLACES
from rt.rts.run import MEASURED, OFF, Run, built, run

THRESHOLDS = (OFF, "0", "500", "1000", MEASURED)
SECONDS = 240 if QUICK else 600
"""Of virtual time for each run."""
_UNITS = {
    "goodput": ("goodput", "Mbit/s"),
    "repeated": ("repetitions for each frame", "repetitions"),
    "bulk_delay": ("delay of bulk data, mean", "ms"),
    "voice_delay": ("delay of voice, 95th percentile", "ms"),
    "voice_lost": ("voice that was lost", "%"),
    "asking": ("part of the time with RTS", "part"),
    "changes": ("changes of the threshold for each sender", "changes"),
}


def main() -> int:
    """Run each place with each threshold, alternately."""
    bench = Bench("rts", __doc__, 1 if QUICK else 5, "how many seeds each place is run with")
    bench.parse()
    reasons: dict[str, list[str]] = {}
    with bench.measuring():
        program = built()
        things = [(place, threshold) for place in PLACES for threshold in THRESHOLDS]
        for number, (place, threshold) in bench.in_rounds(things):
            what = f"{place}, {threshold}, seed {number + 1}"
            shown = bench.visit(what, partial(run, program, PLACES[place], threshold, SECONDS, number + 1))
            reasons.setdefault(place, []).extend(shown.reasons)
            _take(bench, place, threshold, shown)
    params = {"seconds": SECONDS, "places": list(PLACES), "time": "virtual", "reasons": reasons}
    result = bench.result(params, _in_order(bench.cells()))
    found = ratios(result.cells)
    result.ratios.extend(_shown(place, threshold, each) for (place, threshold), each in found.items())
    return bench.finish(result, figures.draw, _words(found))


def _take(bench: Bench, place: str, threshold: str, shown: Run) -> None:
    for one in fields(Run):
        if one.name in _UNITS and (threshold == MEASURED or one.name not in ("asking", "changes")):
            what, unit = _UNITS[one.name]
            bench.take({"what": what, "place": place, "threshold": threshold}, unit, [getattr(shown, one.name)])


def _in_order(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells by figure, place and threshold."""
    orders = {"what": [what for what, _ in _UNITS.values()], "place": [*PLACES], "threshold": [*THRESHOLDS]}
    return sorted(cells, key=lambda cell: [order.index(str(cell.key[name])) for name, order in orders.items()])


def ratios(cells: Iterable[Cell]) -> dict[tuple[str, str], list[float]]:
    """Return the goodput of each place and threshold as a factor of the goodput without RTS, seed by seed."""
    goodput = {
        (str(cell.key["place"]), str(cell.key["threshold"])): cell.samples
        for cell in cells
        if cell.key["what"] == "goodput"
    }
    return {
        (place, threshold): [one / off for one, off in zip(samples, goodput[place, OFF], strict=False)]
        for (place, threshold), samples in goodput.items()
        if threshold != OFF and (place, OFF) in goodput
    }


def _shown(place: str, threshold: str, each: Sequence[float]) -> Mapping[str, object]:
    key = {"what": "goodput", "place": place, "threshold": threshold, "to": OFF}
    return {"key": key, "median": median(each), "min": min(each), "max": max(each)}


def _words(found: Mapping[tuple[str, str], Sequence[float]]) -> Iterator[str]:
    """Say how the measured threshold does in each place, beside the best fixed one."""
    for place in PLACES:
        fixed = {OFF: 1.0} | {one: median(found[place, one]) for one in THRESHOLDS[1:-1] if (place, one) in found}
        best = max(fixed, key=lambda one: fixed[one])
        if (place, MEASURED) in found:
            ours = median(found[place, MEASURED])
            yield f"{place}: goodput {ours:.2f} of off by measuring, {fixed[best]:.2f} with the best fixed one ({best})"


if __name__ == "__main__":
    sys.exit(main())
