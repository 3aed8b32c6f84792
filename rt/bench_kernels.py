"""Set-up time by kernel: cold IKE set-ups on Debian's RT kernel and on its ordinary one with each model of preemption.

As bench-sa-setup has it, in a guest whose time follows the executed instructions (``rt.kernels.rig``): a line of three
nodes, charon with the kernel's ESP, no load and a receiver that is loaded at nice -20, profiles stock and governor.
cyclictest runs beside it. A nanosecond is one instruction, so that the figures compare kernels and profiles whatever
else this machine does; they are no times of hardware.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from multiprocessing import Pool
from statistics import median

from rt.bench_latency import KERNELS, RT, Kernel
from rt.kernels import figure as kernels_figure
from rt.kernels.boot import Boot, Ground, boot
from rt.kernels.cases import Case
from rt.measure import in_guest
from rt.measure.cores import awaited
from rt.measure.frame import Bench
from rt.measure.results import DIRECTORY, QUICK, MeasurementError, Result
from rt.sa_setup.policy import OURS
from rt.sa_setup.times import SetupTimes
from tests.lab.machines import guest

PROFILES = ("stock", "governor")
LOADS: Mapping[str, int | None] = {"none": None, "loaded": -20}
"""The receiver's load and its nice value."""
PHASES: Mapping[str, Callable[[SetupTimes], float]] = {
    "total": lambda times: times.total,
    "ike_sa_init": lambda times: times.ike_sa_init,
    "ike_auth": lambda times: times.ike_auth,
}
Circumstances = tuple[str, str]
"""A profile and a load."""
CASES: Mapping[Circumstances, Case] = {
    (profile, load): Case(profile, OURS, "receiver", nice) for profile, (load, nice) in product(PROFILES, LOADS.items())
}


def main() -> int:
    """Boot each kernel once, for all profiles and loads."""
    bench = Bench("kernels", __doc__, 5 if QUICK else 20, "set-ups for each kernel, profile and load")
    samples = bench.parse().rounds
    bench.need(guest.obstacle())
    measured: dict[Kernel, Boot] = {}
    with bench.measuring():
        guest.prepare()
        bench.say(f"{', '.join(kernel.name for kernel in KERNELS)}: {samples} set-ups for each profile and load")
        # Each emulated guest takes one core. Processes, because they can be ended when somebody interrupts.
        with Pool(len(os.sched_getaffinity(0))) as pool:
            for kernel, each in awaited(pool.imap_unordered(partial(_measure, samples=samples), KERNELS)):
                measured[kernel] = each
                bench.say(f"{kernel.name}: measured")
    result = _result(bench, {kernel: measured[kernel] for kernel in KERNELS if kernel in measured})
    return bench.finish(result, kernels_figure.draw)


def _measure(kernel: Kernel, samples: int) -> tuple[Kernel, Boot]:
    """Boot it once, for all profiles and loads."""
    booted = boot(Ground(kernel), DIRECTORY / "kernels" / kernel.name, samples, list(CASES.values()))
    complete(booted, samples)
    return kernel, booted


def complete(booted: Boot, samples: int) -> None:
    """Raise MeasurementError when a set-up is missing."""
    for case, each in booted.cases.items():
        if len(each.block.times) != samples:
            raise MeasurementError(f"{case}: {len(each.block.times)} set-ups in the capture, expected {samples}")


def _result(bench: Bench, measured: Mapping[Kernel, Boot]) -> Result:
    releases = {kernel.name: each.release for kernel, each in measured.items()}
    params = {"samples": bench.options.rounds, "cpus": 1, "esp": "kernel", "nice": -20, "kernels": releases}
    for (profile, load), (kernel, each) in product(product(PROFILES, LOADS), measured.items()):
        key = {"profile": profile, "load": load, "kernel": kernel.name}
        measured_case = each.cases[CASES[profile, load]]
        for phase, figure in PHASES.items():
            bench.take({"what": phase, **key}, "ms", [1000 * figure(times) for times in measured_case.block.times])
        bench.take({"what": "cyclictest", **key}, "us", measured_case.wake_ups)
    result = bench.result({**params, "time": "1 ns for each instruction"})
    result.guest = in_guest.merged(each.guest for each in measured.values())
    result.ratios += [*_by_kernel(measured), *_by_load(measured)]
    return result


def _by_kernel(measured: Mapping[Kernel, Boot]) -> Iterator[Mapping[str, object]]:
    """Return the factor by which a set-up takes longer with an ordinary kernel than with the RT kernel."""
    for (profile, load), kernel in product(product(PROFILES, LOADS), measured):
        if RT in measured and kernel is not RT:
            ratio = _median(measured[kernel], profile, load) / _median(measured[RT], profile, load)
            key = {"profile": profile, "load": load, "kernel": kernel.name, "to": RT.name}
            yield {"key": key, "median": ratio, "min": ratio, "max": ratio}


def _by_load(measured: Mapping[Kernel, Boot]) -> Iterator[Mapping[str, object]]:
    """Return the factor by which a load makes a set-up longer."""
    for profile, (kernel, each) in product(PROFILES, measured.items()):
        ratio = _median(each, profile, "loaded") / _median(each, profile, "none")
        key = {"profile": profile, "load": "loaded", "kernel": kernel.name, "to": "none"}
        yield {"key": key, "median": ratio, "min": ratio, "max": ratio}


def _median(measured: Boot, profile: str, load: str) -> float:
    return median(times.total for times in measured.cases[CASES[profile, load]].block.times)


if __name__ == "__main__":
    sys.exit(main())
