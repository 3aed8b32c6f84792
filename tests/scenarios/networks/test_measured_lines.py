"""What bench-outside measures is what it says: the flows of a client cross a relay sealed, or in the clear as "plain".

The line is client - a - b - c - outside. The gateway c is two hops away; b only relays, and its links are captured.
"""

from pathlib import Path

import pytest

from rt.throughput import iperf, lines
from rt.throughput.outside import planes
from tests.lab.net.packets import Kind
from tests.lab.node import capabilities
from tests.lab.observe.capture import Capture

TWO_HOPS = lines.Testbed("client to outside", (1, 2), back="outside to client")
MANY = 100
"""Packets: a flow, and not what happens besides."""
EXPECTED = {"plain": Kind.CLEAR, "ipsec aes256gcm16": Kind.ESP, "overlay": Kind.OVERLAY}
RATE = 3.125
"""Mbit/s of UDP: SMesh's rate for its overlay."""

pytestmark = [
    pytest.mark.skipif(bool(iperf.obstacle()), reason=iperf.obstacle()),
    pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun"),
]


@pytest.mark.parametrize("plane", EXPECTED)
def test_a_relay_sees_the_flows_of_a_client_only_as_the_plane_carries_them(plane: str, tmp_path: Path) -> None:
    with planes(TWO_HOPS)[plane]() as line:
        line.wait_answer(2)
        namespace, interfaces = line.links[1]
        with Capture(namespace, interfaces, tmp_path) as capture:
            sent = [iperf.datagrams(line, 2, 1, RATE, back=back)[0] for back in (False, True)]
    assert all(one.delivered > 0.9 * RATE for one in sent), sent
    assert len(interfaces) == 2
    kind = EXPECTED[plane]
    assert capture.counts[kind] > MANY, capture.counts
    others = set(EXPECTED.values()) - {kind}
    assert not any(capture.counts[other] > (0 if other is Kind.CLEAR else MANY) for other in others), (
        capture.counts,
        capture.clear,
    )
