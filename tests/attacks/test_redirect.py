"""A forged answer to a node's first IKE message that redirects it elsewhere is not followed (RFC 5685)."""

import selectors
import socket
import struct
from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address

import pytest

from tests.lab.basics.patience import patient
from tests.lab.forge import insider
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.topology import line, names
from tests.lab.node.options import Options

ELSEWHERE = "fd00::bad"
IKE_PORT = 500


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Start a - b: a trusts b and initiates. b's own charon is silent; the forger at its address answers."""
    with Lab("redirect", line(names(2)), Options(policy={"unknown_nodes": "allow"})) as made:
        a, b = made["a"], made["b"]
        made.set_up()
        a.trust(b)
        b.assign_addresses()
        b.run("ip", "address", "add", ELSEWHERE, "dev", "lo")
        yield made.start(nodes=[a]).start("router", nodes=[b])


def test_a_forged_redirect_is_not_followed(lab: Lab) -> None:
    a, b = lab["a"], lab["b"]
    b.wait_route(a)
    a.wait_route(b)
    via = lab.end_of("b", "a").link_local()
    a.run("ip", "-6", "route", "add", ELSEWHERE, "via", via, "dev", f"mesh-{b.name}")
    with (
        traffic.udp_socket(b.namespace, b.announced, IKE_PORT) as peer,
        traffic.udp_socket(b.namespace, ELSEWHERE, IKE_PORT) as elsewhere,
    ):
        assert traffic.send((a.namespace, a.locator), ELSEWHERE, port=IKE_PORT), "a can send there: the negative case"
        assert elsewhere.recv(2048)  # Anything that a sends there arrives.
        _drain(elsewhere)
        first, sender = _received([peer])
        peer.sendto(_redirected(first, ELSEWHERE), sender)
        while (found := _received([peer, elsewhere])[0])[:8] == first[:8] and found[:8] != bytes(8):
            peer.sendto(_redirected(first, ELSEWHERE), sender)
        assert not _has(elsewhere), "a negotiates where a forged answer sent it"


def _received(sockets: Sequence[socket.socket]) -> tuple[bytes, tuple[str, int]]:
    with selectors.DefaultSelector() as selector:
        for one in sockets:
            selector.register(one, selectors.EVENT_READ)
        ready = selector.select(patient(90))
        assert ready, "a does not try again"
    opened = ready[0][0].fileobj
    assert isinstance(opened, socket.socket)
    if opened is not sockets[0]:
        pytest.fail("a negotiates where a forged answer sent it")
    data, sender = opened.recvfrom(4096)
    return data, sender[:2]


def _has(opened: socket.socket) -> bool:
    opened.settimeout(0.0)
    try:
        return bool(opened.recv(1))
    except BlockingIOError:
        return False


def _drain(opened: socket.socket) -> None:
    while _has(opened):
        continue
    opened.settimeout(patient(90))


def _redirected(request: bytes, target: str) -> bytes:
    """Answer an IKE_SA_INIT with a REDIRECT that repeats its nonce, which everybody on the link has read."""
    payloads = dict(insider.payloads_of(request))
    data = bytes([2, 16]) + IPv6Address(target).packed + payloads[insider.NONCE]
    body = struct.pack("!BBHBBH", 0, 0, 8 + len(data), 0, 0, insider.REDIRECT) + data
    return request[:8] + bytes(8) + struct.pack("!BBBBII", insider.NOTIFY, 0x20, 34, 0x20, 0, 28 + len(body)) + body
