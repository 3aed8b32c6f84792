"""olsrv2d's memory stays bounded while forged claims fill more than half of both families' tables."""

import itertools
import json
import socket
import time
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from scapy.layers.l2 import Ether

from tests.attacks.routing import Stranger, under_attack
from tests.lab.forge.raw import Forger, Way
from tests.lab.forge.rfc5444 import LONGEST, Entry, Message, datagram, edge, hello, link, neighbour, packet, tc
from tests.lab.node.routers import Mesh, Router

pytestmark = pytest.mark.flood

LINKS, TWO_HOPS, ROUTERS, TUPLES = 256, 16384, 4096, 65536
"""olsrv2d's bounds for a family (ADR 0052): what a mesh of 1000 routers needs, four times over."""
BEHIND = ROUTERS // LINKS - 1
"""Number of invented routers behind each invented neighbour."""
ADVERTISED = TUPLES // ROUTERS
MEMORY_MAX = 512 << 20
"""MemoryMax of olsrv2d.service."""
BURST, PAUSE = 20, 0.07
"""Frames at once, and seconds between two bursts."""


def invented(version: int, kind: int, number: int) -> str:
    """Return an address of the mesh that no node has."""
    if version == 4:
        return str(IPv4Address((10 << 24) + (128 + kind << 16) + number))
    return str(IPv6Address((0xFD66 << 112) + (kind << 32) + number))


def source_of(version: int, number: int) -> str:
    """Return the address from which an invented neighbour sends."""
    return invented(4, 0, number) if version == 4 else str(IPv6Address((0xFE80 << 112) + 0x6600 + number))


def said_by_neighbour(version: int, number: int, victim: Entry, seq: int) -> Iterator[Message]:
    """Forge the messages of an invented neighbour, which hears the victim, and of the routers behind it with their
    hosts."""
    own, source = invented(version, 0, number), source_of(version, number)
    each = TWO_HOPS // LINKS
    two_hops = [neighbour(invented(version, 3, number * each + index), metric=100) for index in range(each)]
    others = [own] if version == 6 else []
    for half in (two_hops[: each // 2], two_hops[each // 2 :]):  # All of them are too long for one packet.
        yield hello(own, [source], [victim, *half], others=others, interval=LONGEST, validity=LONGEST)
    behind = [number * BEHIND + index for index in range(BEHIND)]
    yield advertisement(own, [invented(version, 1, router) for router in behind], seq)
    for router in behind:
        hosts = [invented(version, 2, router * ADVERTISED + host) for host in range(ADVERTISED - 1)]
        yield advertisement(invented(version, 1, router), [own, *hosts], seq)


def advertisement(originator: str, neighbours: Sequence[str], seq: int) -> Message:
    entries = [edge(one, metric=100) for one in neighbours]
    return tc(originator, entries, seq=seq, ansn=seq, interval=LONGEST, validity=LONGEST)


def rows(a: Router) -> dict[str, int]:
    """Count the rows of the router's tables in both families. The schema is not checked, because that takes minutes."""
    with socket.socket(socket.AF_UNIX) as reader, reader.makefile("rb") as lines:
        reader.connect(str(a.socket))
        snapshot = next(line for line in map(json.loads, lines) if line["type"] == "snapshot")
    return {name: len(found) for name, found in snapshot.items() if isinstance(found, list)}


def frames(mesh: Mesh, m: Stranger) -> Iterator[bytes]:
    """Build the frames that fill the tables, twice: routers without a route are accepted only the second time."""
    victims, way = mesh.end("a", "m"), Way.between(mesh.end("m", "a"), mesh.end("a", "m"))
    heard = {4: link(m.victim.ipv4), 6: link(victims.link_local())}
    for seq, version, number in itertools.product((1, 2), (4, 6), range(LINKS)):
        for message in said_by_neighbour(version, number, heard[version], seq):
            sent = datagram(source_of(version, number), packet(message))
            yield bytes(Ether(src=way.source_mac, dst=way.target_mac) / sent)


def send_slowly(mesh: Mesh, built: Sequence[bytes]) -> None:
    """Send no faster than a router reads that calculates routes meanwhile."""
    with Forger(Way.between(mesh.end("m", "a"), mesh.end("a", "m"))) as forger:
        for first in range(0, len(built), BURST):
            forger.send_frames(built[first : first + BURST])
            time.sleep(PAUSE)


def peak_bytes(a: Router) -> int:
    """Return the peak of the router's resident memory."""
    status = Path(f"/proc/{a.daemon.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def test_tables_that_are_more_than_half_full_and_a_reader_fit_the_units_memory() -> None:
    with under_attack() as (mesh, m):
        a = mesh["a"]
        send_slowly(mesh, list(frames(mesh, m)))
        resident, found = a.daemon.resident_bytes(), rows(a)
        print(f"{resident >> 20} MiB, {peak_bytes(a) >> 20} MiB at most, with {found}")
        assert found["nodes"] > ROUTERS, "the control: more than half of both families' routers are there"
        assert peak_bytes(a) < MEMORY_MAX
