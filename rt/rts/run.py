"""Drives the model of the air by steps of a second, with a fixed RTS threshold or with meshsec-radio's decision.

Each sender decides for itself by its own counters, which are what nl80211 has of a station: frames, octets,
repetitions and failures. As with many drivers, the time on the air is not counted.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from meshsec.core.radio import rts, rts_evidence
from meshsec.core.radio.observed import RTS_OFF
from meshsec.core.radio.rts_evidence import Station
from rt.measure.results import MeasurementError, percentile
from rt.rts.places import KBPS, LONG, Place
from tests.lab.basics.places import REPOSITORY

OFF, MEASURED = "off", "measured"
STEP = 1.0
"""Seconds of virtual time; a leg of a trial takes one."""
_DAEMON = REPOSITORY / "daemon"
Report = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """What a run showed."""

    goodput: float
    """Mbit/s of all flows that always have something to send."""
    repeated: float
    """Repetitions for each frame, RTS without answer included."""
    bulk_delay: float
    """Milliseconds from source to destination, mean."""
    voice_delay: float
    """Milliseconds, 95th percentile."""
    voice_lost: float
    """Percentage of the voice's frames that some station gave up."""
    asking: float
    """Part of the time for which a sender had a threshold."""
    changes: float
    """Changes of the threshold that was kept, for each sender."""
    reasons: Sequence[str] = ()
    """Of each sender, at the end."""


@dataclass
class Sender:
    """One station's threshold: a fixed one, or the decision and the counters that it saw last."""

    fixed: int | None
    state: rts.State = field(default_factory=rts.State)
    before: Mapping[str, Station] = field(default_factory=dict)
    waited: float = 0.0

    @property
    def threshold(self) -> int:
        """Octets."""
        return self.state.threshold if self.fixed is None else self.fixed

    def step(self, counted: Mapping[str, int]) -> None:
        """Take the counters at the end of a step."""
        self.waited += STEP
        if self.fixed is not None or self.waited < self.state.wait:
            return
        now = {"neighbour": Station(**{name: counted[name] for name in _COUNTERS}, rate=KBPS / 1000)}
        self.state = rts.following(self.state, rts_evidence.sample(self.before, now, self.waited))
        self.before, self.waited = now, 0.0


_COUNTERS = ("frames", "octets", "retries", "failed")


def built() -> Path:
    """Build the program that the model of the air is driven through, and return it."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", _DAEMON / "target"))
    what = ["--release", "--locked", "--quiet", "--package", "airtime", "--example", "steps"]
    subprocess.run(["cargo", "build", "--manifest-path", str(_DAEMON / "Cargo.toml"), *what], check=True)
    return target / "release" / "examples" / "steps"


def run(program: Path, place: Place, threshold: str, seconds: int, seed: int) -> Run:
    """Run a place for so many seconds of virtual time. ``threshold``: octets, ``off`` or ``measured``."""
    fixed = None if threshold == MEASURED else RTS_OFF if threshold == OFF else int(threshold)
    senders = {station: Sender(fixed) for station in place.senders}
    reports, asked = [], 0
    with _air(program, place, seed) as step:
        for number in range(seconds):
            asked += sum(sender.threshold != RTS_OFF for sender in senders.values())
            links = place.then if place.then and number == seconds // 2 else None
            reports.append(step([_octets(senders.get(station)) for station in range(place.stations)], links))
            for station, sender in senders.items():
                sender.step(reports[-1]["stations"][station])
    return _summed(place, reports, list(senders.values()), asked / (seconds * len(senders)))


def _octets(sender: Sender | None) -> int | None:
    return None if sender is None or sender.threshold == RTS_OFF else sender.threshold


@contextmanager
def _air(program: Path, place: Place, seed: int) -> Iterator[Any]:
    """Yield a function that goes one step with a threshold for each station, and returns all counters."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        asked, answered = process.stdin, process.stdout

        def tell(line: Mapping[str, Any]) -> None:
            asked.write(json.dumps(line) + "\n")
            asked.flush()

        def step(thresholds: Sequence[int | None], links: Any) -> Report:
            with suppress(BrokenPipeError):
                tell({"seconds": STEP, "rts": thresholds, "links": links})
            if not (line := answered.readline()):
                raise MeasurementError(f"{program} has ended")
            report: Report = json.loads(line)
            return report

        tell({"stations": place.stations, "links": place.links, "flows": place.flows, "seed": seed})
        try:
            yield step
        finally:
            process.kill()


def _summed(place: Place, reports: Sequence[Report], senders: Sequence[Sender], asking: float) -> Run:
    last = reports[-1]
    *bulk, voice = last["flows"]
    delays: list[list[float]] = [[] for _ in place.flows]
    for report in reports:
        for known, flow in zip(delays, report["flows"], strict=True):
            known.extend(flow["delays"])
    frames = sum(one["frames"] for one in last["stations"])
    return Run(
        goodput=sum(flow["delivered"] for flow in bulk) * LONG * 8e-6 / (STEP * len(reports)),
        repeated=sum(one["retries"] for one in last["stations"]) / frames,
        bulk_delay=1000 * mean(delay for known in delays[:-1] for delay in known),
        voice_delay=1000 * percentile(sorted(delays[-1]), 95),
        voice_lost=100 * voice["lost"] / max(1, voice["lost"] + voice["delivered"]),
        asking=asking,
        changes=mean(sender.state.changes for sender in senders),
        reasons=[str(sender.state) for sender in senders if sender.fixed is None],
    )
