"""How long a cold set-up takes while a node streams video: by the load's place and priority, suite and profile.

The question of the paper of 2007 and its figures 8 (the relay loaded) and 9 (the receiver loaded), redrawn: response
time by the priority of the load, with the paper's suite and ours, beside a live encoder and beside videos on demand.
Line a - b - c, real programs, real charon; phases from the capture on the initiator's link, and independently from
charon's events. Cells are taken in rounds, so that what the machine does meanwhile meets all. Every visit is kept at
once: --resume goes on with a run that ended early.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from statistics import median
from typing import Any

from rt.loads import encoder, on_demand
from rt.loads.stream import Delivered
from rt.measure.frame import Bench
from rt.measure.results import QUICK, Cell, Result
from rt.sa_setup.block import Block
from rt.sa_setup.figures import draw
from rt.sa_setup.plan import LOADS, NICE, PARTS, PLACES, PROFILES, QUICK_WANTED, Key, Wanted, cells
from rt.sa_setup.policy import SUITES
from rt.sa_setup.rig import SAMPLE_TIMEOUT, Circumstances, Rig
from rt.sa_setup.targets import UNASKED, UNSEEN, judged
from tests.lab.node import capabilities

ROUNDS, SAMPLES = (1, 3) if QUICK else (5, 6)
"""Six samples give a round an interval, and five rounds show when one of them is of another kind than the others."""
STREAM_SECONDS = 4.0 if QUICK else 15.0
_CHOICES: Mapping[str, tuple[str, Sequence[Any]]] = {
    "part": ("parts", PARTS),
    "profile": ("profiles", PROFILES),
    "place": ("places", PLACES),
    "nice": ("nice", NICE),
    "suite": ("suites", tuple(SUITES)),
    "load": ("loads", LOADS),
}
"""Flags that take a part of what there is; each may be given several times."""


@dataclass
class Taken:
    """All visits of one cell."""

    blocks: list[Block] = field(default_factory=list)
    streams: list[Delivered] = field(default_factory=list)
    """What the load delivered, by visit."""

    def add(self, found: Mapping[str, Any]) -> None:
        """Add what ``_visit`` returned."""
        if block := found.get("block"):
            self.blocks.append(Block.from_dict(block))
        if stream := found.get("stream"):
            self.streams.append(Delivered(**stream))


def main() -> int:
    """Visit every cell in every round."""
    bench = Bench("sa-setup", __doc__, ROUNDS, "how often every cell is visited", resumable=True)
    bench.flags.add_argument(
        "--samples", type=int, default=SAMPLES, help="set-ups at each visit (default: %(default)s)"
    )
    for flag, (name, choices) in _CHOICES.items():
        kind = type(choices[0])
        about = f"only these of the {name}: {', '.join(map(str, choices))}"
        bench.flags.add_argument(f"--{flag}", action="append", type=kind, choices=choices, help=about, metavar="ONE")
    options = bench.parse()
    bench.need(encoder.missing() or on_demand.missing())
    planned = list(cells(_wanted(vars(options))))
    keys = [str(key) for key, _ in planned]
    journal = bench.journal({"cells": keys, "rounds": options.rounds, "samples": options.samples})
    taken: dict[Key, Taken] = {}
    nice_counts = False
    with bench.measuring(), Rig() as rig:
        nice_counts = rig.nice_counts
        for number, (key, circumstances) in bench.in_rounds(planned):
            visit = f"{number + 1}: {key}"
            if visit in journal:
                bench.made_before()
            else:
                found = bench.attempt(str(key), partial(_visit, rig, key, circumstances, options.samples))
                if found is None:
                    continue
                journal.add(visit, found)
            taken.setdefault(key, Taken()).add(journal[visit])
    result = _result(bench, taken, nice_counts=nice_counts)
    if not bench.cut_short:
        journal.close()
    return bench.finish(result, draw, judged(result))


def _wanted(options: Mapping[str, Any]) -> Wanted:
    """Return what the flags ask for; what they do not name is as QUICK or the whole has it."""
    base = QUICK_WANTED if QUICK else Wanted()
    chosen = {name: options[flag] for flag, (name, _) in _CHOICES.items() if options[flag]}
    pairs = () if {"profiles", "suites"} & set(chosen) else base.pairs
    return Wanted(**{**vars(base), **chosen, "pairs": pairs})


def _visit(rig: Rig, key: Key, circumstances: Circumstances, samples: int) -> dict[str, Any]:
    """Return a block, what the stream delivered, or both, as JSON has them."""
    if key.part != "stream":
        block = rig.take(circumstances, samples)
        return {"block": block.as_dict(), "stream": block.delivered and asdict(block.delivered)}
    if not key.rate:
        return {"stream": asdict(rig.watch(circumstances, STREAM_SECONDS))}
    count = round(STREAM_SECONDS * key.rate)
    found = rig.take(circumstances, count, interval=1 / key.rate, within=STREAM_SECONDS).delivered
    assert found is not None
    return {"stream": asdict(found)}


def _result(bench: Bench, taken: Mapping[Key, Taken], *, nice_counts: bool) -> Result:
    params = {
        "rounds": bench.options.rounds,
        "samples": bench.options.samples,
        "esp": capabilities.probe().esp,
        "hops": 2,
        "testbed": "wire",
        "given_up_after_s": SAMPLE_TIMEOUT,
        "nice_counts_between_sessions": nice_counts,
    }
    result = bench.result(params, [cell for key, what in taken.items() for cell in _cells(key, what)])
    result.ratios = list(_ratios(taken))
    return result


def _cells(key: Key, taken: Taken) -> Iterator[Cell]:
    """Return the cells by phase, from the capture and from meshsecd, which times some of the same set-ups.

    A set-up that was given up has no phases, and a total of at least the time after which it was.
    """
    timed = [one for block in taken.blocks for one in block.timed]
    times = [one for block in taken.blocks for one in block.times]
    overdue = sum(block.overdue for block in taken.blocks)
    by_round = [[1000 * total for total in block.totals(SAMPLE_TIMEOUT)] for block in taken.blocks]
    if totals := list(chain(*by_round)):
        rounds = tuple(map(len, by_round))
        yield Cell(key.of(what="total", source="capture"), "ms", totals, overdue, rounds)
    phases = {
        "ike_sa_init": [[one.ike_sa_init for one in block.times] for block in taken.blocks],
        "ike_auth": [[one.ike_auth for one in block.times] for block in taken.blocks],
        "first_esp": [[one.first_esp for one in block.times if one.first_esp is not None] for block in taken.blocks],
    }
    for phase, blocks in phases.items():
        if samples := [1000 * sample for sample in chain(*blocks)]:
            yield Cell(key.of(what=phase, source="capture"), "ms", samples, rounds=tuple(map(len, blocks)))
    path = 2 * _round_trip(taken)
    if key.place == "none" and times and path:
        beyond = [1000 * (one.total - path) for one in times]
        yield Cell(key.of(what="total beyond two round trips", source="capture"), "ms", beyond)
        yield Cell(key.of(what="round trip", source="ping"), "ms", [500 * path])
    for phase in ("ike_sa_init", "ike_auth"):
        known = [value for _, by_vici in timed if (value := by_vici.get(phase)) is not None]
        if known:
            yield Cell(key.of(what=phase, source="vici"), "ms", known)
    if overdue:
        yield Cell(key.of(what="given up"), "set-ups", [overdue])
    for what, count in (
        (UNASKED, sum(block.capture_alone for block in taken.blocks)),
        (UNSEEN, sum(block.unseen for block in taken.blocks)),
    ):
        if count:
            yield Cell(key.of(what=what), "set-ups", [count])
    yield from _delivered(key, taken.streams)


def _delivered(key: Key, streams: Sequence[Delivered]) -> Iterator[Cell]:
    missing = [share for one in streams if (share := one.missing_percent) is not None]
    served = [rate for one in streams if (rate := one.mbit_per_second) is not None]
    if missing:
        live = key.load in encoder.PRESETS
        yield Cell(key.of(what="frames missing"), "% of frames" if live else "% of the video", missing)
    if served:
        yield Cell(key.of(what="served"), "Mbit/s", served)


def _round_trip(taken: Taken) -> float:
    """Seconds, the median; 0 when there was no answer."""
    found = [trip for block in taken.blocks for trip in block.round_trips]
    return median(found) if found else 0.0


def _ratios(taken: Mapping[Key, Taken]) -> Iterator[dict[str, object]]:
    """Return the ratio of each loaded cell to the unloaded one of its profile and suite, round by round."""
    for key, what in taken.items():
        calm = taken.get(Key("priority", key.profile, suite=key.suite, apart=key.place))
        if key.part != "priority" or key.place == "none" or calm is None:
            continue
        # A run that was cut short has visited some cells once more than others.
        pairs = zip(map(_median, what.blocks), map(_median, calm.blocks), strict=False)
        ratios = [loaded / idle for loaded, idle in pairs if loaded is not None and idle]
        if ratios:
            about = f"{key.place} at nice {key.nice} over no load"
            span = {"median": median(ratios), "min": min(ratios), "max": max(ratios)}
            ours = {"profile": key.profile, "suite": key.suite, "load": key.load}
            yield {"key": {**ours, "what": about}, **span}


def _median(block: Block) -> float | None:
    totals = block.totals(SAMPLE_TIMEOUT)
    return median(totals) if totals else None


if __name__ == "__main__":
    sys.exit(main())
