"""What bench-throughput measures on a line: streams, datagrams at a load, round trips, and what they cost."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median

from rt.throughput import ends as throughput_ends
from rt.throughput.ends import PATIENCE, STAT, Report, busy_seconds
from rt.throughput.lines import Line, Place
from tests.lab.basics.patience import patient
from tests.lab.basics.shell import run
from tests.lab.net import namespaces

SIZE = 1200
"""Octets in a datagram: one packet in every plane."""
PORT = 7010
PINGS = 50
_RECEIVE_BUFFER = 8 << 20
"""Octets: the receiver shall not be the one that loses."""
_TIME = re.compile(r"time=([\d.]+) ms")


@dataclass(frozen=True)
class Stream:
    """A TCP stream that is over. Rates in Mbit/s of payload, processor time in seconds per gigabyte (10^9 octets)."""

    rate: float
    machine: float
    """All that the processors did meanwhile, whoever for: meaningful on a machine that does nothing else."""
    processes: float
    """The nodes' daemons and the two ends; without what the kernel did in nobody's name."""


@dataclass(frozen=True)
class Load:
    """UDP at one offered load, in Mbit/s of payload."""

    offered: float
    sent: float
    """What the sender's kernel took: it may hold the sender up."""
    delivered: float
    loss: float
    """Per cent of the datagrams that were sent."""


def stream(line: Line, hops: int, seconds: float, *, back: bool = False) -> Stream:
    """Wait until the line answers, then send TCP as fast as it goes.

    The first node connects. With ``back`` the other end is the sender.
    """
    line.wait_answer(hops)
    with _connected(line.places[0], line.places[hops]) as (client, server):
        before = line.processor_seconds()
        sender, receiver = _flow("stream", *((server, client) if back else (client, server)), seconds)
        after = line.processor_seconds()
    if not receiver["octets"]:
        raise ConnectionError("hardly anything of a stream arrived")
    gigabytes = receiver["octets"] / 1e9
    processes = after - before + sender["process_s"] + receiver["process_s"]
    return Stream(
        rate=8e3 * gigabytes / receiver["seconds"],
        machine=(receiver["busy_s"] - sender["busy_s"]) / gigabytes,
        processes=processes / gigabytes,
    )


def load(line: Line, hops: int, seconds: float, mbit_per_s: float, *, back: bool = False) -> Load:
    """Wait until the line answers, then send UDP at an offered load.

    The first node begins. With ``back`` the other end is the sender.
    """
    line.wait_answer(hops)
    source, target = line.places[0], line.places[hops]
    far = namespaces.within(target.namespace, partial(_datagrams, target.address, PORT))
    near = namespaces.within(source.namespace, partial(_datagrams, source.address))
    with far, near:
        near.connect((target.address, PORT))
        if back:
            _answer_to(near, far)
        sender, receiver = _flow("datagrams", *((far, near) if back else (near, far)), seconds, mbit_per_s, SIZE)
    return load_of(mbit_per_s, sender, receiver)


def load_of(offered: float, sender: Report, receiver: Report) -> Load:
    """Return what both ends' counts say. A queue that is emptied late counts by the time that this takes."""
    mbit, sent, arrived = SIZE * 8 / 1e6, sender["datagrams"], receiver["datagrams"]
    return Load(
        offered=offered,
        sent=sent * mbit / sender["seconds"],
        delivered=arrived * mbit / max(sender["seconds"], receiver["seconds"]),
        loss=100 * (1 - arrived / sent) if sent else 0.0,
    )


def ping(line: Line, hops: int) -> float:
    """Return the median round trip in milliseconds, with nothing else on the line."""
    argv = ["ping", "-n", "-c", f"{PINGS}", "-i", "0.01", "-W", "2", line.places[hops].address]
    shown = run(["ip", "netns", "exec", line.places[0].namespace, *argv], check=False).stdout
    if not (times := [float(found) for found in _TIME.findall(shown)]):
        raise ConnectionError(f"no answer to {PINGS} echoes")
    return median(times)


def transactions(line: Line, hops: int, seconds: float) -> float:
    """Return how many requests of one byte are answered with one in a second, one after the other on one connection."""
    line.wait_answer(hops)
    with _connected(line.places[0], line.places[hops]) as (client, server):
        sender, _ = _flow("transactions", client, server, seconds)
    return sender["transactions"] / sender["seconds"]


def rest(seconds: float = 0.5) -> float:
    """Return how many processors are busy while the line is idle: others' work would count as a flow's."""
    before = busy_seconds(STAT.read_text(encoding="ascii"))
    time.sleep(seconds)
    return (busy_seconds(STAT.read_text(encoding="ascii")) - before) / seconds


def _flow(
    kind: str, source: socket.socket, target: socket.socket, seconds: float, *more: float
) -> tuple[Report, Report]:
    """Both ends' reports. The receiver's standard input is closed when the sender is done."""
    with ExitStack() as stack:
        receiver = stack.enter_context(_end(f"receive-{kind}", target))
        sender = stack.enter_context(_end(f"send-{kind}", source, seconds, *more))
        patience = seconds + patient(2 * PATIENCE)
        out, _ = sender.communicate(timeout=patience)
        into, _ = receiver.communicate(timeout=patience)
    if sender.returncode or receiver.returncode:
        raise ConnectionError(f"a flow of {kind} broke off")
    return json.loads(out), json.loads(into)


@contextmanager
def _end(role: str, end: socket.socket, *figures: float) -> Iterator[subprocess.Popen[bytes]]:
    """Return a running end, which does not outlive the block."""
    # Without site-packages, which it does not need: an emulated machine starts it in a fraction of the time.
    interpreter = [sys.executable, "-I", "-S", throughput_ends.__file__]
    argv = [*interpreter, role, f"{end.fileno()}", *map(str, figures)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[end.fileno()])
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def _connected(source: Place, target: Place) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a stream that the source has begun."""
    listener = namespaces.within(target.namespace, partial(_listener, target.address))
    client = namespaces.within(source.namespace, partial(_client, source.address))
    with listener, client:
        for end in (listener, client):
            end.settimeout(PATIENCE)
        client.connect((target.address, PORT))
        server, _ = listener.accept()
        with server:
            yield client, server


def _answer_to(near: socket.socket, far: socket.socket) -> None:
    """Connect the far end to where it sees the near one, which is another address behind a gateway."""
    far.settimeout(patient(PATIENCE))
    near.send(b"")
    _, seen = far.recvfrom(1)
    far.connect(seen)


def _listener(address: str) -> socket.socket:
    return socket.create_server((address, PORT), family=_family(address))


def _client(address: str) -> socket.socket:
    made = socket.socket(_family(address), socket.SOCK_STREAM)
    made.bind((address, 0))
    return made


def _datagrams(address: str, port: int = 0) -> socket.socket:
    made = socket.socket(_family(address), socket.SOCK_DGRAM)
    # Beyond what net.core.rmem_max allows to programs without privileges.
    made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    made.bind((address, port))
    return made


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


_SO_RCVBUFFORCE = 33  # asm-generic/socket.h
