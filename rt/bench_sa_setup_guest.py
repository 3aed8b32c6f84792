"""Figures 8 and 9 of the paper of 2007 in a guest: by kernel and model of preemption, and on an air that takes time.

Cold set-ups on a line a - b - c of three nodes, by the nice value of a load on the relay (figure 8) and on the receiver
(figure 9): with the paper's suite and its IKE daemon at nice 10, and with our suite, governed. ESP is the kernel's.
Each of Debian's kernels is booted once with cables between the nodes. One is booted with radios, too, whose air
(airmedium) IKE shares with the load's stream. The guest's time follows the executed instructions (``rt.kernels.rig``):
compare cells, not milliseconds.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from rt.bench_latency import KERNELS
from rt.kernels import paper_figure
from rt.kernels.boot import Ground, boot, read
from rt.kernels.cases import Case, of_paper
from rt.kernels.rig import CHANNEL, SAMPLE_TIMEOUT
from rt.measure import in_guest
from rt.measure.cores import awaited
from rt.measure.frame import Bench
from rt.measure.journal import Journal
from rt.measure.results import DIRECTORY, QUICK, Cell, MeasurementError, Result
from rt.sa_setup.block import Block
from rt.sa_setup.plan import NICE, Key
from tests.lab.machines import guest

LOAD = "light"
"""``rt.loads.light``: the likeness of a live encoder."""
PAUSE = 0.1
"""Seconds of the guest between set-ups, in which a load of the least priority runs, too."""
ON_RADIO = KERNELS[-1]
"""The kernel that is booted with radios."""
GROUNDS = (*(Ground(kernel) for kernel in KERNELS), Ground(ON_RADIO, "radio"))
CASES = tuple(of_paper((-20, 0, 19) if QUICK else NICE))


def main() -> int:
    """Boot each kernel once for all cases, or for those that a run before has not measured."""
    bench = Bench("sa-setup-guest", __doc__, 3 if QUICK else 10, "set-ups of each case", resumable=True)
    names = [str(ground) for ground in GROUNDS]
    about = f"boot only this one now, of {'; '.join(names)}; --resume goes on with the others"
    bench.flags.add_argument("--boot", action="append", choices=names, help=about, metavar="ONE")
    options = bench.parse()
    bench.need(guest.obstacle())
    journal = bench.journal({"boots": names, "cases": list(map(str, CASES)), "samples": options.rounds})
    wanted: dict[Ground, Sequence[Case]] = {
        ground: cases
        for ground in GROUNDS
        if str(ground) in (options.boot or names)
        and (cases := [case for case in CASES if _visit(ground, case) not in journal])
    }
    with bench.measuring():
        guest.prepare()
        for ground in wanted:  # What a run before has left there is in the journal, or was measured in another way.
            shutil.rmtree(_folder(ground), ignore_errors=True)
        _boot_all(bench, journal, wanted)
    found = {
        ground: {case: journal[visit] for case in CASES if (visit := _visit(ground, case)) in journal}
        for ground in GROUNDS
    }
    missing = [
        f"{ground} ({len(CASES) - len(cases)} of {len(CASES)} cases)"
        for ground, cases in found.items()
        if len(cases) < len(CASES)
    ]
    if missing:
        reasons = [bench.cut_short] if bench.cut_short else []
        bench.cut_short = "; ".join([*reasons, f"not measured yet: {', '.join(missing)}"])
    else:
        journal.close()
    return bench.finish(_result(bench, {ground: cases for ground, cases in found.items() if cases}), paper_figure.draw)


def _boot_all(bench: Bench, journal: Journal, wanted: dict[Ground, Sequence[Case]]) -> None:
    """Boot each of them, and keep what it measured, also when it fails or all of it is interrupted."""
    boots = list(wanted.items())
    try:
        # As in bench-kernels: each emulated guest takes one core.
        with ThreadPool(len(os.sched_getaffinity(0))) as pool:
            results = pool.imap_unordered(partial(_boot, samples=bench.options.rounds), boots)
            for ground, failure in awaited(results):
                _keep(bench, journal, ground, wanted.pop(ground))
                if failure:
                    bench.left_out.append(failure)
                bench.say(failure or f"{ground}: measured")
    finally:
        while wanted:
            _keep(bench, journal, *wanted.popitem())


def _boot(wanted: tuple[Ground, Sequence[Case]], samples: int) -> tuple[Ground, str]:
    """Return the ground, and why its boot failed."""
    ground, cases = wanted
    try:
        boot(ground, _folder(ground), samples, cases, PAUSE)
    except MeasurementError as error:
        print(error, file=sys.stderr, flush=True)
        return ground, f"{ground}: the boot failed; {_folder(ground)}/output says why"
    return ground, ""


def _keep(bench: Bench, journal: Journal, ground: Ground, cases: Sequence[Case]) -> None:
    """Put what the guest has left of these cases into the journal."""
    for case in cases:
        try:
            booted = read(_folder(ground), [case])
        except (OSError, ValueError):  # Not measured, or cut off while it was written.
            continue
        except MeasurementError as error:
            bench.left_out.append(str(error))
            continue
        one = booted.cases[case]
        found = {"release": booted.release, "guest": dict(booted.guest), "latest": max(one.wake_ups)}
        found["block"] = one.block.as_dict()
        journal.add(_visit(ground, case), found)


def _folder(ground: Ground) -> Path:
    return DIRECTORY / "sa-setup-guest" / str(ground).replace(", ", "-")


def _visit(ground: Ground, case: Case) -> str:
    return f"{ground}: {case}"


def _result(bench: Bench, found: Mapping[Ground, Mapping[Case, Any]]) -> Result:
    params = {
        "samples": bench.options.rounds,
        "esp": "kernel",
        "hops": 2,
        "cpus": 1,
        "time": "1 ns for each instruction",
        "radio": f"airmedium, {CHANNEL.rate} Mbit/s",
        "given_up_after_s": SAMPLE_TIMEOUT,
        "kernels": {ground.kernel.name: one["release"] for ground, cases in found.items() for one in cases.values()},
    }
    result = bench.result(params, [cell for ground, cases in found.items() for cell in _cells(ground, cases)])
    result.guest = in_guest.merged(one.get("guest", {}) for cases in found.values() for one in cases.values())
    return result


def _cells(ground: Ground, cases: Mapping[Case, Any]) -> Iterator[Cell]:
    where = {"testbed": ground.testbed, "kernel": ground.kernel.name}
    for case, found in cases.items():
        key, block = _key(case), Block.from_dict(found["block"])
        if totals := block.totals(SAMPLE_TIMEOUT):
            total = key.of(what="total", source="capture", **where)
            yield Cell(total, "ms", [1000 * sample for sample in totals], block.overdue)
        phases = {
            "ike_sa_init": [times.ike_sa_init for times in block.times],
            "ike_auth": [times.ike_auth for times in block.times],
        }
        for phase, samples in phases.items():
            if samples:
                yield Cell(key.of(what=phase, source="capture", **where), "ms", [1000 * sample for sample in samples])
        yield Cell(key.of(what="latest wake-up", **where), "us", [found["latest"]])
        if block.overdue:
            yield Cell(key.of(what="given up", **where), "set-ups", [block.overdue])


def _key(case: Case) -> Key:
    """Return the key that bench-sa-setup would give it."""
    if case.nice is None:
        return Key("priority", case.profile, suite=case.suite, apart=case.place)
    return Key("priority", case.profile, case.place, case.nice, suite=case.suite, load=LOAD)


if __name__ == "__main__":
    sys.exit(main())
