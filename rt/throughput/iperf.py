"""Flows of iperf3(1) between the ends of a line: what the papers measured with, and what it says of each second.

One server serves one flow, so that a flow that breaks off leaves nothing behind. The client, at the line's first place,
always connects, because the far end may not see its address (a gateway translates it).
"""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rt.throughput.lines import Line
from rt.throughput.processes import Shares, Watch
from tests.lab.basics.patience import patient
from tests.lab.basics.programs import find
from tests.lab.net.topology import names

PORT = 5201
SIZE = 1200
"""Bytes of payload in a datagram, as in the project's own flows: one packet in every plane."""
REFUSED = "Connection refused"
"""What the client says while the server does not listen yet."""
LISTENS = 10.0
"""Seconds until the server listens, at most."""
PATIENCE = 30.0
"""Seconds beyond a flow's own after which it is given up."""
_RETRY = 0.05
_BUFFERS = (Path("/proc/sys/net/core/rmem_max"), Path("/proc/sys/net/core/wmem_max"))
"""iperf3 gives both buffers one size, and refuses one that the kernel does not allow."""
SECONDS_KEPT = 600
"""Intervals of a report that are read, at most."""


class IperfError(OSError):
    """A flow did not come to its end; the text is what iperf3 said."""


@dataclass(frozen=True)
class Second:
    """One second of a TCP stream at its sender, as iperf3 reports it."""

    rate: float
    """Mbit/s."""
    retransmissions: int
    window: float
    """Congestion window in kilobytes."""


@dataclass(frozen=True)
class Stream:
    """A TCP stream that is over."""

    rate: float
    """Mbit/s of payload that arrived."""
    retransmissions: int
    seconds: Sequence[Second]
    congestion: str
    """The sender's congestion control."""


@dataclass(frozen=True)
class Datagrams:
    """UDP at a fixed rate that is over. Rates in Mbit/s of payload."""

    sent: float
    delivered: float
    loss: float
    """Per cent of the datagrams, by gaps in the numbers of those that arrived before the end."""
    jitter: float
    """Milliseconds (RFC 3550, section 6.4.1)."""
    count: int = 0
    """Datagrams that were sent."""


@dataclass(frozen=True)
class Costs:
    """Processor time while a flow passed."""

    shares: Shares
    seconds: float


def obstacle() -> str:
    """Return why no flow can be had here, else nothing."""
    return "" if find("iperf3") else "there is no iperf3 (Debian: iperf3)"


def version() -> str:
    """Return iperf3's version, or that it is not there."""
    if not find("iperf3"):
        return "not on PATH"
    shown = subprocess.run(["iperf3", "--version"], capture_output=True, text=True, check=False).stdout
    return shown.partition("\n")[0].removeprefix("iperf ")


def stream(line: Line, hops: int, seconds: int, *, back: bool = False) -> tuple[Stream, Costs]:
    """Send TCP for some seconds as fast as it goes; with ``back`` from the far end. Raises IperfError."""
    report, costs = _flow(line, hops, seconds, back=back)
    return stream_of(report), costs


def datagrams(line: Line, hops: int, seconds: int, mbit_per_s: float, *, back: bool = False) -> tuple[Datagrams, Costs]:
    """Send UDP at a rate of payload; with ``back`` from the far end. Raises IperfError."""
    more = ["--udp", "--bitrate", f"{mbit_per_s * 1e6:.0f}", "--length", f"{SIZE}", "--window", f"{_buffer()}"]
    report, costs = _flow(line, hops, seconds, more, back=back)
    return datagrams_of(report), costs


def stream_of(report: Mapping[str, Any]) -> Stream:
    """Return what a report of both ends says of a TCP stream. Raises IperfError when a figure is missing."""
    with _complete():
        end = report["end"]
        intervals = _of_sender(report)["intervals"][:SECONDS_KEPT]
        return Stream(
            rate=end["sum_received"]["bits_per_second"] / 1e6,
            retransmissions=int(end["sum_sent"]["retransmits"]),
            seconds=[_second(one["streams"][0]) for one in intervals if one["sum"]["seconds"] > 0.5],
            congestion=str(end.get("sender_tcp_congestion", "")),
        )


def datagrams_of(report: Mapping[str, Any]) -> Datagrams:
    """Return what a report says of datagrams. Raises IperfError when a figure is missing."""
    with _complete():
        sent, received = report["end"]["sum_sent"], report["end"]["sum_received"]
        return Datagrams(
            sent=sent["bits_per_second"] / 1e6,
            delivered=received["bits_per_second"] / 1e6,
            loss=float(received["lost_percent"]) if received["packets"] else 100.0,
            jitter=float(received["jitter_ms"]),
            count=int(sent["packets"]),
        )


def _buffer() -> int:
    """Return the bytes of socket buffers: as many as this kernel allows, so that the receiver is not who loses."""
    return min(int(path.read_text(encoding="ascii")) for path in _BUFFERS)


def _second(one: Mapping[str, Any]) -> Second:
    return Second(one["bits_per_second"] / 1e6, int(one["retransmits"]), one["snd_cwnd"] / 1e3)


def _of_sender(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of the report that the sender wrote: only it knows the window."""
    sends = not report["start"]["test_start"]["reverse"]
    part: Mapping[str, Any] = report if sends else report["server_output_json"]
    return part


@contextmanager
def _complete() -> Iterator[None]:
    try:
        yield
    except (KeyError, IndexError, TypeError) as error:
        raise IperfError(f"iperf3's report lacks {error}") from error


def _flow(
    line: Line, hops: int, seconds: int, more: Sequence[str] = (), *, back: bool
) -> tuple[Mapping[str, Any], Costs]:
    """Return the client's report and the processors' work, once the line answers and the flow has passed."""
    line.wait_answer(hops)
    near, far = line.places[0], line.places[hops]
    ask = ["-c", far.address, "-t", f"{seconds}", *(["--reverse"] if back else []), "--get-server-output", *more]
    deadline = time.monotonic() + patient(LISTENS)
    with _running(far.namespace, ["-s", "-1", "-B", far.address]) as server:
        while True:
            with Watch(_daemons(line)) as watch:
                watch.add(server.pid, "iperf3")
                report = _client(near.namespace, ask, watch, seconds + patient(PATIENCE))
            if not (refused := report.get("error", "")):
                return report, Costs(watch.shares, watch.seconds)
            if REFUSED not in refused or time.monotonic() > deadline:
                raise IperfError(f"iperf3: {refused}")
            time.sleep(_RETRY)


def _daemons(line: Line) -> dict[int, str]:
    """Return the line's daemons by PID, with the number of the node that each runs on."""
    found: dict[int, str] = {}
    for number, (place, node) in enumerate(zip(line.places, names(len(line.places)), strict=True), start=1):
        # A router without meshsecd is called olsrv2d-a on the node a.
        found |= {daemon.pid: f"{daemon.name.removesuffix(f'-{node}')} of node {number}" for daemon in place.daemons}
    return found


def _client(namespace: str, arguments: Sequence[str], watch: Watch, seconds: float) -> dict[str, Any]:
    with _running(namespace, arguments) as client:
        watch.add(client.pid, "iperf3")
        try:
            out, _ = client.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise IperfError(f"iperf3 did not come to its end within {seconds:.0f} s") from error
    return read(out)


def read(text: str) -> dict[str, Any]:
    """Return the report that iperf3 wrote; it may say only what went wrong. Raises IperfError for other text."""
    try:
        report = json.loads(text)
    except ValueError as error:
        raise IperfError(f"iperf3 wrote no JSON but {text[:80]!r}") from error
    if not isinstance(report, dict):
        raise IperfError(f"iperf3 wrote no object but {text[:80]!r}")
    return report


@contextmanager
def _running(namespace: str, arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Return iperf3, running in a namespace; it does not outlive the block."""
    argv = ["ip", "netns", "exec", namespace, "iperf3", "--json", "-p", f"{PORT}", *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
