"""How long a cold set-up takes while a node streams video, by the load's place and priority and by scheduling profile.

The question of the paper of 2007 and its figures 8 and 9, redrawn: response time by the priority of the load, on the
receiver and on the relay. Line a - b - c, real encoder, real charon; phases from the capture on the initiator's link,
and independently from charon's events. Cells are taken in rounds, so that what the machine does meanwhile meets all.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from subprocess import TimeoutExpired

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rt.loads import encoder
from rt.measure.results import QUICK, Cell, Result
from rt.sa_setup.figures import draw
from rt.sa_setup.rig import Block, Circumstances, Load, Rig
from rt.sa_setup.targets import judged
from tests.lab.basics.shell import CommandError
from tests.lab.basics.waiting import NotInTimeError
from tests.lab.node import capabilities

PROFILES = ("paper-2007", "stock", "nice", "fifo", "governor")
NICE = (-20, -10, 0, 10, 19)
SUITES: Mapping[str, tuple[str, str]] = {
    "aes256gcm-x25519": ("aes256gcm16-prfsha256-x25519", "aes256gcm16-x25519"),
    "chacha20-x25519": ("chacha20poly1305-prfsha256-x25519", "chacha20poly1305-x25519"),
    "aes128ccm-x25519": ("aes128ccm16-prfsha256-x25519", "aes128ccm16-x25519"),
    "aes256gcm-p384": ("aes256gcm16-prfsha384-ecp384", "aes256gcm16-ecp384"),
    "aes256gcm-modp2048": ("aes256gcm16-prfsha256-modp2048", "aes256gcm16-modp2048"),
}
ROUNDS, SAMPLES = (1, 3) if QUICK else (3, 17)
STREAM_SECONDS = 4.0 if QUICK else 15.0
SPOILED = (NotInTimeError, CommandError, TimeoutError, TimeoutExpired)
"""What waiting for a node raises on a machine that is too busy."""
STREAM_RATE = 5
"""Set-ups a second beside a stream that is watched."""


@dataclass(frozen=True)
class Key:
    """What a cell is about; empty texts and 0 are left out of the result."""

    part: str
    """``priority``, ``loss``, ``suite`` or ``stream``."""
    profile: str
    place: str = "none"
    nice: int | None = None
    loss: int = 0
    retransmission: str = "ours"
    suite: str = ""
    encoder: str = ""
    rate: int | None = None
    apart: str = ""
    """Without a load: the node that has a processor to itself, as if it were the loaded one."""

    def of(self, **more: object) -> dict[str, object]:
        """For the result."""
        kept = {name: value for name, value in vars(self).items() if value not in ("", None)}
        return {**kept, **more}


@dataclass
class Taken:
    """All blocks of one cell."""

    blocks: list[Block] = field(default_factory=list)
    missing: list[float] = field(default_factory=list)
    """Frames that did not arrive, in per cent, by block."""


def cells(profiles: tuple[str, ...], nice: tuple[int, ...]) -> Iterator[tuple[Key, Circumstances]]:
    """Those whose set-ups are timed, ordered so that daemons are restarted seldom."""
    for profile in profiles:
        for place in ("receiver", "relay"):
            yield Key("priority", profile, apart=place), Circumstances(profile, apart=place)
            for value in nice:
                load = Load(place, value)
                yield Key("priority", profile, place, value, encoder=load.kind), Circumstances(profile, load)
    for loss in (1, 5):
        for stock in (False, True):
            key = Key("loss", "stock", loss=loss, retransmission="stock" if stock else "ours")
            yield key, Circumstances("stock", loss=loss, stock_retransmission=stock)
    for name, (ike, esp) in SUITES.items():
        policy = {"ike_proposals": [ike], "esp_proposals": [esp]}
        yield Key("suite", "stock", suite=name), Circumstances("stock", policy=policy)


def main() -> None:
    """Measure, write, draw, print."""
    arguments = _arguments()
    if problem := encoder.missing():
        sys.exit(f"bench-sa-setup: {problem}")
    taken: dict[Key, Taken] = {}
    planned = list(cells(tuple(arguments.profile or PROFILES), tuple(arguments.nice or NICE)))
    streams = list(_streams(tuple(arguments.profile or ("stock", "governor"))))
    with Rig() as rig, _progress() as progress:
        task = progress.add_task("cells", total=arguments.rounds * (len(planned) + len(streams)))
        visits = _visits(rig, taken, arguments, planned, streams)
        cut_short = through(visits, lambda: progress.advance(task))
        nice_counts = rig.nice_counts
    result = _result(taken, arguments, nice_counts=nice_counts, cut_short=cut_short)
    if not result.cells:
        sys.exit(f"bench-sa-setup: nothing was measured: {cut_short}")
    path = result.write()
    draw(result)
    print("\n".join([*result.lines(), "", *judged(result), str(path)]))
    if cut_short:
        sys.exit(f"bench-sa-setup: cut short: {cut_short}")


def _visits(
    rig: Rig,
    taken: dict[Key, Taken],
    arguments: argparse.Namespace,
    planned: Sequence[tuple[Key, Circumstances]],
    streams: Sequence[tuple[Key, Circumstances]],
) -> Iterator[Callable[[], None]]:
    """Yield the visits to cells, round by round.

    Each round goes the other way round, so that none of two cells always has the warmer machine.
    """
    for number in range(arguments.rounds):
        for key, circumstances in planned if number % 2 == 0 else reversed(planned):
            yield partial(_take, rig, taken.setdefault(key, Taken()), circumstances, arguments.samples)
        for key, circumstances in streams if number % 2 == 0 else reversed(streams):
            yield partial(_watch, rig, taken.setdefault(key, Taken()), circumstances, key.rate or 0)


def through(visits: Iterable[Callable[[], None]], on_done: Callable[[], None]) -> str:
    """Make all visits, a visit that a busy machine spoils once more; return why the run ended early, or nothing.

    What was measured until then is worth half an hour, so nothing of it is thrown away.
    """
    try:
        for visit in visits:
            try:
                visit()
            except SPOILED:
                visit()
            on_done()
    except SPOILED as error:
        return str(error)
    except KeyboardInterrupt:
        return "interrupted"
    return ""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_sa_setup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often every cell is visited")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="set-ups at each visit")
    parser.add_argument("--profile", action="append", choices=PROFILES, help="only these scheduling profiles")
    parser.add_argument("--nice", action="append", type=int, help="only these nice values of the load")
    return parser.parse_args()


def _progress() -> Progress:
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


def _streams(profiles: tuple[str, ...]) -> Iterator[tuple[Key, Circumstances]]:
    """A stream that is watched, with and without set-ups beside it."""
    for kind in encoder.PRESETS:
        for profile in profiles:
            for rate in (0, STREAM_RATE):
                load = Load("receiver", -20, kind)
                yield Key("stream", profile, "receiver", -20, encoder=kind, rate=rate), Circumstances(profile, load)


def _take(rig: Rig, taken: Taken, circumstances: Circumstances, samples: int) -> None:
    block = rig.take(circumstances, samples)
    taken.blocks.append(block)
    if block.frames:
        taken.missing.append(block.frames.missing_percent)


def _watch(rig: Rig, taken: Taken, circumstances: Circumstances, rate: int) -> None:
    if rate:
        samples = round(STREAM_SECONDS * rate)
        frames = rig.take(circumstances, samples, interval=1 / rate, within=STREAM_SECONDS).frames
    else:
        frames = rig.watch(circumstances, STREAM_SECONDS)
    assert frames is not None
    taken.missing.append(frames.missing_percent)


def _result(taken: Mapping[Key, Taken], arguments: argparse.Namespace, *, nice_counts: bool, cut_short: str) -> Result:
    params = {
        "rounds": arguments.rounds,
        "samples": arguments.samples,
        "esp": capabilities.probe().esp,
        "hops": 2,
        "nice_counts_between_sessions": nice_counts,
        "cut_short": cut_short,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    result = Result("sa-setup", params)
    for key, what in taken.items():
        result.cells += _cells(key, what)
    result.ratios = list(_ratios(taken))
    return result


def _cells(key: Key, taken: Taken) -> Iterator[Cell]:
    """By phase, from the capture and as meshsecd tells it."""
    times = [one for block in taken.blocks for one in block.times]
    phases = {
        "total": [one.total for one in times],
        "ike_sa_init": [one.ike_sa_init for one in times],
        "ike_auth": [one.ike_auth for one in times],
        "first_esp": [one.first_esp for one in times if one.first_esp is not None],
    }
    for phase, samples in phases.items():
        if samples:
            yield Cell(key.of(what=phase, source="capture"), "ms", [1000 * sample for sample in samples])
    path = 2 * _round_trip(taken)
    if key.place == "none" and times and path:
        beyond = [1000 * (one.total - path) for one in times]
        yield Cell(key.of(what="total beyond two round trips", source="capture"), "ms", beyond)
        yield Cell(key.of(what="round trip", source="ping"), "ms", [500 * path])
    if overdue := sum(block.overdue for block in taken.blocks):
        yield Cell(key.of(what="given up"), "set-ups", [overdue])
    told = [phases for block in taken.blocks for phases in block.told]
    for phase in ("ike_sa_init", "ike_auth"):
        known = [value for phases in told if (value := phases.get(phase)) is not None]
        if known:
            yield Cell(key.of(what=phase, source="vici"), "ms", known)
    if taken.missing:
        yield Cell(key.of(what="frames missing"), "% of frames", taken.missing)


def _round_trip(taken: Taken) -> float:
    """Seconds, the median; 0 when there was no answer."""
    found = [trip for block in taken.blocks for trip in block.round_trips]
    return median(found) if found else 0.0


def _ratios(taken: Mapping[Key, Taken]) -> Iterator[dict[str, object]]:
    """Each loaded cell over the unloaded one of its profile, round by round."""
    for key, what in taken.items():
        calm = taken.get(Key("priority", key.profile, apart=key.place))
        if key.part != "priority" or key.place == "none" or calm is None:
            continue
        # A run that was cut short has visited some cells once more than others.
        pairs = zip(map(_median, what.blocks), map(_median, calm.blocks), strict=False)
        ratios = [loaded / idle for loaded, idle in pairs if loaded is not None and idle]
        if ratios:
            about = f"{key.place} at nice {key.nice} over no load"
            span = {"median": median(ratios), "min": min(ratios), "max": max(ratios)}
            yield {"key": {"profile": key.profile, "what": about}, **span}


def _median(block: Block) -> float | None:
    return median(one.total for one in block.times) if block.times else None


if __name__ == "__main__":
    main()
