"""What the driver b43 is made of, and what it asks of the kernel: the counts of Agosto-Padilla's dissertation.

`kernelconfig dissect` counts in the module of the lab guest's ordinary kernel, Universal Ctags in Debian's source.
Nothing is timed and nothing varies: a count has one sample.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rt.dissect import source
from rt.measure import plot
from rt.measure.frame import Bench
from rt.measure.results import MeasurementError
from tests.lab.basics.places import REPOSITORY
from tests.lab.machines import guest, guest_root

_MODULE = "kernel/drivers/net/wireless/broadcom/b43/b43.ko.xz"


def main() -> int:
    """Count the dissertation's values in the module and in the source."""
    bench = Bench("dissect", __doc__, rounds=1)
    bench.parse()
    bench.need(guest.obstacle())
    versions: dict[str, str] = {}
    with bench.measuring():
        versions["b43.ko"] = _module(bench)
        versions["source of b43"] = bench.visit("the source", source.fetch)
        driver = source.TREE / source.DRIVER
        for key, unit, value in source.counted(driver):
            bench.take(key, unit, [value])
        bench.take({"place": "source", "what": "headers of the system"}, "count", [source.headers(driver / "b43.h")])
    result = bench.result({"module": _MODULE, "driver": str(source.DRIVER)})
    result.peers = versions
    return bench.finish(result, lambda drawn: plot.boxes(drawn, "b43 by module and source", unjudged={"count", "%"}))


def _module(bench: Bench) -> str:
    """Count in the module and return the version of its kernel."""
    root = guest_root.built(bench.say)
    with root.in_use():
        tree = modules(root.directory / "kernels" / "generic")
        for row in bench.visit("b43.ko", lambda: dissected(tree)):
            if row["ours"] is not None:
                unit = "%" if row["what"].endswith("in %") else "count"
                bench.take({"place": row["place"], "what": row["what"]}, unit, [row["ours"]])
        return tree.name


def dissected(tree: Path) -> list[dict[str, Any]]:
    """Return the dissertation's rows with our counts, of the b43.ko in a kernel's folder of modules."""
    argv = ["-m", "kernelconfig", "dissect", "--paper", "--json", "--kernel", str(tree), str(tree / _MODULE)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "kernel-config")}
    done = subprocess.run([sys.executable, *argv], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise MeasurementError(f"kernelconfig dissect: status {done.returncode}; its message is above")
    rows: list[dict[str, Any]] = json.loads(done.stdout)["dissertation"]
    return rows


def modules(tree: Path) -> Path:
    """Return the folder of modules of an unpacked kernel."""
    found = sorted((tree / "usr/lib/modules").glob("*"))
    if len(found) != 1:
        raise MeasurementError(f"{tree}/usr/lib/modules: one kernel is needed, {len(found)} were found")
    return found[0]


if __name__ == "__main__":
    sys.exit(main())
