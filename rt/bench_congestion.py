"""What a congested wire does to the clients of an access point: the experiment of Agosto-Padilla's dissertation.

Two clients ask a server for a page of 320 kB, alone and as a pair, while others send 0, 100, 125 or 150 Mbit/s over
the wire of 100 Mbit/s behind the access point, nine tenths by TCP. Throughput and delay are what the dissertation
measured (figures 2 to 5), whose values are kept beside. As controls the wire has room, without the most traffic and
with it, and frames take no time on the air.

hostapd, wpa_supplicant and the kernel's TCP run in a guest, whose time follows the executed instructions. A run that
ends early keeps its complete rounds, and --resume goes on with them.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rt.congestion import figures, paper
from rt.congestion.rig import CIRCUMSTANCES, ORDER, TOGETHER
from rt.measure import in_guest, results
from rt.measure.frame import Bench
from rt.measure.results import QUICK, MeasurementError, Result
from tests.lab.basics import patience
from tests.lab.machines import guest
from tests.lab.radio import cell

SECONDS = 7200.0
"""By this machine's clock; about fifteen for each round's circumstance on a quiet core."""
PATIENCE = 20
"""The guest's time leaps forward while nothing runs: deadlines that are to prove life need more of it."""
LEAST_PART = 0.5
"""Part of the others' traffic that the wire must carry, as far as it has room, or there was none."""
_COMMAND = f"""\
{in_guest.asking("hostapd", "wpasupplicant", "iperf3", "iproute2")}
export {patience.VARIABLE}={PATIENCE}
exec .venv/bin/python -m rt.congestion.rig"""
Row = Mapping[str, Any]


def main() -> int:
    """Boot the guest once for all rounds."""
    bench = Bench("congestion", __doc__, 2 if QUICK else 12, resumable=True)
    rounds = bench.parse().rounds
    bench.need(guest.obstacle())
    journal = bench.journal({"rounds": rounds, "order": ORDER})
    folder = results.DIRECTORY / "congestion"
    with bench.measuring():
        guest.prepare()
        bench.say(f"{rounds - len(journal)} rounds of {len(CIRCUMSTANCES)} circumstances")
        todo = range(len(journal), rounds)
        measure(
            todo, lambda rows: journal.add(str(len(journal)), {"guest": in_guest.asked(folder), "rows": rows}), folder
        )
    made = [journal[str(number)] for number in range(len(journal))]
    for one in made:
        _take(bench, one["rows"])
    if not bench.cut_short:
        journal.close()
    params = {"rounds": rounds, "page": cell.PAGE, "queue": cell.QUEUE, "tcp": cell.TCP_PART}
    params["order"] = ORDER
    said = {"paper": [point._asdict() for point in paper.POINTS], "citation": paper.CITATION}
    result = bench.result({**params, **said, "time": "1 ns for each instruction"})
    result.guest = in_guest.merged(one["guest"] for one in made)
    result.ratios.extend(ratios(result))
    return bench.finish(result, figures.draw)


def _take(bench: Bench, rows: Sequence[Row]) -> None:
    """Take the samples of one round."""
    for row in rows:
        key = {name: row[name] for name in ("air", "wire", "congestion", "how", "client")}
        bench.take({"what": "throughput", **key}, "Mbit/s", [row["throughput"]])
        bench.take({"what": "delay", **key}, "ms", [1000 * row["delay"]])
    for row in rows[:: sum(map(len, TOGETHER))]:  # the same for all pages of a circumstance
        if row["congestion"]:
            key = {"what": "others", **{name: row[name] for name in ("air", "wire", "congestion")}}
            bench.take(key, "Mbit/s", [row["carried"]])


def measure(rounds: range, keep: Callable[[list[Row]], None], folder: Path) -> None:
    """Measure these rounds in the guest and give each to ``keep``: a row for each client that asks for a page.

    A run that ends early, for whatever reason, keeps its complete rounds too. Raises MeasurementError.
    """
    if not rounds:
        return
    shutil.rmtree(folder, ignore_errors=True)
    command = f"{_COMMAND} {rounds.start} {rounds.stop}"
    try:
        outcome = guest.run_in_guest(command, folder, seconds=SECONDS, kernel="generic", deterministic=True)
    finally:
        left = folder / "congestion.jsonl"
        for line in left.read_text(encoding="utf-8").splitlines(keepends=True) if left.exists() else ():
            if line.endswith("\n"):  # else the guest died while it wrote
                keep(read(line))
    if outcome.status != 0:
        raise MeasurementError(f"status {outcome.status}: {outcome.output}{outcome.console}")


def read(line: str) -> list[Row]:
    """Return the rows of a round; raises MeasurementError when some are missing, or the traffic was none."""
    rows: list[Row] = json.loads(line)
    expected = len(CIRCUMSTANCES) * sum(map(len, TOGETHER))
    if len(rows) != expected:
        raise MeasurementError(f"{len(rows)} pages, expected {expected}")
    for row in rows:
        room = min(row["congestion"], row["wire"])
        if row["carried"] < LEAST_PART * room:
            raise MeasurementError(f"{row['carried']:.0f} Mbit/s of others' traffic where there was to be {room}")
    return rows


def ratios(result: Result) -> Iterator[Mapping[str, object]]:
    """Yield how many times the delay of the same wire without congestion a client has, and the same of throughput."""
    cells = [one for one in result.cells if one.key["what"] != "others"]
    same = ("what", "how", "client", "wire", "air")
    at = {(*(one.key[name] for name in same), one.key["congestion"]): one.samples for one in cells}
    for (*alike, level), samples in at.items():
        calm = at.get((*alike, 0))
        if level and calm:
            each = [sample / median(calm) for sample in samples]
            key = {**dict(zip(same, alike, strict=True)), "congestion": level, "to": "no congestion"}
            yield {"key": key, "median": median(each), "min": min(each), "max": max(each)}


if __name__ == "__main__":
    sys.exit(main())
