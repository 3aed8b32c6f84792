"""Which functions of loaded modules run while a command runs, by the kernel's function tracer.

See Documentation/trace/ftrace.rst. An instance of its own leaves other users of the tracer alone. A busy function is
taken out of the filter, so that it neither fills the buffer nor slows the machine down. Events are read as addresses:
the kernel would look up two names for each line, which is slower than the events come.
"""

import os
import re
import subprocess
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

from kernelconfig.dissect.recording import Recording, Run

PLACES = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_MODULE_NAME = re.compile(r"[A-Za-z0-9_]{1,55}")
_EVENT = re.compile(rb"^([0-9a-f]{8,16}) [0-9a-f]+\b", re.MULTILINE)
"""The function's address in a raw line of trace_pipe, which is followed by its caller's."""
_SYMBOL = re.compile(r"^([0-9a-f]+) [tTwW] (\S+)\t\[(\w+)\]$", re.MULTILINE)
_AVAILABLE = re.compile(r"([\w.]+) \[(\w+)\]")
_BUFFER_KIB = 32 << 10
"""Of each processor: some 900,000 events."""
_PAUSE_SECONDS = 0.2
_CHUNK = 1 << 20
_CHUNKS = 32
"""Reads before busy functions leave the filter: they fill the buffer as fast as it is read."""
_BUSY = 200
"""Calls after which a function leaves the filter. For each that leaves, the kernel looks through all its functions."""


class TracerError(Exception):
    """The functions cannot be followed. The message says why, and which command helps."""


def follow(modules: Sequence[str], command: Sequence[str]) -> Recording:
    """Run the command, and return which functions of the modules ran meanwhile. Raises TracerError.

    A module that the command loads is followed from then on. The kernel frees its functions of initialization before
    they can be named, so these may be missing.
    """
    if wrong := [name for name in modules if not _MODULE_NAME.fullmatch(name)]:
        raise TracerError(f"{wrong[0]!r} is no module's name; allowed are letters, digits and _, as `lsmod` shows them")
    with _instance() as instance:
        seen, status = _watch(instance, modules, command)
        lost = sum(_overrun(path) for path in instance.glob("per_cpu/cpu*/stats"))
        available = _available(instance.parents[1])
    if absent := [name for name in modules if name not in available]:
        raise TracerError(f"module {absent[0]} is not loaded after the command; load it: modprobe {absent[0]}")
    runs = tuple(Run(name, tuple(sorted(available[name])), tuple(sorted(available[name] & seen))) for name in modules)
    return Recording(os.uname().release, tuple(command), status, lost, runs)


@contextmanager
def _instance() -> Iterator[Path]:
    """Give a tracer of our own, which is gone afterwards."""
    place = next((place for place in PLACES if (place / "instances").is_dir()), None)
    if place is None:
        raise TracerError(
            f"{PLACES[0]}: there is no tracer; become root and mount it: mount -t tracefs tracefs {PLACES[0]}"
        )
    instance = place / "instances" / f"kernelconfig-{os.getpid()}"
    try:
        instance.mkdir()
    except OSError as error:
        raise TracerError(f"{instance}: {error.strerror}; only root may trace the kernel") from error
    try:
        yield instance
    finally:
        with suppress(OSError):
            (instance / "current_tracer").write_text("nop", encoding="ascii")
        instance.rmdir()


def _watch(instance: Path, modules: Sequence[str], command: Sequence[str]) -> tuple[set[str], int]:
    """Return the names of functions that ran, and the command's exit status."""
    _prepare(instance, modules)
    seen: Counter[int] = Counter()
    names = _Names(modules)
    pipe = os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = _run(command, lambda: _take(instance, pipe, seen, names))
        (instance / "tracing_on").write_text("0", encoding="ascii")
        while chunk := _read(pipe, count(1)):
            seen.update(_addresses(chunk))
    finally:
        os.close(pipe)
    return names.of(seen), status


class _Names:
    """The names of the modules' functions by their addresses, read again when there are new ones."""

    def __init__(self, modules: Sequence[str], symbols: Path = Path("/proc/kallsyms")) -> None:
        self._modules = set(modules)
        self._path = symbols
        self._names: dict[int, set[str]] = {}
        self._places: list[int] = []

    def of(self, addresses: Iterable[int]) -> set[str]:
        """Return the functions that begin at the addresses or, as the call of the tracer does, a little behind."""
        self._load()
        places = (bisect_right(self._places, address) - 1 for address in addresses)
        return {name for place in places if place >= 0 for name in self._names[self._places[place]]}

    def _load(self) -> None:
        """Read the kernel's symbols. Names of padding in front of a function are not those of a function."""
        self._names = {}
        for address, name, module in _SYMBOL.findall(self._path.read_text(encoding="ascii")):
            if module in self._modules and not name.startswith("__pfx_"):
                self._names.setdefault(int(address, 16), set()).add(name)
        self._places = sorted(self._names)


def _run(command: Sequence[str], take: Callable[[], bool]) -> int:
    """Run the command to its end, and take in events meanwhile. Return its exit status."""
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        raise TracerError(f"{command[0]}: {error.strerror}") from error
    try:
        while process.poll() is None:
            if not take():
                time.sleep(_PAUSE_SECONDS)
    finally:
        process.kill()
        process.wait()
    return process.returncode


def _prepare(instance: Path, modules: Sequence[str]) -> None:
    filters = [("set_ftrace_filter", f":mod:{name}\n") for name in modules]
    options = [("trace_options", "raw"), ("trace_options", "nocontext-info")]
    settings = [("buffer_size_kb", str(_BUFFER_KIB)), *options, *filters, ("current_tracer", "function")]
    for name, value in settings:
        try:
            with (instance / name).open("a" if name == "set_ftrace_filter" else "w", encoding="ascii") as file:
                file.write(value)
        except OSError as error:
            raise TracerError(
                f"{instance / name}: {error.strerror} for {value.strip()!r}; the kernel needs CONFIG_FUNCTION_TRACER=y"
            ) from error


def _take(instance: Path, pipe: int, seen: Counter[int], names: _Names) -> bool:
    """Read what waits in the buffer, and take busy functions out of the filter. Return whether more may wait."""
    chunks = b"".join(iter(partial(_read, pipe, count(1)), b""))
    before = {address for address, calls in seen.items() if calls >= _BUSY}
    seen.update(_addresses(chunks))
    if busy := {address for address, calls in seen.items() if calls >= _BUSY} - before:
        _leave_out(instance, names.of(busy))
    return bool(chunks)


def _addresses(lines: bytes) -> Iterator[int]:
    return (int(found[1], 16) for found in _EVENT.finditer(lines))


def _leave_out(instance: Path, names: set[str]) -> None:
    """Take functions out of the filter. The last one stays, because an empty filter means all of the kernel."""
    lines = (instance / "set_ftrace_filter").read_text(encoding="ascii").splitlines()
    left = {line.split()[0] for line in lines if line and not line.startswith("#")}
    leaving = sorted(left & names)[: max(len(left) - 1, 0)]
    with (instance / "set_ftrace_filter").open("a", encoding="ascii") as file:
        file.writelines(f"!{name}\n" for name in leaving)


def _read(pipe: int, number: Iterator[int]) -> bytes:
    """Return what one read gives; nothing when the buffer is empty, or after ``_CHUNKS`` reads."""
    try:
        return os.read(pipe, _CHUNK) if next(number) <= _CHUNKS else b""
    except BlockingIOError:
        return b""


def _overrun(path: Path) -> int:
    found = re.search(r"^overrun: (\d+)$", path.read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1]) if found else 0


def _available(place: Path) -> dict[str, set[str]]:
    """Return the functions of each module that the tracer can see."""
    functions: dict[str, set[str]] = {}
    with (place / "available_filter_functions").open(encoding="ascii") as file:
        for line in file:
            if found := _AVAILABLE.match(line):
                functions.setdefault(found[2], set()).add(found[1])
    return functions
