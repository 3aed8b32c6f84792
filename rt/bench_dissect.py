"""What a driver of radios asks of the kernel: the counts of Agosto-Padilla's dissertation, in b43.ko of Debian 13.

`kernelconfig dissect` counts; the module is of the lab guest's ordinary kernel, so that every machine counts the same
file. Nothing is timed and nothing varies: a count has one sample.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rt.measure import plot
from rt.measure.frame import Bench
from rt.measure.results import MeasurementError
from tests.lab.basics.places import REPOSITORY
from tests.lab.machines import guest, guest_root

_MODULE = "kernel/drivers/net/wireless/broadcom/b43/b43.ko.xz"


def main() -> int:
    """Count the dissertation's values in the module."""
    bench = Bench("dissect", __doc__, rounds=1)
    bench.parse()
    bench.need(guest.obstacle())
    version = ""
    with bench.measuring():
        root = guest_root.built(bench.say)
        with root.in_use():
            tree = modules(root.directory / "kernels" / "generic")
            version = tree.name
            for row in bench.visit("b43.ko", lambda: dissected(tree)):
                if row["ours"] is not None:
                    unit = "%" if row["what"].endswith("in %") else "count"
                    bench.take({"place": row["place"], "what": row["what"]}, unit, [row["ours"]])
    result = bench.result({"module": _MODULE})
    result.peers = {"kernel of b43.ko": version}
    return bench.finish(result, lambda drawn: plot.boxes(drawn, f"b43.ko of {version}", unjudged={"count", "%"}))


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
