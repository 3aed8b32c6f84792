"""How long a cold set-up takes while a node streams video, by the load's place and priority and by scheduling profile.

The question of the paper of 2007 and its figures 8 and 9, redrawn: response time by the priority of the load, on the
receiver and on the relay. Line a - b - c, real encoder, real charon; phases from the capture on the initiator's link,
and independently from charon's events. Cells are taken in rounds, so that what the machine does meanwhile meets all.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from rt.loads import encoder
from rt.measure.frame import Bench
from rt.measure.results import QUICK, Cell, Result
from rt.sa_setup.figures import draw
from rt.sa_setup.rig import Block, Circumstances, Load, Rig
from rt.sa_setup.targets import judged
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
    """Return those whose set-ups are timed, ordered so that daemons are restarted seldom."""
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


def main() -> int:
    """Visit every cell in every round."""
    bench = Bench("sa-setup", __doc__, ROUNDS, "how often every cell is visited")
    bench.flags.add_argument("--samples", type=int, default=SAMPLES, help="set-ups at each visit")
    bench.flags.add_argument("--profile", action="append", choices=PROFILES, help="only these scheduling profiles")
    bench.flags.add_argument("--nice", action="append", type=int, help="only these nice values of the load")
    options = bench.parse()
    bench.need(encoder.missing())
    planned = [
        *cells(tuple(options.profile or PROFILES), tuple(options.nice or NICE)),
        *_streams(tuple(options.profile or ("stock", "governor"))),
    ]
    taken: dict[Key, Taken] = {}
    nice_counts = False
    with bench.measuring(), Rig() as rig:
        nice_counts = rig.nice_counts
        for _, (key, circumstances) in bench.in_rounds(planned):
            about = ", ".join(map(str, key.of().values()))
            bench.visit(
                about, partial(_visit, rig, key, taken.setdefault(key, Taken()), circumstances, options.samples)
            )
    result = _result(bench, taken, nice_counts=nice_counts)
    return bench.finish(result, draw, judged(result))


def _visit(rig: Rig, key: Key, taken: Taken, circumstances: Circumstances, samples: int) -> None:
    if key.part == "stream":
        _watch(rig, taken, circumstances, key.rate or 0)
    else:
        _take(rig, taken, circumstances, samples)


def _streams(profiles: tuple[str, ...]) -> Iterator[tuple[Key, Circumstances]]:
    """Return the figures of a watched stream, with and without set-ups beside it."""
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


def _result(bench: Bench, taken: Mapping[Key, Taken], *, nice_counts: bool) -> Result:
    params = {
        "rounds": bench.options.rounds,
        "samples": bench.options.samples,
        "esp": capabilities.probe().esp,
        "hops": 2,
        "nice_counts_between_sessions": nice_counts,
    }
    result = bench.result(params, [cell for key, what in taken.items() for cell in _cells(key, what)])
    result.ratios = list(_ratios(taken))
    return result


def _cells(key: Key, taken: Taken) -> Iterator[Cell]:
    """Return the cells by phase, from the capture and from meshsecd."""
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
    measured = [phases for block in taken.blocks for phases in block.phases]
    for phase in ("ike_sa_init", "ike_auth"):
        known = [value for phases in measured if (value := phases.get(phase)) is not None]
        if known:
            yield Cell(key.of(what=phase, source="vici"), "ms", known)
    if taken.missing:
        yield Cell(key.of(what="frames missing"), "% of frames", taken.missing)


def _round_trip(taken: Taken) -> float:
    """Seconds, the median; 0 when there was no answer."""
    found = [trip for block in taken.blocks for trip in block.round_trips]
    return median(found) if found else 0.0


def _ratios(taken: Mapping[Key, Taken]) -> Iterator[dict[str, object]]:
    """Return the ratio of each loaded cell to the unloaded one of its profile, round by round."""
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
    sys.exit(main())
