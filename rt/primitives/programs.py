"""What openssl speed, overlayd bench and cjdroute --bench print about one processor, read line by line."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rt.measure.results import MeasurementError
from tests.lab.basics import programs
from tests.lab.basics.places import BUILD

ALGORITHMS = ("sha256", "sha512", "rsa1024", "rsa2048")
"""What tomesh had openssl measure."""
SIZES = (16, 64, 256, 1024, 8192)
"""Bytes of a message: what openssl took by itself in 2016."""
PACKET = 1304
"""Bytes of content of a frame, as overlayd measures by itself."""
_KILOBITS = re.compile(r"Benchmark salsa20/poly1305 in \d+ms\. (\d+) kilobits per second")
_SWITCHED = re.compile(r"Benchmark Switching in \d+ms\. (\d+) packets per second")
_PATIENCE = 300.0
SALSA, SWITCHING = "salsa20/poly1305", "switching"


class Taken(NamedTuple):
    """One figure of one program."""

    program: str
    what: str
    unit: str
    value: float
    octets: int = 0
    """Size of the message; 0 where it has none."""

    def key(self) -> dict[str, object]:
        """Return the key of its cell."""
        size = {"bytes": self.octets} if self.octets else {}
        return {"program": self.program, "what": self.what, **size}


def hashes(algorithm: str, seconds: int) -> Iterator[Taken]:
    """Measure a hash at all sizes with openssl."""
    for size in SIZES:
        text = _run(["openssl", "speed", "-mr", "-seconds", f"{seconds}", "-bytes", f"{size}", algorithm])
        yield Taken("openssl", algorithm, "kB/s", rate(algorithm, text), size)


def signatures(algorithm: str, seconds: int) -> Iterator[Taken]:
    """Measure RSA's signatures and verifications with openssl."""
    text = _run(["openssl", "speed", "-mr", "-seconds", f"{seconds}", algorithm])
    for what, value in zip(("sign", "verify"), pair(algorithm, text), strict=True):
        yield Taken("openssl", f"{algorithm} {what}", "operations/s", value)


def overlayd(seconds: float) -> Iterator[Taken]:
    """Measure this project's overlay: its ciphers, its switch, and a packet's way through two nodes."""
    argv = [overlay_router(), "bench", "--json", "--seconds", f"{seconds}", "--octets", f"{PACKET}"]
    yield from overlay(_run(argv))


def overlay_router() -> str:
    """Return the path of overlayd as `make build` makes it, or of the one that the lab takes.

    The lab takes the newest, and one without optimisation would be several times slower.
    """
    made = BUILD / "bin" / "overlayd"
    return str(made) if made.exists() else programs.overlayd()


def cjdroute() -> Iterator[Taken]:
    """Measure cjdroute with its own benchmark."""
    yield from cjdns(_run([programs.cjdroute(), "--bench"]))


def rate(algorithm: str, text: str) -> float:
    """Return thousands of bytes in a second from ``+F:NUMBER:NAME:BYTES_PER_SECOND`` (openssl-speed(1), -mr)."""
    for fields in _fields(text, "+F"):
        if len(fields) == 4 and fields[2] == algorithm:
            return _number(fields[3], text) / 1000
    raise MeasurementError(f"openssl speed gave no figure for {algorithm}: {text[:80]!r}")


def pair(algorithm: str, text: str) -> tuple[float, float]:
    """Return signatures and verifications in a second from ``+F2:NUMBER:BITS:SIGNATURES:VERIFICATIONS``."""
    for fields in _fields(text, "+F2"):
        if len(fields) == 5 and fields[2] == algorithm.removeprefix("rsa"):
            return _number(fields[3], text), _number(fields[4], text)
    raise MeasurementError(f"openssl speed gave no figure for {algorithm}: {text[:80]!r}")


def overlay(text: str) -> Iterator[Taken]:
    """Yield the figures of ``overlayd bench --json``: throughput where a figure has it, else its rate."""
    try:
        figures = [(str(one["name"]), one["megabits"], float(one["per_second"])) for one in json.loads(text)["figures"]]
    except (KeyError, TypeError, ValueError) as error:
        raise MeasurementError(f"overlayd bench gave no figures: {text[:80]!r}") from error
    for name, megabits, per_second in figures:
        if megabits is not None:
            yield Taken("overlayd", name, "kbit/s", float(megabits) * 1000, PACKET)
        if megabits is None or name.startswith("packets"):
            yield Taken("overlayd", name, "packets/s", per_second)


def cjdns(text: str) -> Iterator[Taken]:
    """Yield both figures of ``cjdroute --bench``."""
    for expression, what, unit in ((_KILOBITS, SALSA, "kbit/s"), (_SWITCHED, SWITCHING, "packets/s")):
        found = expression.search(text)
        if not found:
            raise MeasurementError(f"cjdroute --bench gave no figure for {what}: {text[:80]!r}")
        yield Taken("cjdroute", what, unit, float(found[1]))


def version(program: str, *arguments: str) -> str:
    """Return the first line that a program says of itself, or that it is not there."""
    if not programs.find(program):
        return "not on PATH"
    shown = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return (shown.stdout + shown.stderr).partition("\n")[0]


def _fields(text: str, kind: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        fields = line.strip().split(":")
        if fields[0] == kind:
            yield fields


def _number(field: str, text: str) -> float:
    try:
        value = float(field)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise MeasurementError(f"openssl speed gave {field!r} where a rate belongs: {text[:80]!r}")
    return value


def _run(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    if done.returncode:
        raise MeasurementError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr[-200:]}")
    return done.stdout + done.stderr
