"""What follows from bench-throughput's samples: peaks, what is left of them under more load, added latency, ratios."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rt.results import Cell

UNITS = {
    "TCP": "Mbit/s",
    "UDP sent": "Mbit/s",
    "UDP delivered": "Mbit/s",
    "UDP loss": "%",
    "UDP peak": "Mbit/s",
    "UDP left of the peak": "%",
    "CPU, machine": "s/GB",
    "CPU, processes": "s/GB",
    "ping": "ms",
    "ping added": "ms",
    "busy at rest": "cores",
}
COMPARED = ("TCP", "UDP peak", "CPU, machine", "CPU, processes", "ping")


@dataclass(frozen=True)
class Key:
    """What samples are of."""

    what: str
    plane: str
    hops: int = 0
    """0 for what is of the whole line."""
    offered: float = 0.0
    """Mbit/s; 0 where no load is offered."""

    def as_dict(self) -> dict[str, object]:
        """For the result."""
        return {name: value for name, value in vars(self).items() if value}


Samples = dict[Key, dict[int, float]]
"""By the round in which they were taken."""


def derived(samples: Samples) -> Samples:
    """For each round the highest delivered rate, the least at any greater load in per cent of it, the added latency."""
    found: Samples = {}
    for key, ascending in _by_load(samples).items():
        for number in sorted(set().union(*(rounds for _, rounds in ascending))):
            rates = [rounds[number] for _, rounds in ascending if number in rounds]
            peak, left = collapse(rates)
            found.setdefault(replace(key, what="UDP peak"), {})[number] = peak
            found.setdefault(replace(key, what="UDP left of the peak"), {})[number] = left
    for key, rounds in samples.items():
        plain = samples.get(replace(key, plane="plain"), {})
        if key.what == "ping" and key.plane != "plain" and (both := sorted(rounds.keys() & plain.keys())):
            found[replace(key, what="ping added")] = {number: rounds[number] - plain[number] for number in both}
    return found


def collapse(delivered: Sequence[float]) -> tuple[float, float]:
    """The peak of the rates that were delivered at ascending loads, and how many per cent of it were left at the worst
    load from there on: 100 when the greatest load gave the peak, 0 when nothing was delivered at all."""
    peak = max(delivered)
    least = min(delivered[list(delivered).index(peak) :])
    return peak, 100 * least / peak if peak else 0.0


def ratios(samples: Samples) -> Iterator[Mapping[str, object]]:
    """Of two planes in the same round: each over plain, IPsec over the overlay, the overlay over cjdroute."""
    for key, rounds in samples.items():
        for below in _compared_with(key):
            other = samples.get(replace(key, plane=below), {})
            each = [rounds[number] / other[number] for number in sorted(rounds.keys() & other.keys()) if other[number]]
            if each:
                about = f"{key.plane} over {below}"
                span = {"median": median(each), "min": min(each), "max": max(each)}
                yield {"key": {"what": key.what, "planes": about, "hops": key.hops}, **span}


def cells(samples: Samples) -> list[Cell]:
    """For the result."""
    return [Cell(key.as_dict(), UNITS[key.what], list(rounds.values())) for key, rounds in samples.items()]


def table(samples: Samples) -> Iterator[str]:
    """Medians by hops, in Markdown, of all that depends on no offered load."""
    hops = sorted({key.hops for key in samples if key.hops})
    yield f"| | plane | {' | '.join(f'{count} hops' for count in hops)} |"
    yield "|---|---|" + "---|" * len(hops)
    rows = dict.fromkeys((key.what, key.plane) for key in samples if key.hops and not key.offered)
    for what, plane in sorted(rows, key=lambda row: list(UNITS).index(row[0])):
        shown = (_middle(samples.get(Key(what, plane, count), {})) for count in hops)
        yield f"| {what}, {UNITS[what]} | {plane} | {' | '.join(shown)} |"


def _by_load(samples: Samples) -> Mapping[Key, Sequence[tuple[float, Mapping[int, float]]]]:
    """What was delivered, by plane and hops, in the order of the offered loads."""
    found: dict[Key, list[tuple[float, Mapping[int, float]]]] = {}
    for key in sorted((key for key in samples if key.what == "UDP delivered"), key=lambda key: key.offered):
        found.setdefault(replace(key, offered=0.0), []).append((key.offered, samples[key]))
    return found


def _compared_with(key: Key) -> Iterator[str]:
    if key.what not in COMPARED or key.plane == "plain":
        return
    yield "plain"
    if key.plane.startswith("ipsec"):
        yield "overlay"
    if key.plane == "overlay":
        yield "cjdroute"


def _middle(rounds: Mapping[int, float]) -> str:
    return f"{median(rounds.values()):.3g}" if rounds and max(rounds.values()) < 1000 else _large(rounds)


def _large(rounds: Mapping[int, float]) -> str:
    return f"{median(rounds.values()):.0f}" if rounds else "-"
