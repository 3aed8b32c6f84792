"""What the processors did between two looks at /proc (proc(5)), and which part of the node is at its limit."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from meshsec.core.bench.record import Key, Taken

CORE = "% of the core busy"
SOFTIRQ = "% of the core in softirq"
PROCESS = "% of one core"
THREAD = "% of one core, busiest thread"
LEAST = 1.0
"""Per cent of one core from which a process is reported."""
_FULL = 90.0
"""Per cent of one core from which a thread, or the softirqs of a core, are the limit: the rest goes to others."""
_CORE_FULL = 95.0
_NAMED = 3
"""Processes that are named where no single one is the limit."""


@dataclass(frozen=True, slots=True)
class Core:
    """Clock ticks of one processor since the start."""

    busy: int
    softirq: int
    total: int


@dataclass(frozen=True, slots=True)
class Thread:
    """Clock ticks of one thread since its start."""

    process: str
    ticks: int


@dataclass(frozen=True, slots=True)
class Look:
    """What /proc said at one moment."""

    seconds: float
    """Monotonic time."""
    cores: Mapping[int, Core]
    threads: Mapping[tuple[int, int], Thread]
    """By process and thread identifier."""


def cores(text: str) -> dict[int, Core]:
    """Return the processors' ticks from /proc/stat. Lines that are none are left out."""
    found = {}
    for line in text.splitlines():
        name, *fields = line.split() or [""]
        numbers = [name[3:], *fields[:8]]
        if not name.startswith("cpu") or len(fields) < 8 or not all(one.isdecimal() for one in numbers):
            continue
        # Time for guests (the last two fields) is part of user and nice.
        user, nice, system, idle, iowait, irq, softirq, steal = (int(one) for one in fields[:8])
        busy = user + nice + system + irq + softirq
        found[int(name[3:])] = Core(busy, softirq, busy + idle + iowait + steal)
    return found


def thread(text: str) -> tuple[str, int] | None:
    """Return name and ticks from /proc/PID/task/TID/stat; None if it is not whole. A name may contain anything."""
    _, opened, rest = text.partition("(")
    name, closed, fields = rest.rpartition(")")
    values = fields.split()
    if not opened or not closed or len(values) < 13 or not (values[11].isdecimal() and values[12].isdecimal()):
        return None
    return name, int(values[11]) + int(values[12])


def between(before: Look, after: Look, key: Key, hertz: int) -> Iterator[Taken]:
    """Yield what each core and each process did, in per cent. ``hertz``: clock ticks in a second."""
    for number, core in sorted(after.cores.items()):
        old = before.cores.get(number)
        if old is None or core.total <= old.total:
            continue
        total = (core.total - old.total) / 100
        yield Taken({**key, "core": number}, CORE, [(core.busy - old.busy) / total])
        yield Taken({**key, "core": number}, SOFTIRQ, [(core.softirq - old.softirq) / total])
    for process, shares in _by_process(before, after, hertz).items():
        if sum(shares) >= LEAST:
            yield Taken({**key, "process": process}, PROCESS, [sum(shares)])
            yield Taken({**key, "process": process}, THREAD, [max(shares)])


def _by_process(before: Look, after: Look, hertz: int) -> dict[str, list[float]]:
    """Return the share of each thread, in per cent of one core, by the name of its process."""
    seconds = max(after.seconds - before.seconds, 1e-9)
    found: dict[str, list[float]] = {}
    for where, one in after.threads.items():
        old = before.threads.get(where)
        ticks = one.ticks - (old.ticks if old is not None else 0)
        found.setdefault(one.process, []).append(100 * max(0, ticks) / hertz / seconds)
    return found


def limit(cells: Iterable[Taken]) -> str:
    """Say what the limit of a measurement was, from its cells of this module; empty if there are none."""
    found: dict[str, list[tuple[float, str]]] = {CORE: [], SOFTIRQ: [], THREAD: [], PROCESS: []}
    for cell in cells:
        if cell.unit in found:
            subject = cell.key.get("process", cell.key.get("core"))
            found[cell.unit].append((median(cell.samples), str(subject)))
    if not found[CORE]:
        return ""
    core, where = max(found[CORE])
    softirq, at = max(found[SOFTIRQ])
    busiest, process = max(found[THREAD], default=(0.0, ""))
    if busiest >= _FULL:
        return f"a thread of {process} on this node, which uses {busiest:.0f} % of one core"
    if softirq >= _FULL:
        return f"the kernel's softirq on core {at} of this node ({softirq:.0f} %)"
    if all(share >= _CORE_FULL for share, _ in found[CORE]):
        most = sorted(found[PROCESS], reverse=True)[:_NAMED]
        named = ", ".join(f"{name} ({share:.0f} % of one)" for share, name in most) or "softirqs"
        return f"the processors of this node: all {len(found[CORE])} cores are busy, most of all with {named}"
    if core >= _CORE_FULL:
        return f"core {where} of this node, which is busy to {core:.0f} %"
    thread_too = f", its busiest thread, of {process}, uses {busiest:.0f} % of one" if process else ""
    return f"the link, the way or the peer: the busiest core of this node is busy to {core:.0f} %{thread_too}"
