"""While the IKE daemon is away no account can send from its ports, and doctor names the process that holds one."""

import signal
import socket
import time
from collections.abc import Iterator

import pytest

from tests.lab.basics.patience import patient
from tests.lab.forge.account import Held, bound
from tests.lab.lab import Lab
from tests.lab.net import namespaces
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node

ACCOUNT, ROOT = b"user data of an account", b"what root sends"
DATAGRAMS = 5


@pytest.fixture
def pair() -> Iterator[Lab]:
    """Start the mesh a - b and kill a's IKE daemon; it is not started again."""
    with Lab("ports", line(names(2))) as lab:
        lab.set_up().trust_all().start()
        lab["a"].wait_protected(lab["b"])
        lab["a"].daemons.charon.kill()
        yield lab


def sending(payload: bytes, *targets: str) -> str:
    """Return code that sends datagrams to the IKE port of each target. It ignores what the wall refuses."""
    return f"""
for target in {targets!r}:
    for _ in range({DATAGRAMS}):
        try:
            s.sendto({payload!r}, (target, 4500))
        except OSError:
            pass
"""


_PAST_IPSEC = """
import contextlib
policy = bytearray(168)
policy[40:42] = socket.AF_INET6.to_bytes(2, "little")
policy[160] = 1
with contextlib.suppress(OSError):
    s.setsockopt(socket.IPPROTO_IPV6, 35, bytes(policy))
"""
"""Code that lets a socket of root's send past XFRM policies, as an IKE daemon's does: IPV6_XFRM_POLICY with a ``struct
xfrm_userpolicy_info`` that allows what goes out (linux/in6.h, linux/xfrm.h). A kernel without XFRM refuses."""


def listen(lab: Lab) -> socket.socket:
    """Return a socket that sees every frame which reaches b."""
    end = lab.end_of("b", "a")

    def opened() -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        made.bind((end.interface, 0))
        made.settimeout(patient(30))
        return made

    return namespaces.within(end.namespace, opened)


def seen_until(frames: socket.socket, last: bytes, wanted: bytes) -> int:
    """Return how many frames contain ``wanted`` before the first that contains ``last``."""
    count, deadline = 0, time.monotonic() + patient(30)
    while last not in (frame := frames.recv(65536)):
        count += wanted in frame
        assert time.monotonic() < deadline, f"{last!r} does not arrive"
    return count


def test_what_an_account_sends_from_the_port_of_ike_does_not_leave(pair: Lab) -> None:
    """The control: what root sends from there afterwards, as an IKE daemon does, is seen on the wire."""
    a, b = pair["a"], pair["b"]
    with listen(pair) as frames:
        with Held(a, bound(sending(ACCOUNT, b.locator, b.address))):
            pass
        a.run("/usr/bin/python3", "-I", "-c", bound(_PAST_IPSEC + sending(ROOT, b.locator, b.address)))
        assert seen_until(frames, ROOT, ACCOUNT) == 0


def _doctor(node: Node) -> str:
    return node.meshsec("doctor", check=False).stdout


def test_an_account_that_holds_the_port_is_named_with_what_ends_it(pair: Lab) -> None:
    a, b = pair["a"], pair["b"]
    with Held(a, bound("")) as held:
        pair.start("charon", nodes=[a])
        a.wait_for("it is known that charon lacks the port", lambda: "without UDP port 4500" in _doctor(a), 60)
        said = _doctor(a)
        assert f"UDP 4500 is held by user nobody (65534), process {held.pid} (" in said
        assert f"kill {held.pid}" in said
        assert "runs without UDP port 4500" in str(a.control.ask("status")["problems"])
    a.wait_for("nobody holds it any more", lambda: "is held by" not in _doctor(a), 30)
    assert "restart the IKE daemon" in _doctor(a), "without a unit nobody but a person starts charon again"
    a.daemons.charon.send_signal(signal.SIGTERM)
    a.daemons.charon.stop()
    pair.start("charon", nodes=[a])
    a.wait_protected(b)
    a.wait_for("doctor is content", lambda: "without UDP port" not in _doctor(a), 30)
