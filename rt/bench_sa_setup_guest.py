"""Figures 8 and 9 of the paper of 2007 in a guest: by kernel and model of preemption, and on an air that takes time.

Cold set-ups on a line a - b - c of three nodes, by the nice value of a load on the relay (figure 8) and on the receiver
(figure 9): with the paper's suite and its IKE daemon at nice 10, and with our suite, governed. ESP is the kernel's.
Each of Debian's kernels is booted once with cables between the nodes. One is booted with radios, too, whose air
(airmedium) IKE shares with the load's stream. The guest's time follows the executed instructions (``rt.kernels.rig``):
compare cells, not milliseconds.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Any

from rt.bench_latency import KERNELS
from rt.kernels import paper_figure
from rt.kernels.boot import Boot, Ground, boot
from rt.kernels.cases import Case, of_paper
from rt.kernels.rig import CHANNEL, SAMPLE_TIMEOUT
from rt.measure.frame import Bench
from rt.measure.results import DIRECTORY, QUICK, Cell, Result
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
    """Boot each kernel once for all cases."""
    bench = Bench("sa-setup-guest", __doc__, 3 if QUICK else 10, "set-ups of each case", resumable=True)
    names = [str(ground) for ground in GROUNDS]
    about = f"boot only this one now, of {'; '.join(names)}; --resume goes on with the others"
    bench.flags.add_argument("--boot", action="append", choices=names, help=about, metavar="ONE")
    options = bench.parse()
    bench.need(guest.obstacle())
    journal = bench.journal({"boots": names, "cases": list(map(str, CASES)), "samples": options.rounds})
    with bench.measuring():
        guest.prepare()
        wanted = [each for each in GROUNDS if str(each) not in journal and str(each) in (options.boot or names)]
        # As in bench-kernels: each emulated guest takes one core.
        with ThreadPool(len(os.sched_getaffinity(0))) as pool:
            for name, boot_found in pool.imap_unordered(partial(_boot, samples=options.rounds), wanted):
                journal.add(name, boot_found)
                bench.say(f"{name}: measured")
    found = {ground: journal[str(ground)] for ground in GROUNDS if str(ground) in journal}
    missing = [name for name in names if name not in journal]
    if missing:
        bench.cut_short = bench.cut_short or f"not booted yet: {'; '.join(missing)}"
    else:
        journal.close()
    return bench.finish(_result(bench, found), paper_figure.draw)


def _result(bench: Bench, found: Mapping[Ground, Mapping[str, Any]]) -> Result:
    params = {
        "samples": bench.options.rounds,
        "esp": "kernel",
        "hops": 2,
        "cpus": 1,
        "time": "1 ns for each instruction",
        "radio": f"airmedium, {CHANNEL.rate} Mbit/s",
        "given_up_after_s": SAMPLE_TIMEOUT,
        "kernels": {ground.kernel.name: each["release"] for ground, each in found.items()},
    }
    return bench.result(params, [cell for ground, each in found.items() for cell in _cells(ground, each["cases"])])


def _boot(ground: Ground, samples: int) -> tuple[str, Mapping[str, Any]]:
    folder = DIRECTORY / "sa-setup-guest" / str(ground).replace(", ", "-")
    return str(ground), _as_json(boot(ground, folder, samples, CASES, PAUSE))


def _as_json(booted: Boot) -> Mapping[str, Any]:
    """Return what a boot found; of the wake-ups the latest one."""
    cases = {
        str(case): {"block": each.block.as_dict(), "latest": max(each.wake_ups)} for case, each in booted.cases.items()
    }
    return {"release": booted.release, "cases": cases}


def _cells(ground: Ground, cases: Mapping[str, Any]) -> Iterator[Cell]:
    where = {"testbed": ground.testbed, "kernel": ground.kernel.name}
    for text, found in cases.items():
        key, block = _key(Case.of(text)), Block.from_dict(found["block"])
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
