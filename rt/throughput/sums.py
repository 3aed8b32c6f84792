"""What follows from bench-throughput's samples: peaks, what is left of them under more load, added latency, ratios."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rt.measure.results import Cell

UNITS = {
    "TCP": "Mbit/s",
    "UDP sent": "Mbit/s",
    "UDP delivered": "Mbit/s",
    "UDP loss": "%",
    "UDP jitter": "ms",
    "bytes on the link": "bytes",
    "TCP retransmissions": "segments",
    "TCP congestion window": "kB",
    "transactions": "transactions/s",
    "UDP peak": "Mbit/s",
    "UDP left of the peak": "%",
    "CPU, machine": "s/GB",
    "CPU, processes": "s/GB",
    "ping": "ms",
    "ping added": "ms",
    "start to first ping": "s",
    "recovery, it calls": "s",
    "recovery, it is called": "s",
    "memory of a node": "MB",
    "busy at rest": "cores",
}
OF_A_LINE = ("start to first ping", "recovery, it calls", "recovery, it is called", "memory of a node")
"""What depends on no distance."""
COMPARED = ("TCP", "UDP peak", "CPU, machine", "CPU, processes", "ping", *OF_A_LINE)
BASES = {"overlay": ("cjdroute",), "overlay, Ethernet": ("overlay",)}
"""What a plane is compared with, besides plain routes."""
SMESH: Mapping[str, Sequence[float]] = {"TCP": (7.6, 3.5, 2.4, 1.9), "UDP peak": (5.3, 3.1, 2.4, 2.0)}
"""By hops: how many times what user-space forwarding carried the kernel's routes did (Kaplan 2006, figures 4 and 5)."""
SMESH_OVER_SPINES = "SMesh over Spines, 2006"
SMESH_PUBLISHED: Mapping[str, object] = {
    "source": "Kaplan, Low-Overhead Routing for High-Performance Wireless Mesh Networks, 2006, section 5",
    "times_faster_by_hops": SMESH,
    "kernel_tcp_mbit_per_s": {"2": 6.3, "3": 3.8},
    "kernel_udp_mbit_per_s": {"2": 8.1, "3": 5.7},
    "udp_offered_mbit_per_s": {"kernel": 20, "overlay": 3.125},
    "kernel_udp_loss_percent": {"4": 0.2},
    "overlay_udp_loss_percent": "not given in numbers; grows rapidly with the hops",
}
"""What the paper says in numbers. Its first hop is the client's own radio link."""


@dataclass(frozen=True)
class Key:
    """What samples are of, and where they were taken."""

    what: str
    plane: str
    hops: int = 0
    """0 for what is of the whole line."""
    offered: float = 0.0
    """Mbit/s; 0 where no load is offered."""
    testbed: str = "namespaces"

    def as_dict(self) -> dict[str, object]:
        """Return the form for the result."""
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
    """Return the peak of delivered rates at ascending loads, and what per cent of it was left at the worst
    load from there on: 100 when the greatest load gave the peak, 0 when nothing was delivered at all."""
    peak = max(delivered)
    least = min(delivered[list(delivered).index(peak) :])
    return peak, 100 * least / peak if peak else 0.0


def ratios(samples: Samples) -> Iterator[Mapping[str, object]]:
    """Return the ratios of planes in one round on one testbed: each to plain, IPsec to overlay, overlay to cjdroute."""
    for key in samples:
        for below in _compared_with(key):
            if each := _quotients(samples, key, below):
                about = replace(key, plane=f"{key.plane} over {below}").as_dict()
                yield {"key": about, "median": median(each), "min": min(each), "max": max(each)}


def published() -> Iterator[Mapping[str, object]]:
    """Return SMesh's published ratios in the form that the measured ones have."""
    for what, known in SMESH.items():
        for hops, times in enumerate(known, start=1):
            about = Key(what, SMESH_OVER_SPINES, hops, testbed="published").as_dict()
            yield {"key": about, "median": times, "min": times, "max": times}


def over(samples: Samples, what: str, below: str, testbed: str) -> Mapping[str, Mapping[float, Sequence[float]]]:
    """Return how many times what another plane carries each plane does, by plane and hops, a quotient for each round;
    and what SMesh published.
    """
    found: dict[str, dict[float, Sequence[float]]] = {}
    for key in samples:
        chosen = (key.what, key.testbed) == (what, testbed) and key.plane != below
        if chosen and (each := _quotients(samples, key, below)):
            found.setdefault(f"{key.plane} over {below}", {})[key.hops] = each
    if found:
        found[SMESH_OVER_SPINES] = {hops: [times] for hops, times in enumerate(SMESH[what], start=1)}
    return found


def cells(samples: Samples) -> list[Cell]:
    """Return the form for the result."""
    return [Cell(key.as_dict(), UNITS[key.what], list(rounds.values())) for key, rounds in samples.items()]


def times_cells(samples: Samples, below: str = "overlay") -> list[Cell]:
    """Return how many times what another plane carries each plane does, in the form for the result."""
    found = []
    for what, testbed in itertools.product(SMESH, dict.fromkeys(key.testbed for key in samples)):
        for label, by_hops in over(samples, what, below, testbed).items():
            if label != SMESH_OVER_SPINES:
                where = {"plane": label.removesuffix(f" over {below}"), "testbed": testbed}
                about = {"what": f"{what}, times the {below}", **where}
                found += [Cell({**about, "hops": hops}, "times", each) for hops, each in by_hops.items()]
    return found


def tables(samples: Samples, *, smesh: bool = True) -> Iterator[str]:
    """Medians in Markdown for each testbed: by hops, of all that depends on no offered load; and of whole lines.

    ``smesh``: also what the kernel forwards beside what is forwarded in user space, as SMesh's paper has it.
    """
    for testbed in dict.fromkeys(key.testbed for key in samples):
        here = {key: rounds for key, rounds in samples.items() if key.testbed == testbed}
        yield from ("", f"{testbed}, by hops:", "", *_by_hops(here))
        if smesh:
            heading = f"{testbed}, how many times what is forwarded in user space the kernel forwards:"
            yield from ("", heading, "", *_smesh(here))
        yield from ("", f"{testbed}, of a line:", "", *_of_lines(here))


def _by_hops(samples: Samples) -> Iterator[str]:
    hops = sorted({key.hops for key in samples if key.hops})
    yield f"| | plane | {' | '.join(map(str, hops))} |"
    yield "|---|---|" + "---|" * len(hops)
    rows = dict.fromkeys((key.what, key.plane, key.testbed) for key in samples if key.hops and not key.offered)
    for what, plane, testbed in sorted(rows, key=lambda row: list(UNITS).index(row[0])):
        shown = (_middle(samples.get(Key(what, plane, count, testbed=testbed), {})) for count in hops)
        yield f"| {what}, {UNITS[what]} | {plane} | {' | '.join(shown)} |"


def _smesh(samples: Samples) -> Iterator[str]:
    hops = sorted({key.hops for key in samples if key.hops})
    yield f"| by hops | {' | '.join(map(str, hops))} |"
    yield "|---|" + "---|" * len(hops)
    present = dict.fromkeys(key.plane for key in samples)
    kernel = [plane for plane in present if plane.startswith(("plain", "ipsec"))]
    for what, known in SMESH.items():
        for above, below in itertools.product(kernel, (plane for plane in present if plane not in kernel)):
            keys = (replace(key, hops=count) for key in _one(samples, what, above) for count in hops)
            if shown := [_middle(dict(enumerate(_quotients(samples, key, below)))) for key in keys]:
                yield f"| {what}, {above} over {below} | {' | '.join(shown)} |"
        yield f"| {what}, {SMESH_OVER_SPINES} | {' | '.join(f'{known[count - 1]}' for count in hops)} |"


def _one(samples: Samples, what: str, plane: str) -> Sequence[Key]:
    """Return a key of that, if there are any."""
    return [key for key in samples if (key.what, key.plane) == (what, plane)][:1]


def _of_lines(samples: Samples) -> Iterator[str]:
    yield f"| plane | {' | '.join(f'{what}, {UNITS[what]}' for what in OF_A_LINE)} |"
    yield "|---|" + "---|" * len(OF_A_LINE)
    for plane, testbed in dict.fromkeys((key.plane, key.testbed) for key in samples):
        shown = (_middle(samples.get(Key(what, plane, testbed=testbed), {})) for what in OF_A_LINE)
        yield f"| {plane} | {' | '.join(shown)} |"


def _quotients(samples: Samples, key: Key, below: str) -> Sequence[float]:
    """Return the quotients by another plane, of every round that both have."""
    rounds, other = samples.get(key, {}), samples.get(replace(key, plane=below), {})
    return [rounds[number] / other[number] for number in sorted(rounds.keys() & other.keys()) if other[number]]


def _by_load(samples: Samples) -> Mapping[Key, Sequence[tuple[float, Mapping[int, float]]]]:
    """Return what was delivered, by plane and hops, in the order of the offered loads."""
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
    yield from BASES.get(key.plane, ())


def _middle(rounds: Mapping[int, float]) -> str:
    """Three digits, and no exponent."""
    if not rounds:
        return "-"
    middle = median(rounds.values())
    return f"{middle:.0f}" if middle >= 1000 else f"{middle:.3g}"
