"""What AES-CCM of the crate aes_ccm costs by size, beside RustCrypto, OpenSSL, the kernel and the other AEADs here.

Times of one message with AES instructions and without; 1000 messages over UDP on loopback, as in figure 12 of
Agosto-Padilla's dissertation, whose figures are kept beside; instructions on a bare machine, which QEMU emulates;
and whether the time depends on secrets.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from rt.ccm import figures, guest, kernel, paper, programs
from rt.measure.frame import Bench
from rt.measure.results import QUICK, Cell
from tests.lab.machines import guest as lab

SIZES = (50, 100, 200, 500, 1000, 1500, 8192)
UDP_SIZES = (50, 250, 500, 750, 1000)
MESSAGES = 1000
"""UDP_SIZES and MESSAGES are those of the dissertation."""
SAMPLES = 50_000 if QUICK else 500_000
"""Of each question whether the time depends on secrets."""
OURS = "AES-128-CCM, meshsec"
_EMULATED = "instructions, emulated"
_SUSPICIOUS = 4.5
"""|t| from which dudect speaks of a difference."""


def main() -> int:
    """Measure all that this machine has."""
    bench = Bench("ccm", __doc__, rounds=5 if QUICK else 30)
    bench.flags.add_argument("--guest", action="store_true", help="also in the guest, whose kernel has ccm(aes)")
    if bench.parse().guest:
        bench.need(lab.obstacle())
    lacking: list[str] = []
    with bench.measuring():
        fast, slow = (programs.built(soft=soft) for soft in (False, True))
        _times(bench, fast, soft=False)
        _times(bench, slow, soft=True)
        lacking += _kernel(bench)
        lacking += _udp(bench, fast)
        lacking += _bare(bench)
        if bench.options.guest:
            _guest(bench, fast)
        _leaks(bench, fast)
    params = {"sizes": SIZES, "messages": MESSAGES, "lacking": lacking, "paper": [row._asdict() for row in paper.ROWS]}
    result = bench.result({**params, "citation": paper.CITATION})
    result.ratios.extend(ratios(result.cells))
    result.peers = programs.versions()
    result.guest = guest.versions() if bench.options.guest else {}
    return bench.finish(result, figures.draw, [*_sentences(result.ratios), *lacking])


def _times(bench: Bench, program: Path, *, soft: bool) -> None:
    where = figures.WITHOUT if soft else figures.WITH
    arguments = ("time", bench.options.rounds, *SIZES)
    for line in bench.visit(where, partial(programs.lines, program, *arguments, soft=soft)):
        bench.take({"where": where, **{name: line[name] for name in ("what", "by", "octets")}}, "ns", [line["ns"]])


def _kernel(bench: Bench) -> Iterable[str]:
    if lacks := kernel.obstacle():
        return [lacks]
    for octets in SIZES:
        for _ in range(bench.options.rounds):
            for what, value in kernel.nanoseconds(octets).items():
                key = {"where": figures.WITH, "what": what, "by": kernel.NAME, "octets": octets}
                bench.take(key, "ns", [value])
    return []


def _udp(bench: Bench, program: Path) -> Iterable[str]:
    if os.geteuid() != 0:
        return ["no messages over UDP: a network namespace needs root"]
    arguments = ("udp", MESSAGES, *UDP_SIZES)
    for _ in range(bench.options.rounds):
        for line in bench.visit(figures.LOOPBACK, partial(programs.lines_on_loopback, program, *arguments)):
            by = "" if line["what"].endswith("plain") else line["by"]
            key = {"where": figures.LOOPBACK, "what": line["what"], "by": by, "octets": line["octets"]}
            bench.take(key, "ms", [line["ms"]])
    return []


def _bare(bench: Bench) -> Iterable[str]:
    if lacks := programs.bare_obstacle():
        return [f"no bare machine: {lacks}"]
    for soft, where in ((False, figures.BARE), (True, figures.BARE_WITHOUT)):
        for line in bench.visit(where, partial(programs.lines_on_bare_machine, soft=soft)):
            key = {"where": where, "what": line["what"], "by": OURS, "octets": line["octets"]}
            bench.take(key, _EMULATED, [line["cycles"]])
    return []


def _guest(bench: Bench, program: Path) -> None:
    for line in bench.visit(figures.GUEST, partial(guest.lines, program, SIZES)):
        key = {"where": figures.GUEST, **{name: line[name] for name in ("what", "by", "octets")}}
        bench.take(key, _EMULATED, [line["ns"]])


def _leaks(bench: Bench, program: Path) -> None:
    for line in bench.visit("secrets in the time", partial(programs.lines, program, "leak", SAMPLES)):
        bench.take({"where": "does the time differ?", "what": line["what"]}, "|t|", [line["t"]])


def ratios(cells: Sequence[Cell]) -> list[dict[str, object]]:
    """Return how many times ours each other takes, sample by sample of the same round."""
    times = [cell for cell in cells if cell.unit == "ns"]
    ours = {_place(cell): cell.samples for cell in times if cell.key["by"] == OURS}
    found: list[dict[str, object]] = []
    for cell in times:
        if cell.key["by"] != OURS and _place(cell) in ours:
            each = [other / own for other, own in zip(cell.samples, ours[_place(cell)], strict=False)]
            found.append({"key": dict(cell.key), "median": median(each), "min": min(each), "max": max(each)})
    return found


def _place(cell: Cell) -> tuple[object, ...]:
    return tuple(cell.key[name] for name in ("where", "what", "octets"))


def _sentences(found: Iterable[object]) -> Iterable[str]:
    """Say how the other implementations of CCM compare, at the size of most packets."""
    for one in found:
        assert isinstance(one, dict)
        key = one["key"]
        if key["octets"] in (50, 1000) and key["what"] == "encryption" and "CCM" in key["by"]:
            yield f"{key['by']}, {key['octets']} octets, {key['where']}: {one['median']:.2f} times ours"
    yield f"|t| beyond {_SUSPICIOUS} says that the time differs"


if __name__ == "__main__":
    sys.exit(main())
