"""What is behind two peers is protected where the overlay carries their user data, too.

The mesh is a - b - c, where a and c are peers and b relays for the overlay. The stranger m hears a.
"""

from collections.abc import Iterator

import pytest

from tests.lab.basics.shell import run
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.node import capabilities
from tests.scenarios.expectations import assert_nothing_clear, captured
from tests.scenarios.networks.sites import Sites, connected

pytestmark = pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun")

LARGE = 3_000_000
"""Bytes: a path MTU that is wrong by one header stalls the transfer."""


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    with connected("overlaid", overlay=True) as made:
        yield made


@pytest.mark.parametrize("family", [4, 6])
def test_a_large_transfer_between_hosts_fits_into_the_overlay(sites: Sites, family: int) -> None:
    first, second = sites.hosts
    source, target = (first.ipv4, second.ipv4) if family == 4 else (first.address, second.address)
    with captured(sites.lab, "transfer") as captures:
        done = traffic.tcp_stream((first.namespace, source), (second.namespace, target), LARGE)
    assert done.octets == LARGE
    assert_nothing_clear(captures)
    assert captures["b"].counts[Kind.OVERLAY] > 0
    assert captures["b"].counts[Kind.ESP] == 0


def test_a_packet_that_is_one_octet_too_long_is_told_so(sites: Sites) -> None:
    """A black hole would be silent."""
    first, second = sites.hosts
    room = int(sites.lab["a"].run("cat", "/sys/class/net/meshsec-nets/mtu").stdout) - 28
    sizes = {size: _ping(first.namespace, second.ipv4, size) for size in (room, room + 1)}
    assert "1 received" in sizes[room], sizes[room]
    assert "Frag needed" in sizes[room + 1], sizes[room + 1]


def _ping(namespace: str, target: str, size: int) -> str:
    argv = ["ping", "-n", "-M", "do", "-c", "1", "-W", "5", "-s", f"{size}", target]
    return run(["ip", "netns", "exec", namespace, *argv], check=False).stdout
