"""The policy's `copy_dscp` decides whether a tunnel's outer header shows the inner packet's DSCP, with kernel ESP.

RFC 4301, section 5.1.2.1. IPv4 user data is in a tunnel between the IPv6 addresses. IPv6 user data is in transport
mode, whose only header has the packet's own DSCP under any policy.
"""

import socket
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import namespaces
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names
from tests.lab.node import capabilities, libreswan
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import captured

EF, AF41 = 46, 34
"""Code points (RFC 3246, RFC 2597): the one that is sent, and the one that the last router writes into the outer
header."""
PORT = 5204
CHANGE = f"""\
table inet lab_dscp {{
    chain receive {{
        type filter hook prerouting priority -400;
        meta l4proto esp ip6 dscp set {AF41}
    }}
}}
"""
"""The last router may change the outer header, because ESP does not protect it."""

TRIED = [
    *(("", setting) for setting in ("out", "in")),
    # libreswan's ipsec.conf has no option against copying outwards.
    *(("bookworm", setting) for setting in ("out", "yes")),
    # This version copies nothing outwards; only its option for the other direction counts.
    *(("trixie", setting) for setting in ("no", "in")),
]
"""The libreswan of both ends (empty: strongSwan) and the setting, on and off where the daemon supports both."""

pytestmark = pytest.mark.skipif(
    capabilities.probe().esp != "kernel", reason="this kernel has no ESP; `make guest` runs this there"
)


@pytest.mark.parametrize(("suite", "setting"), [one for one in TRIED if not one[0] or one[0] in libreswan.suites()])
def test_a_tunnel_s_outer_header_has_the_dscp_that_the_policy_says(suite: str, setting: str) -> None:
    options = Options(ipv4=True, libreswan=suite, policy={"copy_dscp": setting})
    with Lab("dscp", line(names(2)), options) as lab:
        lab.set_up().trust_all()
        lab.start("pluto" if suite else "charon", "router", "meshsecd")
        a, b = lab["a"], lab["b"]
        a.wait_state(b, "protected", 180)
        b.run("nft", "-f", "-", stdin=CHANGE)
        assert sent(lab, a.ipv4, b.ipv4) == (
            EF if setting in ("out", "yes") else 0,
            AF41 if setting in ("in", "yes") else EF,
        )
        outer, _ = sent(lab, a.address, b.address)
        assert outer == EF, "transport mode has one header"


def sent(lab: Lab, source: str, target: str) -> tuple[int, int]:
    """Send user data with EF until it arrives. Return the code points of the outer header and of what arrived."""
    with captured(lab, f"dscp-{target}") as captures, ExitStack() as stack:
        going, coming = (
            stack.enter_context(closing(namespaces.within(lab[name].namespace, partial(_socket, address))))
            for name, address in (("a", source), ("b", target))
        )

        def arrived() -> int | None:
            going.sendto(b"urgent", (target, PORT))
            return _received(coming)

        inner = wait_until(f"a datagram of {source}", arrived, [], 120, lab["a"].control.summary)
        wait_until("ESP in the capture", lambda: captures["a"].sent[Kind.ESP] or None, [], 60)
    return _outer(lab["a"], captures["a"].directory), inner


def _socket(address: str) -> socket.socket:
    is_six = ":" in address
    found = socket.socket(socket.AF_INET6 if is_six else socket.AF_INET, socket.SOCK_DGRAM)
    found.bind((address, PORT))
    found.settimeout(1)
    if is_six:
        found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, EF << 2)
        found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
    else:
        found.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, EF << 2)
        found.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    return found


def _received(coming: socket.socket) -> int | None:
    """Return the code point of the next datagram; None when there is none yet."""
    try:
        _, ancillary, *_ = coming.recvmsg(64, 64)
    except TimeoutError:
        return None
    return ancillary[0][2][0] >> 2


def _outer(node: Node, directory: Path) -> int:
    """Return the code point of all ESP that the node put on its link."""
    frames = (frame for path in directory.glob("*.pcap") for frame in _frames(path.read_bytes()))
    own = socket.inet_pton(socket.AF_INET6, node.address)
    esp = [frame for frame in frames if frame[12:14] == b"\x86\xdd" and frame[20] == socket.IPPROTO_ESP]
    (found,) = {(frame[14] << 4 | frame[15] >> 4) >> 2 & 0x3F for frame in esp if frame[22:38] == own}
    return found


def _frames(pcap: bytes) -> list[bytes]:
    found, offset = [], 24
    while offset < len(pcap):
        length = int.from_bytes(pcap[offset + 8 : offset + 12], "little")
        found.append(pcap[offset + 16 : offset + 16 + length])
        offset += 16 + length
    return found
