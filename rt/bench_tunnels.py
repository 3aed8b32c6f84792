"""What each way to carry a network's packets inside a pair's SA costs: bytes, processor time, memory, set-up.

The candidates are VXLAN-GPE, ip6tnl and ip6gre with one device for all peers or one for each, XFRM interfaces, and
traffic selectors. All use AES-256-GCM with static SAs between two namespaces. By default a guest with Debian's kernel
measures, whose time follows its executed instructions: a nanosecond is one instruction, so that the figures compare the
candidates and are no rates of hardware. With ``--here`` this machine's kernel measures.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rt.measure import in_guest
from rt.measure.frame import Bench
from rt.measure.plot import boxes
from rt.measure.results import DIRECTORY, QUICK, MeasurementError
from tests.lab.basics import patience
from tests.lab.machines import guest

SECONDS = 3600.0
PATIENCE = 20
"""The guest's time leaps while nothing runs."""
_MODULES = "veth dummy vxlan ip6_tunnel ip6_gre xfrm_interface xfrm_user esp4 esp6 aesni_intel gcm seqiv"


def main() -> int:
    """Measure in the guest, or here."""
    bench = Bench("tunnels", __doc__, rounds=1 if QUICK else 5, rounds_are="streams and set-ups of each candidate")
    bench.flags.add_argument("--here", action="store_true", help="with this machine's kernel, not in the guest")
    options = bench.parse()
    folder = DIRECTORY / "tunnels"
    folder.mkdir(parents=True, exist_ok=True)
    taken = folder / "taken"
    taken.unlink(missing_ok=True)
    with bench.measuring():
        if options.here:
            _measure_here(options.rounds, taken)
        else:
            bench.need(guest.obstacle())
            bench.say("the guest")
            _measure_in_guest(options.rounds, folder, taken.name)
    lines = list(read(taken))
    for one in lines:
        if "value" in one:
            bench.take(one["key"], one["unit"], [one["value"]])
    lacking = [f"this kernel lacks {one['key']['candidate']}: {one['lacks']}" for one in lines if "lacks" in one]
    if len(lines) == len(lacking):
        bench.need("\n".join(lacking))
    params = {"rounds": options.rounds, "guest": not options.here, "lacking": lacking}
    result = bench.result(params)
    result.guest = {} if options.here else in_guest.left(folder)
    return bench.finish(result, partial(boxes, title="Networks inside a pair's SA"), lacking)


def _measure_here(rounds: int, taken: Path) -> None:
    _checked(subprocess.run([sys.executable, "-m", "rt.tunnels.measure", str(rounds), str(taken)], check=False))


def _checked(done: subprocess.CompletedProcess[bytes]) -> None:
    if done.returncode:
        raise MeasurementError(f"rt.tunnels.measure: status {done.returncode}")


def _measure_in_guest(rounds: int, folder: Path, name: str) -> None:
    measure = f".venv/bin/python -m rt.tunnels.measure {rounds} /results/{name}"
    command = f"{in_guest.asking()}modprobe -a {_MODULES}\n{patience.VARIABLE}={PATIENCE} {measure}"
    outcome = guest.run_in_guest(command, folder, seconds=SECONDS, kernel="generic", deterministic=True)
    if outcome.status != 0:
        raise MeasurementError(f"status {outcome.status}: {outcome.output}{outcome.console}")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what was measured; a guest that was ended may leave half a line."""
    text = path.read_text(encoding="ascii") if path.exists() else ""
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


if __name__ == "__main__":
    sys.exit(main())
