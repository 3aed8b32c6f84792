"""Set-up time by kernel: cold IKE set-ups on Debian's RT kernel and on its ordinary one with each model of preemption.

As bench-sa-setup has it, in a guest whose time follows the executed instructions (``rt.kernels.rig``): a line of three
nodes, charon with the kernel's ESP, no load and a receiver that is loaded at nice -20, profiles stock and governor.
cyclictest runs beside it. A nanosecond is one instruction, so that the figures compare kernels and profiles whatever
else this machine does; they are no times of hardware.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import Pool
from pathlib import Path
from statistics import median
from typing import Any

from rt.bench_latency import KERNELS, RT, Kernel, histogram
from rt.kernels import figure as kernels_figure
from rt.kernels.rig import LOADS, PROFILES
from rt.measure.frame import Bench
from rt.measure.results import DIRECTORY, QUICK, MeasurementError, Result
from rt.sa_setup.times import SetupTimes
from tests.lab.basics import patience
from tests.lab.machines import guest

SECONDS = 3600.0
"""By this machine's clock, for one kernel; some minutes on a quiet core."""
PATIENCE = 20
"""The guest's time leaps forward while nothing runs: deadlines that are to prove life need more of it."""
LEAST_PACKETS = 60
"""For each second of a load, in each direction, or it was none. The encoder sends 360 while it has the processor for
itself, and half as many beside set-ups that follow one another at once; its neighbour sends 2000."""
_KEY = f"0x{bytes(range(20)).hex()}"
"""Of no use to anybody: the state that it is for never sees a packet."""
_COMMAND = f"""\
modprobe -a veth xfrm_user esp4 esp6 aesni_intel gcm seqiv
for try in 1 2 3 4 5; do
    ip xfrm state add src ::1 dst ::2 proto esp spi 1 mode transport aead 'rfc4106(gcm(aes))' {_KEY} 128 && break
done
ip xfrm state flush
mkdir -p build/artifacts
mount --bind /results build/artifacts
export {patience.VARIABLE}={PATIENCE}
exec .venv/bin/python -m rt.kernels.rig"""
"""The kernel gives up waiting for a cipher's module after a while of the guest's time, which leaps while the module is
read: a second try finds it there. What a rig that failed leaves is kept with the results.
"""
PHASES: Mapping[str, Callable[[SetupTimes], float]] = {
    "total": lambda times: times.total,
    "ike_sa_init": lambda times: times.ike_sa_init,
    "ike_auth": lambda times: times.ike_auth,
}
Circumstances = tuple[str, str]
"""A profile and a load."""


@dataclass(frozen=True)
class Block:
    """What was measured of one kernel under one profile and load."""

    set_ups: Sequence[SetupTimes]
    wake_ups: Sequence[int]
    """Each one's lateness in microseconds."""


@dataclass(frozen=True)
class Measured:
    """What one kernel did."""

    release: str
    blocks: Mapping[Circumstances, Block]


def main() -> int:
    """Boot each kernel once, for all profiles and loads."""
    bench = Bench("kernels", __doc__, 5 if QUICK else 20, "set-ups for each kernel, profile and load")
    samples = bench.parse().rounds
    bench.need(guest.obstacle())
    measured: dict[Kernel, Measured] = {}
    with bench.measuring():
        guest.prepare()
        bench.say(f"{', '.join(kernel.name for kernel in KERNELS)}: {samples} set-ups for each profile and load")
        # Each emulated guest takes one core. Processes, because they can be ended when somebody interrupts.
        with Pool(len(os.sched_getaffinity(0))) as pool:
            for kernel, each in pool.imap_unordered(partial(_measure, samples=samples), KERNELS):
                measured[kernel] = each
                bench.say(f"{kernel.name}: measured")
    result = _result(bench, {kernel: measured[kernel] for kernel in KERNELS if kernel in measured})
    return bench.finish(result, kernels_figure.draw)


def _measure(kernel: Kernel, samples: int) -> tuple[Kernel, Measured]:
    """Boot it once, for all profiles and loads."""
    folder = DIRECTORY / "kernels" / kernel.name
    shutil.rmtree(folder, ignore_errors=True)
    command = f"{_COMMAND} {samples}"
    outcome = guest.run_in_guest(
        command, folder, seconds=SECONDS, kernel=kernel.kind, arguments=kernel.arguments, deterministic=True
    )
    if outcome.status != 0:
        raise MeasurementError(f"{kernel.name}: status {outcome.status}: {outcome.output}{outcome.console}")
    return kernel, read(folder, samples)


def read(folder: Path, samples: int) -> Measured:
    """Return what the guest left; raises MeasurementError when a set-up is lacking, or a load was none."""
    blocks = {each: _block(folder / f"{'-'.join(each)}.json", samples) for each in product(PROFILES, LOADS)}
    return Measured((folder / "release").read_text(encoding="ascii"), blocks)


def _block(path: Path, samples: int) -> Block:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    set_ups = [SetupTimes(**each) for each in found["set_ups"]]
    if len(set_ups) != samples:
        raise MeasurementError(f"{path}: {len(set_ups)} set-ups in the capture, expected {samples}")
    seconds = set_ups[-1].begin + set_ups[-1].total - set_ups[0].begin
    for what, packets in found["stream"].items():
        if what in _COUNTED and packets < LEAST_PACKETS * seconds:
            raise MeasurementError(f"{path}: {what} {packets} packets in {seconds:.1f} s are no load")
    return Block(set_ups, histogram(found["cyclictest"]))


_COUNTED = ("encoder_sent", "encoder_received")


def _result(bench: Bench, measured: Mapping[Kernel, Measured]) -> Result:
    releases = {kernel.name: each.release for kernel, each in measured.items()}
    params = {"samples": bench.options.rounds, "cpus": 1, "esp": "kernel", "nice": -20, "kernels": releases}
    for (profile, load), (kernel, each) in product(product(PROFILES, LOADS), measured.items()):
        key = {"profile": profile, "load": load, "kernel": kernel.name}
        block = each.blocks[profile, load]
        for phase, figure in PHASES.items():
            bench.take({"what": phase, **key}, "ms", [1000 * figure(times) for times in block.set_ups])
        bench.take({"what": "cyclictest", **key}, "us", block.wake_ups)
    result = bench.result({**params, "time": "1 ns for each instruction"})
    result.ratios += [*_by_kernel(measured), *_by_load(measured)]
    return result


def _by_kernel(measured: Mapping[Kernel, Measured]) -> Iterator[Mapping[str, object]]:
    """Return the factor by which a set-up takes longer with an ordinary kernel than with the RT kernel."""
    for (profile, load), kernel in product(product(PROFILES, LOADS), measured):
        if RT in measured and kernel is not RT:
            ratio = _median(measured[kernel], profile, load) / _median(measured[RT], profile, load)
            key = {"profile": profile, "load": load, "kernel": kernel.name, "to": RT.name}
            yield {"key": key, "median": ratio, "min": ratio, "max": ratio}


def _by_load(measured: Mapping[Kernel, Measured]) -> Iterator[Mapping[str, object]]:
    """Return the factor by which a load makes a set-up longer."""
    for profile, (kernel, each) in product(PROFILES, measured.items()):
        ratio = _median(each, profile, "loaded") / _median(each, profile, "none")
        key = {"profile": profile, "load": "loaded", "kernel": kernel.name, "to": "none"}
        yield {"key": key, "median": ratio, "min": ratio, "max": ratio}


def _median(measured: Measured, profile: str, load: str) -> float:
    return median(times.total for times in measured.blocks[profile, load].set_ups)


if __name__ == "__main__":
    sys.exit(main())
