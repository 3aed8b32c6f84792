"""Runs where the kernel has ESP and tunnels: what each candidate costs for a packet, a stream and a peer.

    python -m rt.tunnels.measure ROUNDS FILE

FILE gets a line of JSON for each figure. A candidate that the kernel lacks has one line that says so.
"""

import json
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import TextIO

from rt.throughput.ends import busy_seconds
from rt.tunnels.candidates import BIG, CANDIDATES, LINK, PLAIN, Candidate, Pair
from tests.lab.basics.shell import CommandError, run
from tests.lab.net import namespaces, traffic
from tests.lab.net.instance import Instance
from tests.lab.net.traffic import udp_socket

OUTER_MTU = 1500
INNER = 1000
"""Bytes of the inner packet whose outer packet is measured."""
OCTETS = 20_000_000
"""Of each TCP stream."""
PEERS = (1, 100, 1000)
MANY = 100
"""Peers whose memory is more than what the kernel has in store."""
_UDP, _ESP = 40 + 8, 50
_SILENCE = 0.3
"""Seconds without the packet: it did not fit."""
PAIR = Pair(IPv6Address("fc00::a"), IPv6Address("fc00::b"), "2001:db8:a::/64", "2001:db8:b::/64")
Ends = tuple[str, str]
"""Two namespaces: those of the nodes, or those of a host behind each."""


class Measured:
    """Writes figures."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def take(self, candidate: str, figure: str, unit: str, value: float, **more: object) -> None:
        """Write one figure."""
        self.write({"candidate": candidate, "figure": figure, **more}, unit=unit, value=value)

    def write(self, key: dict[str, object], **more: object) -> None:
        """Write one line."""
        self._file.write(json.dumps({"key": key, **more}) + "\n")
        self._file.flush()


def main() -> None:
    """Measure all candidates; the streams in turn, so that no candidate always has the warmer machine."""
    rounds, path = int(sys.argv[1]), Path(sys.argv[2])
    with path.open("w", encoding="ascii") as file:
        measured = Measured(file)
        largest = {one: _packets(measured, one) for one in (PLAIN, *CANDIDATES)}
        present = [one for one, size in largest.items() if size]
        for number in range(rounds):
            for candidate in present if number % 2 == 0 else reversed(present):
                with connected(candidate, largest[candidate]) as ends:
                    _stream(measured, candidate, ends)
        for _ in range(rounds):
            for candidate in present:
                for peers in PEERS if candidate is not PLAIN else ():
                    _set_up(measured, candidate, peers)


# --- two nodes ---


@contextmanager
def connected(candidate: Candidate, mtu: int = BIG) -> Iterator[tuple[Ends, Ends]]:
    """Connect two nodes by a cable, with SAs and the candidate's devices and routes, and a host behind each.

    ``mtu`` is that of the candidate's devices. Yields the nodes and the hosts. Raises CommandError.
    """
    instance = Instance()
    first, second = ends = instance.namespace("a"), instance.namespace("b")
    hosts = instance.namespace("ha"), instance.namespace("hb")
    try:
        for name in (*ends, *hosts):
            namespaces.create(name)
        run(["ip", "-n", first, "link", "add", LINK, "type", "veth", "peer", "name", LINK, "netns", second])
        for name, behind, pair in zip(ends, hosts, (PAIR, PAIR.reverse()), strict=True):
            batch(name, _addresses(pair, behind))
            batch(behind, _of_host(pair))
            batch(name, [*candidate.sas(pair), *candidate.policies(pair)])
            batch(name, [] if candidate is PLAIN else [*candidate.once(mtu), *candidate.for_peer(pair, mtu)])
        yield ends, hosts
    finally:
        instance.end()


def _addresses(pair: Pair, behind: str) -> list[str]:
    return [
        f"link set {LINK} mtu {OUTER_MTU} up",
        f"address add {pair.local}/128 dev {LINK} nodad",
        f"route add {pair.remote}/128 dev {LINK}",
        f"link add lan type veth peer name eth0 netns {behind}",
        f"link set lan mtu {BIG} up",
        f"address add {address(pair.here, 1)}/64 dev lan nodad",
    ]


def _of_host(pair: Pair) -> list[str]:
    return [
        f"link set eth0 mtu {BIG} up",
        f"address add {address(pair.here, 5)}/64 dev eth0 nodad",
        f"route add default via {address(pair.here, 1)}",
    ]


def address(network: str, number: int) -> str:
    """Return an address in a network: of the node (1) or of the host behind it (5)."""
    return network.replace("::/64", f"::{number}")


def batch(namespace: str, commands: Sequence[str]) -> None:
    """Carry out commands of ``ip`` in one process. Raises CommandError."""
    run(["ip", "-n", namespace, "-6", "-batch", "-"], stdin="\n".join(commands) + "\n", timeout=600)


def _flow(candidate: Candidate, ends: tuple[Ends, Ends]) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the ends of a flow: the hosts, and where there is no tunnel the nodes themselves."""
    nodes, hosts = ends
    if candidate is PLAIN:
        return (nodes[0], str(PAIR.local)), (nodes[1], str(PAIR.remote))
    return (hosts[0], address(PAIR.here, 5)), (hosts[1], address(PAIR.there, 5))


# --- figures ---


def _packets(measured: Measured, candidate: Candidate) -> int:
    """Measure sizes. Return the largest inner packet; 0 if the kernel lacks the candidate, or packets leave the SA."""
    try:
        with connected(candidate) as ends:
            outer, largest = _sent(candidate, ends, INNER), INNER
            while outer and _sent(candidate, ends, largest + 1):
                largest += 1
    except CommandError as error:
        measured.write({"candidate": candidate.name}, lacks=" ".join(str(error).splitlines()[1:]))
        return 0
    if outer is None:
        measured.write({"candidate": candidate.name}, lacks="its packets do not arrive inside the SA")
        return 0
    measured.take(candidate.name, f"outer packet of an inner one of {INNER} bytes", "bytes", outer)
    measured.take(candidate.name, f"largest inner packet at an outer MTU of {OUTER_MTU}", "bytes", largest)
    return largest


def _sent(candidate: Candidate, ends: tuple[Ends, Ends], size: int) -> int | None:
    """Send a UDP packet of this size. Return the bytes of its ESP packet; None if it does not arrive in one."""
    source, target = _flow(candidate, ends)
    wire = namespaces.within(ends[0][1], lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)))
    with wire, udp_socket(*source) as out, udp_socket(*target, traffic.PORT) as into:
        wire.bind((LINK, 0x86DD))
        into.settimeout(_SILENCE)
        with suppress(OSError):
            out.sendto(bytes(size - _UDP), (target[1], traffic.PORT))
            into.recv(1 << 16)
            wire.settimeout(0)
            packets = [one for one in _received(wire) if one[6] == _ESP]
            return len(packets[0]) if len(packets) == 1 else None
    return None


def _received(wire: socket.socket) -> Iterator[bytes]:
    with suppress(BlockingIOError):
        while True:
            yield wire.recv(1 << 16)


def _stream(measured: Measured, candidate: Candidate, ends: tuple[Ends, Ends]) -> None:
    source, target = _flow(candidate, ends)
    traffic.tcp_stream(source, target, OCTETS // 10)
    before = _busy()
    done = traffic.tcp_stream(source, target, OCTETS)
    busy = _busy() - before
    measured.take(candidate.name, "TCP", "Mbit/s", done.mbit_per_s)
    measured.take(candidate.name, "TCP, processor", "ms/MB", busy * 1000 / (OCTETS / 1e6))


def _set_up(measured: Measured, candidate: Candidate, peers: int) -> None:
    """Add what the candidate needs for so many peers besides the SAs of the nodes' own addresses."""
    instance = Instance()
    namespace = instance.namespace("a")
    try:
        namespaces.create(namespace)
        batch(namespace, [f"link add {LINK} type veth peer name {LINK}-far", f"link set {LINK} up", *candidate.once()])
        commands = [command for number in range(1, peers + 1) for command in _of_peer(candidate, number)]
        before, begun = _used(), time.monotonic()
        batch(namespace, commands)
        spent, used = time.monotonic() - begun, _used() - before
    finally:
        instance.end()
    measured.take(candidate.name, "set-up of a peer", "ms", spent * 1000 / peers, peers=f"with {peers}")
    if peers >= MANY:
        measured.take(candidate.name, "memory of a peer", "KiB", used / peers, peers=f"with {peers}")


def _of_peer(candidate: Candidate, number: int) -> list[str]:
    pair = Pair(PAIR.local, PAIR.remote + number, PAIR.here, f"2001:db8:{number:x}:1::/64", number)
    sas = [*candidate.sas(pair), *candidate.policies(pair)] if candidate.tunnel_mode else []
    return [*sas, *candidate.for_peer(pair)]


def _busy() -> float:
    return busy_seconds(Path("/proc/stat").read_text(encoding="ascii"))


def _used() -> int:
    """Return the memory in KiB that the kernel has for itself and does not give back."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    found = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return found["SUnreclaim"] + found["Percpu"]


if __name__ == "__main__":
    main()
