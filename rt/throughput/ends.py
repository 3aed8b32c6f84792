"""The ends of bench-throughput's flows: programs of their own, so that neither end waits for the other's interpreter.

Called as ``python throughput_ends.py ROLE DESCRIPTOR [SECONDS [MBIT_PER_S SIZE]]`` with a socket that was opened in
a node's namespace; prints one JSON object when the flow is over.
"""

import json
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

STAT = Path("/proc/stat")
TICKS = 100
"""In a second: USER_HZ of /proc/stat."""
BLOCK = 1 << 18
SILENCE = 0.5
"""Seconds without a datagram after the sender's end: nothing is on its way any more."""
BACKLOG = 0.01
"""Seconds of the load that a sender catches up with; what it is further behind it leaves out."""
BURST = 32
"""Datagrams between two looks at the clock, at most."""
PATIENCE = 30.0
"""Seconds of standstill after which a stream is given up."""
Report = dict[str, float]


def busy_seconds(stat: str) -> float:
    """Return the busy seconds of all processors since the start, interrupts included, from the text of /proc/stat.

    Left out are waiting (idle, iowait) and what a hypervisor gave to others (steal).
    """
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, stat.splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq) / TICKS


def send_stream(client: socket.socket, seconds: float) -> Report:
    """Write to a connected stream as fast as it takes."""
    busy, spent, begin, octets = _busy(), time.process_time(), time.monotonic(), 0
    block = bytes(BLOCK)
    while time.monotonic() < begin + seconds:
        octets += client.send(block)
    client.shutdown(socket.SHUT_WR)
    return _report(begin, spent, busy, octets=octets)


def receive_stream(connection: socket.socket) -> Report:
    """Read a connected stream to its end; time and octets count from behind the first that were read."""
    into, spent = bytearray(BLOCK), time.process_time()
    octets = connection.recv_into(into)
    begin, first = time.monotonic(), octets
    while got := connection.recv_into(into):
        octets += got
    return _report(begin, spent, octets=octets - first, first=first)


def due(elapsed: float, interval: float, counted: int) -> tuple[int, int]:
    """Return how many datagrams to send now, and how many to count as skipped: a long delay is not made up for.

    ``interval``: seconds between datagrams, the first of which is due at once. ``counted``: those dealt with, sent or
    left out."""
    wanted = int(elapsed / interval) + 1
    counted = max(counted, wanted - max(1, int(BACKLOG / interval)))
    return max(0, min(wanted - counted, BURST)), counted


def send_datagrams(out: socket.socket, seconds: float, mbit_per_s: float, size: int) -> Report:
    """Offer a connected socket datagrams of ``size`` octets at a rate of payload; it may hold the sender up."""
    interval, payload = size * 8 / (mbit_per_s * 1e6), bytes(size)
    spent, begin, sent, refused, counted = time.process_time(), time.monotonic(), 0, 0, 0
    while (elapsed := time.monotonic() - begin) < seconds:
        now, counted = due(elapsed, interval, counted)
        for _ in range(now):
            try:
                out.send(payload)
                sent += 1
            except OSError:  # no buffer, or no route for a moment
                refused += 1
        counted += now
        if not now:
            time.sleep(max(0.0, min(counted * interval, seconds) - elapsed))
    return _report(begin, spent, datagrams=sent, refused=refused)


def receive_datagrams(inbound: socket.socket, over: Callable[[], bool]) -> Report:
    """Count what arrives until the sender is done and nothing comes any more; the time is that between arrivals."""
    # The kernel's timeout, and not Python's, which would cost a second call for every datagram.
    inbound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, int(SILENCE * 1e6)))
    into, spent, datagrams = bytearray(1 << 16), time.process_time(), 0
    begin = last = time.monotonic()
    for _ in _arrivals(inbound, into, over):
        last = time.monotonic()
        begin = begin if datagrams else last
        datagrams += 1
    return {"seconds": last - begin, "datagrams": datagrams, "process_s": time.process_time() - spent}


def _arrivals(inbound: socket.socket, into: bytearray, over: Callable[[], bool]) -> Iterator[int]:
    while True:
        try:
            yield inbound.recv_into(into)
        except BlockingIOError:
            if over():
                return


def ask(client: socket.socket, seconds: float) -> Report:
    """Send one byte, await one, and so on: the transactions of a request and a response that netperf calls TCP_RR."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    spent, begin, count = time.process_time(), time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        client.send(b"?")
        if not client.recv(1):
            break
        count += 1
    client.shutdown(socket.SHUT_WR)
    return _report(begin, spent, transactions=count)


def answer(connection: socket.socket) -> Report:
    """Answer each byte with one until the stream ends."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    spent, begin, count = time.process_time(), time.monotonic(), 0
    while connection.recv(1):
        connection.send(b"!")
        count += 1
    return _report(begin, spent, transactions=count)


def _report(begin: float, spent: float, busy: float | None = None, **counted: float) -> Report:
    """``process_s``: processor time of this end; ``busy_s``: of the machine, before a flow or after it."""
    own = {"seconds": time.monotonic() - begin, "process_s": time.process_time() - spent}
    return {**own, "busy_s": _busy() if busy is None else busy, **counted}


def _busy() -> float:
    return busy_seconds(STAT.read_text(encoding="ascii"))


def _input_closed() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main() -> None:
    """One end of one flow."""
    role, descriptor, *figures = sys.argv[1:]
    seconds, rate, size = [*map(float, figures), 0.0, 0.0, 0.0][:3]
    with socket.socket(fileno=int(descriptor)) as end:
        end.settimeout(None if role.endswith("datagrams") else PATIENCE)  # with one, each call is two
        if role == "send-stream":
            report = send_stream(end, seconds)
        elif role == "receive-stream":
            report = receive_stream(end)
        elif role == "send-datagrams":
            report = send_datagrams(end, seconds, rate, int(size))
        elif role == "receive-datagrams":
            report = receive_datagrams(end, _input_closed)
        elif role == "send-transactions":
            report = ask(end, seconds)
        elif role == "receive-transactions":
            report = answer(end)
        else:
            sys.exit(f"throughput_ends: {role!r} is no role")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
